"""Which parts and recipes address a failure mode, and what the claims table and the behaviour suite say of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from objectives import FAILURE_MODES, Name, ObjectiveError, names, parse, with_examples
from objectives.zoo import RECIPES
from rlzoo.errors import UserError, nearest
from rlzoo.report.table import Cell, Column, Table, pairs, plain_console

EVIDENCE = Path(__file__).parents[1] / "embedded" / "evidence"
"""What was measured, as `python -m benchmarks.evidence` makes it of the committed results."""
BASE = "grpo-kl"
"""What a part is added to where it goes with it: the suite contrasts single parts on it."""


@dataclass(frozen=True)
class ClaimEvidence:
    """What a paper says of a mechanism, and what the suite found."""

    experiment: str
    failure_mode: str
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
    """Of the claims table: `reproduced`, `contradicted`, `not reproduced`, `open`, `cannot be asked here`; of the
    suite: `holds`, `does not hold`, `cannot tell`, `does not fire` or `void`."""
    seeds: int
    objective: str
    against: str

    @property
    def summary(self) -> str:
        """The two arms, the verdict, and the first arm's score less the second's with interval and number of seeds."""
        judged = f"{self.objective} less {self.against} in {self.experiment}: {self.verdict}"
        if self.effect is None or self.low is None or self.high is None:
            return judged
        return f"{judged}, {self.score} {self.effect:+.3g} [{self.low:.3g}, {self.high:.3g}], {self.seeds} seeds"


@dataclass(frozen=True)
class Remedy:
    """A part that addresses a failure mode."""

    name: str
    summary: str
    paper: str
    expression: str
    """An objective that has it."""
    recipes: tuple[str, ...]
    """Recipes that have the part in their contribution."""
    claims: tuple[ClaimEvidence, ...]
    """What was found of it where the failure mode is there on purpose."""
    rank: int
    """-1 if a claim about the failure mode holds, 1 if one does not; 0 otherwise."""


_RECORDED = {"failure_mode": "trouble", "text": "claim", "p": "p_corrected", "against": "objective_against"}
"""Field of a claim -> what the evidence calls it, where that is not the same."""
HOLDS, FAILS = frozenset({"holds", "reproduced"}), frozenset({"does not hold", "contradicted", "not reproduced"})


@cache
def all_claims() -> tuple[ClaimEvidence, ...]:
    """Those of the claims table that are asked of runs, and those of the suite; none where none is shipped."""
    paths = [EVIDENCE / name for name in ("claims.json", "suite.json")]
    found = [json.loads(path.read_text(encoding="utf-8"))["claims"] for path in paths if path.exists()]
    return tuple(_claim(record) for records in found for record in records)


def _claim(record: Mapping[str, Any]) -> ClaimEvidence:
    return ClaimEvidence(**{it.name: record[_RECORDED.get(it.name, it.name)] for it in fields(ClaimEvidence)})


@cache
def claims_about(part: str) -> tuple[ClaimEvidence, ...]:
    """Claims whose first arm has a part that the other has not, or lacks it, and differs in no other idea."""
    return tuple(claim for claim in all_claims() if _contrasted(claim.objective, claim.against) == {part})


@cache
def _contrasted(first: str, second: str) -> frozenset[str]:
    """The parts in which two objectives differ; of several, those that are the idea of a recipe that is named."""
    ours, theirs = (frozenset(parse(expression).parts) for expression in (first, second))
    differing = frozenset(part.name for part in (ours - theirs) or (theirs - ours))
    ideas = frozenset(RECIPES[first].contribution) if first in RECIPES else frozenset()
    return differing if len(differing) == 1 else differing & ideas


def addressing(failure_mode: str) -> list[Remedy]:
    """The parts that address a failure mode of `FAILURE_MODES`. Raises UserError, with all of them, for another."""
    if failure_mode not in FAILURE_MODES:
        listed = ", ".join(FAILURE_MODES)
        meant = nearest(failure_mode, FAILURE_MODES, most=1)
        raise UserError(f"--for {failure_mode}: not a failure mode{meant}; there are {listed}")
    zoo = [name for name in names() if ":" not in name.name]
    recipes = [name for name in zoo if name.kind == "recipe"]
    parts = [name for name in zoo if name.kind == "part" and failure_mode in name.failure_modes]
    return sorted((_remedy(part, recipes, failure_mode) for part in parts), key=lambda remedy: remedy.rank)


def _remedy(part: Name, recipes: Sequence[Name], failure_mode: str) -> Remedy:
    of_idea = [recipe for recipe in recipes if part.name in RECIPES[recipe.name].contribution]
    candidates = [f"{BASE}+{with_examples(part)}", *map(with_examples, [*of_idea, *recipes])]
    claims = tuple(claim for claim in claims_about(part.name) if claim.failure_mode == failure_mode)
    verdicts = {claim.verdict for claim in claims}
    return Remedy(
        name=part.name,
        summary=part.summary,
        paper=part.paper,
        expression=next(text for text in candidates if _has(text, part.name)),
        recipes=tuple(recipe.name for recipe in of_idea),
        claims=claims,
        rank=bool(verdicts & FAILS) - bool(verdicts & HOLDS),
    )


def _has(expression: str, part: str) -> bool:
    """Whether it can be composed, and the part is not removed from it."""
    try:
        objective = parse(expression)
    except ObjectiveError:
        return False
    return any(member.name == part for member in objective.parts)


def remedies_table(failure_mode: str) -> Table:
    """What addresses a failure mode, what it does, and what was measured of it where the failure mode is there."""
    widths = {"part": 26, "what it does": 20, "measured": 26}
    columns = [Column(heading, is_text=True, width=width) for heading, width in widths.items()]
    return Table(columns, [_row(remedy) for remedy in addressing(failure_mode)])


def _row(remedy: Remedy) -> list[Cell]:
    recipes = f"in {', '.join(remedy.recipes)}" if remedy.recipes else ""
    first, *others = [claim.summary for claim in remedy.claims] or ["not measured"]
    does = Cell(remedy.summary.removesuffix("."), notes=[*filter(None, (recipes, remedy.paper))])
    return [Cell(remedy.name, is_code=True), does, Cell(first, notes=others)]


def print_remedies(failure_mode: str, console: Console | None = None) -> None:
    """The failure mode, and the table of what addresses it."""
    console = console or plain_console()
    table = remedies_table(failure_mode)
    console.print(f"{failure_mode}: {FAILURE_MODES[failure_mode]}", soft_wrap=True)
    console.print(table if table.rows else "no part addresses it")
    console.print("add a part to an objective: rlzoo train objective=justrl+PART; rlzoo objectives PART explains it")


def print_failure_modes(console: Console | None = None) -> None:
    """All failure modes, in a line each."""
    (console or plain_console()).print(pairs(FAILURE_MODES.items()))
