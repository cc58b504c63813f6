r"""Dates, weekdays and times of day: `\text{July 4th, 1998}` is `1998-07-04`, `3:45 p.m.` is `15:45`.

They are texts with words and fillers that say nothing else, so that *the day after Monday* is no weekday.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    "december",
)
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FILLERS = frozenset(
    ("it", "the", "that", "this", "is", "was", "will", "be", "falls", "a", "an", "on", "in", "of", "at", "day", "date")
)
_SAFE = re.compile(r"\\(?:text\w{0,8}|mathrm|mbox|[ ,;:!])|[{}()~$,.]")
_CLOCK = re.compile(r"(\d{1,2})\s?:\s?(\d\d)(?:\s?:\s?(\d\d))?(?!\s?:)\s*([ap]m\b)?")
_HOUR = re.compile(r"(\d{1,2})\s*([ap]m)\b")
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T\d\d:\d\d(?::\d\d)?)?")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_WORD = re.compile(r"(\d+)(?:st|nd|rd|th)?|[a-z]+|\S")


@dataclass(frozen=True)
class Moment:
    """A day, a time of day, or both; None for each part that the text does not name."""

    day: tuple[int | None, int | None, int | None] = (None, None, None)
    """Year, month and day of the month."""
    weekday: int | None = None
    clock: tuple[int, int, int] | None = None
    """Hours, minutes and seconds as they are written."""
    is_afternoon: bool | None = None
    is_calculable: bool = False
    """Whether the engine would take it for arithmetic."""

    def says(self, other: "Moment") -> bool:
        """Whether another says the same, or a weekday or *p.m.* more."""
        same_clock = self.clock == other.clock and None in (self.is_afternoon, other.is_afternoon)
        same_time = same_clock or self._time == other._time
        return self.day == other.day and self.weekday in (None, other.weekday) and same_time

    @property
    def _time(self) -> tuple[int, int, int] | None:
        if self.clock is None or self.is_afternoon is None:
            return self.clock
        hours, *rest = self.clock
        return hours % 12 + 12 * self.is_afternoon, rest[0], rest[1]


def same_moment(gold: str, answer: str) -> bool | None:
    """Whether two texts in plain notation say the same moment; None if the gold one says none."""
    wanted = moment(gold)
    given = moment(answer, is_ratio=wanted is None)
    if wanted is None and given is not None and given.clock:
        wanted = moment(gold, is_ratio=False)
    if wanted is None or (given is None and not wanted.is_calculable):
        return None
    return given is not None and wanted.says(given)


def moment(text: str, is_ratio: bool = True) -> Moment | None:
    """The moment that a text says; None if it says another thing, or more.

    If `is_ratio`, `8:11` is none: a ratio is in lowest terms, as few times of day are.
    """
    plain = re.sub(r"\b([ap])\.\s?m\b\.?", r"\1m", text.lower())
    plain = " ".join(_SAFE.sub(" ", plain).split())
    if date := _ISO.fullmatch(plain):
        year, month, day = map(int, date.groups())
        return _of_day(year, month, day, calculable=True)
    if date := _SLASHES.fullmatch(plain):
        month, day, year = map(int, date.groups())
        return _of_day(year, month, day, calculable=True)
    time = _time_of_day(plain.rpartition("=")[2], is_ratio)
    if time is not None:
        return time
    return _of_words(list(_WORD.finditer(plain)))


def _of_day(year: int | None, month: int | None, day: int | None, calculable: bool = False) -> Moment | None:
    is_there = (month is None or 1 <= month <= 12) and (day is None or 1 <= day <= 31)
    return Moment((year, month, day), is_calculable=calculable) if is_there else None


def _time_of_day(text: str, is_ratio: bool) -> Moment | None:
    """The time that a clock shows."""
    text = re.sub(r"^(?:it is |at )", "", text.strip())
    noon = re.fullmatch(r"(?:12(?::00)? )?(noon|midnight)", text)
    if noon:
        return Moment(clock=(12, 0, 0), is_afternoon=noon[1] == "noon")
    time = _CLOCK.fullmatch(text) or _HOUR.fullmatch(text)
    if time is None:
        return None
    hours, *others, half = time.groups()
    minutes, seconds = (int(other or 0) for other in (*others, None, None)[:2])
    if int(hours) > 23 or max(minutes, seconds) > 59 or (half and not 1 <= int(hours) <= 12):
        return None
    is_24_hours = int(hours) > 12 or hours[0] == "0"
    if is_ratio and half is None and hours[0] != "0" and minutes and math.gcd(int(hours), minutes) == 1:
        return None
    is_afternoon = half == "pm" if half else (int(hours) > 12 if is_24_hours else None)
    return Moment(clock=(int(hours), minutes, seconds), is_afternoon=is_afternoon, is_calculable=True)


def _of_words(words: Sequence[re.Match[str]]) -> Moment | None:
    """The date that the words and numbers name; None if one of them names something else."""
    found: dict[str, int] = {}
    for match in words:
        word, number = match[0], match[1]
        if number:
            name, value = ("year" if len(number) == 4 else "day"), int(number)
        elif (month := _place(word, _MONTHS)) is not None:
            name, value = "month", month + 1
        elif (weekday := _place(word, _DAYS)) is not None:
            name, value = "weekday", weekday
        elif word in _FILLERS:
            continue
        else:
            return None
        if name in found:
            return None
        found[name] = value
    if not {"month", "weekday"} & found.keys() or ("day" in found and "month" not in found):
        return None
    day = _of_day(found.get("year"), found.get("month"), found.get("day"))
    return day and Moment(day.day, found.get("weekday"))


def _place(word: str, names: Sequence[str]) -> int | None:
    """Which of the names a word is, whole or cut after three letters."""
    return next((place for place, name in enumerate(names) if word in (name, name[:3], name[:4])), None)
