"""What the committed map and leaderboards say of objectives, and the objective to begin with.

What the suite says is in `rlzoo/report/failure_modes.py`, which the package ships.
"""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from objectives import Objective, parse
from rlzoo.report.failure_modes import BASE
from rlzoo.report.verdict_words import verdict_from_words
from rlzoo.report.zoo import costs
from rlzoo.statistics.verdicts import Finding

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
BOARDS = {
    "sums": "leaderboard",
    "knights": "leaderboard_knights",
    "calculator": "calculator",
    "smollm2": "leaderboard_smollm2",
}
"""Name -> folder."""
NOT_MEASURED = "not measured here"
Record = Mapping[str, str]


@cache
def map_rows() -> tuple[Record, ...]:
    """The rows of map.csv, regime by regime."""
    return tuple(_rows("map/results/map.csv"))


@cache
def leaderboard_rows() -> tuple[Record, ...]:
    """The rows of all leaderboards on held-out problems, with the name of each as `board`."""
    return tuple(
        {"board": name, **record}
        for name, folder in BOARDS.items()
        for record in _rows(f"{folder}/results/leaderboard.csv")
        if record["problem_set"] == "held out" and not record["without"]
    )


def _rows(path: str) -> Iterator[Record]:
    with (BENCHMARKS / path).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


_key = cache(lambda expression: parse(expression).key)


def rows_of(objective: Objective, rows: Sequence[Record]) -> list[Record]:
    """The rows of an objective, however they were written."""
    return [row for row in rows if _key(row["objective"]) == objective.key]


def leaderboard_words(row: Record) -> str:
    """What a leaderboard found of an objective, in a sentence."""
    decoding = f"T={float(row['temperature']):g}, top-p={float(row['top_p']):g}"
    text, seeds = f"{row['board']}, {decoding}: {100 * float(row['accuracy']):.1f} %", len(row["seeds"].split())
    if not row["difference"]:
        return f"{text}, the baseline; {seeds} seeds"
    difference, low, high = (100 * float(row[f"difference{end}"]) for end in ("", "_low", "_high"))
    return f"{text}, {difference:+.1f} points [{low:.1f}, {high:.1f}], {row['verdict']}; {seeds} seeds"


@dataclass(frozen=True)
class Beginning:
    """The objective to begin with."""

    expression: str
    costs: tuple[str, ...]
    compared: tuple[str, ...]
    """All objectives on the leaderboards."""
    better: tuple[str, ...]
    """Objectives that some leaderboard calls better than its baseline, by some measure."""
    worse: tuple[str, ...]
    """Objectives that some leaderboard calls worse than its baseline, by some measure."""

    @property
    def words(self) -> str:
        """Where to begin, and why."""
        better = f"call {', '.join(self.better)}" if self.better else "call nothing"
        worse = f", and {', '.join(self.worse)} worse" if self.worse else ""
        return (
            f"No objective is better everywhere. By some measure (avg@k, pass@k, maj@k or the area under the "
            f"curve) the leaderboards here {better} better than their baseline somewhere{worse}. Of those that are "
            f"better somewhere, not significantly worse anywhere, and on several leaderboards {self.expression} has "
            f"the fewest requirements: "
            f"{'; '.join(self.costs)}."
        )


def beginning(rows: Sequence[Record] | None = None) -> Beginning:
    """The objective that asks the least of the trainer among those that some leaderboard calls better than its baseline
    and none worse, by any measure, and that are on several leaderboards; `grpo-kl` where there is none.
    """
    rows = leaderboard_rows() if rows is None else rows
    compared = tuple(dict.fromkeys(row["objective"] for row in rows))
    better, worse = (
        tuple(dict.fromkeys(row["objective"] for row in rows if finding in _findings(row)))
        for finding in (Finding.BETTER, Finding.WORSE)
    )
    boards = {name: {row["board"] for row in rows if row["objective"] == name} for name in compared}
    candidates = [name for name in better if name not in worse and len(boards[name]) > 1] or [BASE]
    expression = min(candidates, key=lambda candidate: _demands(parse(candidate)))
    return Beginning(expression, tuple(costs(parse(expression))), compared, better, worse)


def _findings(row: Record) -> set[Finding]:
    """By every measure."""
    words = [row[name] for name in row if name == "verdict" or name.endswith("_verdict")]
    return {verdict_from_words(text).finding for text in words if text}


def _demands(objective: Objective) -> tuple[int, int]:
    return len(costs(objective)), len(objective.parts)
