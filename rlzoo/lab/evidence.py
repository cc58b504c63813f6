"""What the map and the leaderboards say of objectives, as the package ships it, and the objective to begin with.

`python -m benchmarks.evidence` makes the files of the committed results. What the suite says is in
`report/failure_modes.py`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from objectives import Objective, parse
from rlzoo.report.failure_modes import BASE, EVIDENCE
from rlzoo.report.verdict_words import verdict_words
from rlzoo.report.zoo import costs
from rlzoo.statistics.verdicts import Finding, Verdict

NOT_MEASURED = "not measured here"


@dataclass(frozen=True)
class Shift:
    """What a small step changes."""

    value: float
    """Exactly, after a step along the mean gradient."""
    sign: int
    """1 or -1 if it grows or shrinks for sure."""
    beside: int
    """1 or -1 if it does so for sure by more, or by less, than along the policy gradient."""


@dataclass(frozen=True)
class MapRow:
    """An objective in a regime of the map."""

    regime: str
    expression: str
    cosine: float
    """With the policy gradient."""
    signal_to_noise: float
    shifts: Mapping[str, Shift]
    """By quantity."""
    same: tuple[str, ...]
    """Expressions with the same gradient."""
    idle: tuple[str, ...]
    """Parts that act on no token there."""


@dataclass(frozen=True)
class LeaderboardRow:
    """An objective on a committed leaderboard, beside its baseline."""

    board: str
    objective: str
    decoding: str
    accuracy: float
    difference: float | None
    """None for the baseline itself."""
    low: float | None
    high: float | None
    seeds: int
    verdict: Verdict

    @property
    def words(self) -> str:
        """What was found, in a sentence."""
        text = f"{self.board}, {self.decoding}: {100 * self.accuracy:.1f} %"
        if self.difference is None or self.low is None or self.high is None:
            return f"{text}, the baseline; {self.seeds} seeds"
        interval = f"{100 * self.difference:+.1f} points [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return f"{text}, {interval}, {verdict_words(self.verdict)}; {self.seeds} seeds"


# ---- what is shipped -------------------------------------------------------------------------------------------------


@cache
def map_rows() -> tuple[MapRow, ...]:
    """All rows of the map, regime by regime."""
    return tuple(
        _map_row(name, regime["groups"], expression, row)
        for name, regime in _read("map").items()
        for expression, row in regime["rows"].items()
    )


@cache
def leaderboard_rows() -> tuple[LeaderboardRow, ...]:
    """The rows of all leaderboards."""
    return tuple(map(_leaderboard_row, _read("boards").get("rows", [])))


def _read(name: str) -> dict[str, Any]:
    path = EVIDENCE / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _map_row(regime: str, groups: Sequence[Sequence[str]], expression: str, row: Mapping[str, Any]) -> MapRow:
    same = next((group for group in groups if expression in group), ())
    return MapRow(
        regime,
        expression,
        cosine=row["cosine"][0],
        signal_to_noise=row["signal_to_noise"],
        shifts={name: Shift(*numbers) for name, numbers in row["shifts"].items()},
        same=tuple(name for name in same if name != expression),
        idle=tuple(row["idle"]),
    )


def _leaderboard_row(record: Mapping[str, Any]) -> LeaderboardRow:
    verdict = record["verdict"]
    return LeaderboardRow(**{**record, "verdict": Verdict(**{**verdict, "finding": Finding(verdict["finding"])})})


# ---- questions -------------------------------------------------------------------------------------------------------

_key = cache(lambda expression: parse(expression).key)


def on_the_map(objective: Objective) -> list[MapRow]:
    """The rows of an objective, however they were written."""
    return [row for row in map_rows() if _key(row.expression) == objective.key]


def on_leaderboards(objective: Objective) -> list[LeaderboardRow]:
    """The rows of an objective, however they were written."""
    return [row for row in leaderboard_rows() if _key(row.objective) == objective.key]


@dataclass(frozen=True)
class Beginning:
    """The objective to begin with."""

    expression: str
    costs: tuple[str, ...]
    compared: tuple[str, ...]
    """All objectives on the leaderboards."""
    better: tuple[str, ...]
    """Objectives that some leaderboard calls better than its baseline."""
    worse: tuple[str, ...]
    """Objectives that some leaderboard calls worse than its baseline."""

    @property
    def words(self) -> str:
        """Where to begin, and why."""
        better = f"call {', '.join(self.better)}" if self.better else "call nothing"
        worse = f", and {', '.join(self.worse)} worse" if self.worse else ""
        return (
            f"Start with objective={self.expression}. The leaderboards here {better} better than their baseline "
            f"somewhere{worse}. Of those that are better somewhere and worse nowhere this one asks the least of the "
            f"trainer: {'; '.join(self.costs)}."
        )


def beginning(rows: Sequence[LeaderboardRow] | None = None) -> Beginning:
    """The objective that asks the least of the trainer among those that some leaderboard calls better than its baseline
    and none worse; `grpo-kl` where there is none.
    """
    rows = leaderboard_rows() if rows is None else rows
    compared, better, worse = (
        tuple(dict.fromkeys(row.objective for row in rows if finding in (None, row.verdict.finding)))
        for finding in (None, Finding.BETTER, Finding.WORSE)
    )
    candidates = [candidate for candidate in better if candidate not in worse] or [BASE]
    expression = min(candidates, key=lambda candidate: _demands(parse(candidate)))
    return Beginning(expression, tuple(costs(parse(expression))), compared, better, worse)


def _demands(objective: Objective) -> tuple[int, int]:
    return len(costs(objective)), len(objective.parts)
