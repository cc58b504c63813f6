r"""Mathematical answers in `\boxed{}`, compared by math-verify.

Math-verify parses the gold answers of common benchmarks differently when they stand bare: 108 of MATH-500's do not even
match themselves. So gold and response go the same way: both are brought into one notation (`rlzoo.tasks.notation`),
freed of labels and units (`rlzoo.tasks.answer`), and parsed as LaTeX in a box. Without math-verify's search for unboxed
numbers a response that does not close its box earns nothing.
"""

import itertools
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rlzoo.tasks.answer import ORDER, MathAnswer, Reading, read
from rlzoo.tasks.chains import Chain
from rlzoo.tasks.notation import alternatives, typeset
from rlzoo.tasks.symbolic import parsed, region, same
from rlzoo.tasks.text import Boxes
from rlzoo.tasks.units import contradict

LONGEST_ANSWER = 1000
"""Characters. Gold answers of the usual benchmarks have at most 210; parsing far longer ones only costs time."""

DEEPEST_ANSWER = 10
"""Brackets within brackets. Those gold answers nest at most 4; the time that parsing takes is exponential in it."""

_HIDES = re.compile(r"\\[hv]?phantom(?![A-Za-z])\s*(\{[^{}]*\}|\S)?")
_COMMAND = re.compile(r"\\[A-Za-z]+")
_LETTER = re.compile(r"\(?([A-Z])[).]?")
_CHOICE = re.compile(r"\(([A-Z])\)[\s:.]*(?=\S)|([A-Z])[).:]\s*(?=\S)")
_SPACE = r"(?:[\s~]|\\[\s,;:!\\]|\\q?quad(?![A-Za-z]))*"
_GOLD_CHOICE = re.compile(
    rf"(?:\\(?:text\w*|mathrm|mathbf|mbox)\s*\{{\s*(?=[^{{}}]*\}}))?(?:\(([A-Z])\)|(?<=\{{)([A-Z])\.(?=\s*\}})){_SPACE}\}}?{_SPACE}"
    r"([^\s}\\~].*|\\[A-Za-z{(].*)",
    re.DOTALL,
)
_TO = re.compile(r"(\d)\s*(?:\\text\s*\{\s*to\s*\}|\bto\b)\s*(?=\d)")
_RATIO = re.compile(r"[^:<>=]+(?::[^:<>=]+){2,}")
_NOTHING = {
    **dict.fromkeys(("dne", "the limit does not exist", "limit does not exist"), "does not exist"),
    **{"no solutions": "no solution", "no real solutions": "no real solution"},
}
_EMPTY = (r"\emptyset", "")
_FURTHER_CHOICE = re.compile(r"\(([A-Z])\)|^([A-Z])[).:]|(?:[,;/&]|\b(?:or|and)\b)\W*([A-Z])(?=[).:,;]|\W*$)")
"""Another label behind the first: `or (C)`, `C. D.`, `, C: 8`."""
_PERCENTAGE = re.compile(r"-?[1-9]\d*(?:\.\d+)?")
_PERCENT = re.compile(r"\s*\\?%$")


@dataclass(frozen=True)
class Gold:
    """A gold answer, understood once."""

    answer: MathAnswer
    meanings: tuple[Any, ...]
    is_equation: bool
    has_letters: bool


def equivalent(gold: str, answer: str) -> bool:
    """Whether the two are equal; bounded neither in time nor in memory, so call it in a `GraderPool`.

    Numbers are compared exactly: 0.1 is not 0.1000001. Only where the gold one has no end as a decimal, such as 1/3,
    and within lists, is a decimal taken whose first 6 places beyond the leading zeros agree. 52 is `52_8`, as problems
    name the base themselves, but neither `52_9` nor, where the gold answer has no base, is `52_8` 52. A phantom that
    the gold answer does not have earns nothing.
    """
    if gold.strip() == answer.strip():
        return True
    if _is_too_long(answer) or not _phantoms(answer) <= _phantoms(gold):
        return False
    if choice := _GOLD_CHOICE.fullmatch(gold.strip()):
        return _is_choice_or_its_value(choice, answer)
    wanted = understood(gold)
    given = read(answer, bare_units=not wanted.has_letters, equations=wanted.is_equation)
    if not given.holds or not _may_be_equal(wanted.answer, given):
        return False
    return any(_equal(wanted, reading) for reading in given.readings) or _equal_regions(wanted, given)


def _phantoms(answer: str) -> set[str | None]:
    """What the answer sets but does not show."""
    return {phantom[1] for phantom in _HIDES.finditer(answer)}


def _is_choice_or_its_value(choice: re.Match[str], answer: str) -> bool:
    """Whether an answer is the letter of a gold `(A) 3`, its value, or the two together."""
    given = _GOLD_CHOICE.fullmatch(answer.strip())
    letter, value = _letter_and_value(choice)
    if given:
        other, its_value = _letter_and_value(given)
        return letter == other and equivalent(value, its_value)
    return equivalent(letter, answer) or equivalent(value, answer)


def _letter_and_value(choice: re.Match[str]) -> tuple[str, str]:
    return choice[1] or choice[2], choice[3]


def right(gold: str, boxes: Boxes) -> bool:
    """Whether the final boxes of a response give the gold answer: as one set, or each of them.

    Boxes of which either may be meant are a set only where the gold answer says *or* as well.
    """
    if all(equivalent(gold, content) for content in boxes.contents):
        return True
    is_set = not boxes.alternatives or len(alternatives(typeset(gold))) > 1
    return len(boxes.contents) > 1 and is_set and equivalent(gold, str(boxes))


def nesting(answer: str) -> int:
    """How deep brackets of any kind stand within each other, closed or not."""
    depth = itertools.accumulate((character in "([{") - (character in ")]}") for character in answer)
    return max(depth, default=0)


def normalised(answer: str) -> str:
    """The answer in plain notation, for majority votes; calculates nothing, so that it may be called anywhere."""
    return answer.strip() if _is_too_long(answer) else read(answer).readings[-1].latex


def _is_too_long(answer: str) -> bool:
    return len(answer) > LONGEST_ANSWER or nesting(answer) > DEEPEST_ANSWER


@lru_cache(maxsize=4096)
def understood(gold: str) -> Gold:
    """What the gold answer says."""
    is_equation = "=" in Chain.of(typeset(gold)).relations
    answer = read(gold, equations=is_equation)
    values = " ".join(reading.latex for reading in answer.readings)
    return Gold(
        answer, tuple(_meanings(answer)), is_equation, re.search("[A-Za-z]", _COMMAND.sub("", values)) is not None
    )


def _meanings(answer: MathAnswer) -> list[Any]:
    return [meaning for reading in answer.readings for meaning in parsed(reading.latex)]


def _may_be_equal(gold: MathAnswer, given: MathAnswer) -> bool:
    """False if base, brackets or units say that the two are different things."""
    in_base = given.base in (None, gold.base or "10")
    of_a_kind = {gold.readings[-1].kind, given.readings[-1].kind} != {"set", "tuple"}
    in_units = not any(contradict(first, second) for first, second in zip(gold.units, given.units, strict=False))
    return in_base and of_a_kind and in_units


def _equal(gold: Gold, reading: Reading) -> bool:
    wanted, given = gold.answer.readings[0].latex, reading.latex
    if letter := _LETTER.fullmatch(wanted):
        choice = _LETTER.fullmatch(given) or _CHOICE.match(given)
        return (choice is not None and _chosen(given, choice) == {letter[1]}) or same(gold.meanings, parsed(given))
    if gold.answer.base is not None and gold.answer.base != "10":
        return wanted.upper() == given.upper()
    if ":" in wanted:
        given = _TO.sub(r"\1:", given)
    if _RATIO.fullmatch(wanted) or _RATIO.fullmatch(given):
        return _equal_ratios(wanted.split(":"), given.split(":"))
    if _words(wanted) and (_words(wanted) == _words(given) or (_words(wanted) == "no solution" and given in _EMPTY)):
        return True
    if same(gold.meanings, parsed(given)):
        return True
    if (prefix := _CHOICE.match(given)) and same(gold.meanings, parsed(given[prefix.end() :])):
        return True
    bare = [_PERCENT.sub("", latex) for latex in (wanted, given)]
    only_one_says_percent = (bare[0] == wanted) != (bare[1] == given)
    return only_one_says_percent and all(map(_PERCENTAGE.fullmatch, bare)) and same(parsed(bare[0]), parsed(bare[1]))


def _equal_ratios(wanted: list[str], given: list[str]) -> bool:
    """Whether the members of two ratios are proportional."""
    if len(wanted) != len(given):
        return False
    crossed = [((wanted[0], there), (here, given[0])) for here, there in zip(wanted[1:], given[1:], strict=True)]
    return all(same(*(parsed(rf"({a}) \cdot ({b})") for a, b in pair)) for pair in crossed)


def _chosen(given: str, choice: re.Match[str]) -> set[str]:
    """The labels that an answer gives, the one that it begins with among them."""
    further = _FURTHER_CHOICE.finditer(given[choice.end() :])
    return {label for match in (choice, *further) for label in match.groups() if label}


def _words(latex: str) -> str:
    """What a text says, in small letters; "" if it is none."""
    words = re.sub(r"\\text\s*|[{}().,'\"]", "", latex).strip()
    words = " ".join(words.lower().split()) if re.fullmatch(r"[A-Za-z\s-]{2,}", words) else ""
    return _NOTHING.get(words, words)


def _equal_regions(gold: Gold, given: MathAnswer) -> bool:
    """Whether inequalities and intervals joined by *and* and *or* say the same."""
    both = (gold.answer, given)
    if not any(ORDER.search(condition) for answer in both for conditions in answer.regions for condition in conditions):
        return False
    first, second = (region(answer.regions) for answer in both)
    return first is not None and second is not None and same([first], [second])
