"""What was measured, as it is shipped: the map, the suite's claims and the boards.

`python -m benchmarks.evidence` makes the files of the committed results.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from objectives import Objective, parse
from rlzoo.statistics.verdicts import Finding, Verdict

EVIDENCE = Path(__file__).parents[1] / "embedded" / "evidence"


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
    interval: tuple[float, float]
    signal_to_noise: float
    shifts: Mapping[str, Shift]
    """By quantity."""
    rare: float
    """The share of the gradient that the quarter of least probable tokens has."""
    same: tuple[str, ...]
    """Expressions with the same gradient."""
    idle: tuple[str, ...]
    """Parts that act on no token there."""

    def value(self, quantity: str) -> float:
        """Of `cosine`, `signal_to_noise`, `rare`, or of a quantity that a step changes."""
        return self.shifts[quantity].value if quantity in self.shifts else float(getattr(self, quantity))


@dataclass(frozen=True)
class ClaimEvidence:
    """What a paper says of a mechanism, and what the suite found."""

    experiment: str
    trouble: str
    text: str
    paper: str
    score: str
    """What the effect is measured in."""
    effect: float | None
    """None, as are its interval and p-value, where the arms share fewer than two seeds."""
    low: float | None
    high: float | None
    p: float | None
    """Corrected for the whole table."""
    verdict: str
    """`holds`, `does not hold`, `cannot tell`, `does not fire` or `void`."""
    seeds: int
    objective: str
    against: str


@dataclass(frozen=True)
class BoardEvidence:
    """An objective on a committed board, beside the board's baseline."""

    board: str
    objective: str
    decoding: str
    accuracy: float
    difference: float | None
    """None of the baseline itself."""
    low: float | None
    high: float | None
    seeds: int
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Evidence:
    """All of it."""

    rows: Sequence[MapRow]
    policy_gradient: Mapping[str, Mapping[str, float]]
    """Regime -> quantity -> what a step along the policy gradient changes."""
    claims: Sequence[ClaimEvidence]
    boards: Sequence[BoardEvidence]

    @cached_property
    def objectives(self) -> Mapping[str, Objective]:
        """Expression of the map -> what it is."""
        return {expression: parse(expression) for expression in dict.fromkeys(row.expression for row in self.rows)}

    @cached_property
    def _by_key(self) -> Mapping[tuple[str, str], MapRow]:
        return {(row.regime, self.objectives[row.expression].key): row for row in self.rows}

    def row(self, regime: str, objective: Objective) -> MapRow | None:
        """Of an objective, however it was written; None if the map has none."""
        return self._by_key.get((regime, objective.key))

    def written(self, objective: Objective) -> str:
        """As the map writes it, if the map has it."""
        return next(
            (expression for expression, parsed in self.objectives.items() if parsed == objective), str(objective)
        )

    def claims_about(self, part: str) -> list[ClaimEvidence]:
        """Those whose two arms differ in a part, whatever else they have."""
        return [claim for claim in self.claims if part in _differing(claim.objective, claim.against)]

    def on_boards(self, objective: Objective) -> list[BoardEvidence]:
        """Its rows on the boards."""
        return [row for row in self.boards if _parsed(row.objective) == objective]


@cache
def shipped() -> Evidence:
    """What comes with the package; what was not measured yet is empty."""
    table, claims, boards = (_read(name) for name in ("map", "suite", "boards"))
    rows = [
        _map_row(name, regime["groups"], expression, row)
        for name, regime in table.items()
        for expression, row in regime["rows"].items()
    ]
    return Evidence(
        rows=rows,
        policy_gradient={name: regime["policy_gradient"] for name, regime in table.items()},
        claims=[_claim(record) for record in claims.get("claims", [])],
        boards=[_board_row(record) for record in boards.get("rows", [])],
    )


def _read(name: str) -> dict[str, Any]:
    path = EVIDENCE / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _map_row(regime: str, groups: Sequence[Sequence[str]], expression: str, row: Mapping[str, Any]) -> MapRow:
    mean, low, high = row["cosine"]
    same = next((group for group in groups if expression in group), ())
    return MapRow(
        regime,
        expression,
        cosine=mean,
        interval=(low, high),
        signal_to_noise=row["signal_to_noise"],
        shifts={name: Shift(*numbers) for name, numbers in row["shifts"].items()},
        rare=row["rare"],
        same=tuple(name for name in same if name != expression),
        idle=tuple(row["idle"]),
    )


def _claim(record: Mapping[str, Any]) -> ClaimEvidence:
    """As claims.json has it."""
    return ClaimEvidence(
        experiment=record["experiment"],
        trouble=record["trouble"],
        text=record["claim"],
        paper=record["paper"],
        score=record["score"],
        effect=record["effect"],
        low=record["low"],
        high=record["high"],
        p=record["p_corrected"],
        verdict=record["verdict"],
        seeds=record["seeds"],
        objective=record["objective"],
        against=record["objective_against"],
    )


def _board_row(record: Mapping[str, Any]) -> BoardEvidence:
    """As boards.json has it, where a finding is the words that it is."""
    verdict = record["verdict"]
    return BoardEvidence(**{**record, "verdict": Verdict(**{**verdict, "finding": Finding(verdict["finding"])})})


@cache
def _parsed(expression: str) -> Objective:
    return parse(expression)


@cache
def _differing(first: str, second: str) -> frozenset[str]:
    ours, theirs = (set(_parsed(expression).parts) for expression in (first, second))
    return frozenset(part.name for part in ours ^ theirs)
