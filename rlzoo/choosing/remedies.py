"""What addresses a trouble, with its cost, what shows it, and what was measured of it here."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from objectives import (
    Advantage,
    Aggregate,
    Name,
    Objective,
    ObjectiveError,
    Part,
    Penalty,
    Ratio,
    Schedule,
    names,
    parse,
    with_examples,
)
from rlzoo.choosing.advice import Advice
from rlzoo.choosing.costs import costs
from rlzoo.choosing.evidence import BoardEvidence, ClaimEvidence, Evidence, MapRow, shipped

BASE = "grpo-kl"
"""What parts are added to where nothing says otherwise: the map and the suite contrast single parts on it."""


@dataclass(frozen=True)
class OnTheMap:
    """What the map says of an objective, in the regime that has the trouble."""

    row: MapRow
    quantity: str
    value: float
    without: float | None
    """The same objective without the part; None where the map has no such row."""
    policy_gradient: float | None
    """What an equal step along the policy gradient changes; None of what is no change."""
    helps: int
    """1 or -1 if the step does for sure more, or less, of what is wanted than one along the policy gradient."""
    gain: float
    """By how much the part helps; negative where it does not."""
    is_idle: bool
    """Whether the part acts on no token there, so that the map says nothing of it."""


@dataclass(frozen=True)
class Remedy:
    """A part of an objective, or a whole one."""

    name: str
    """Of a part; otherwise the expression."""
    summary: str
    paper: str
    expression: str
    """What to type."""
    against: str
    """The same without the part; empty for a whole objective."""
    costs: tuple[str, ...]
    """What the trainer calculates for it, beyond what it does for `against`."""
    metric: str
    """What of a run shows that it acts; empty for what acts on every token."""
    map: tuple[OnTheMap, ...]
    claims: tuple[ClaimEvidence, ...]
    boards: tuple[BoardEvidence, ...]
    """Of a whole objective; that it has a part is not all that makes a difference there."""

    @property
    def promise(self) -> tuple[int, int, float]:
        """By which remedies are ordered: what the suite found, then what the map did."""
        verdicts = {claim.verdict for claim in self.claims}
        in_suite = ("holds" in verdicts) - ("does not hold" in verdicts)
        if not self.map or self.map[0].is_idle:
            return in_suite, 0, -1e-9
        return in_suite, self.map[0].helps, self.map[0].gain


@cache
def own_names() -> list[Name]:
    """The recipes and parts of the zoo itself."""
    return [name for name in names() if ":" not in name.name]


def of_part(name: Name, advice: Advice, evidence: Evidence) -> Remedy:
    """A part as a remedy, in the expression of which most is known."""
    expression, objective, base = _contrast(name.name, advice.regime, evidence)
    taken = costs(base) if base != objective else []
    on_map = _on_the_map(objective, advice, evidence, name.name, base)
    return Remedy(
        name=name.name,
        summary=name.summary,
        paper=name.paper,
        expression=expression,
        against=evidence.written(base) if base != objective else "",
        costs=tuple(line for line in costs(objective) if line not in taken),
        metric=shown_by(next(part for part in objective.parts if part.name == name.name)),
        map=(on_map,) if on_map else (),
        claims=tuple(evidence.claims_about(name.name)),
        boards=(),
    )


def of_expression(expression: str, advices: Sequence[Advice], evidence: Evidence) -> Remedy:
    """A whole objective as a remedy."""
    objective = parse(expression)
    about = next((name for name in own_names() if with_examples(name) == expression), None)
    on_map = [_on_the_map(objective, advice, evidence) for advice in advices]
    return Remedy(
        name=expression,
        summary=about.summary if about else str(objective.equation),
        paper=about.paper if about else "",
        expression=expression,
        against="",
        costs=tuple(costs(objective)),
        metric="",
        map=tuple(entry for entry in on_map if entry is not None),
        claims=tuple(claim for claim in evidence.claims if parse(claim.objective) == objective),
        boards=tuple(evidence.on_boards(objective)),
    )


def shown_by(part: Part) -> str:
    """The metric that counts the tokens a part acted on; empty for parts that act on all of them."""
    on_all = isinstance(part, Advantage | Aggregate | Ratio)
    on_all = on_all or (isinstance(part, Schedule) and part.pass_count == 1)
    if on_all or (isinstance(part, Penalty) and not part.chooses):
        return ""
    return f"touched/{part.name}/tokens"


def _contrast(part: str, regime: str, evidence: Evidence) -> tuple[str, Objective, Objective]:
    """An expression with a part, and the same without it: from the map if there is one in which the part acts."""
    pairs = contrasts_of(part)
    on_map = [pair for pair in pairs if _acts(part, evidence.row(regime, pair[1]))]
    both = [pair for pair in on_map if evidence.row(regime, pair[2]) is not None]
    return next(iter([*both, *on_map, *pairs]))


def _acts(part: str, row: MapRow | None) -> bool:
    return row is not None and part not in row.idle


@cache
def contrasts_of(part: str) -> tuple[tuple[str, Objective, Objective], ...]:
    """What has a part, and that without it: on the base, then recipes of which it is an idea, then all of the map."""
    by_name = {name.name: name for name in own_names()}
    on_map = shipped().objectives
    written = [
        f"{BASE}+{with_examples(by_name[part])}",
        *(expression for expression in on_map if expression.startswith(BASE)),
    ]
    written += [*(with_examples(name) for name in by_name.values() if name.kind == "recipe"), *on_map]
    pairs = []
    for expression in dict.fromkeys(written):
        try:
            objective = on_map.get(expression) or parse(expression)
        except ObjectiveError:  # it contradicts the base, or is removed from it
            continue
        if any(member.name == part for member in objective.parts):
            pairs.append((expression, objective, _without(part, objective)))
    return tuple(pairs)


def _without(part: str, objective: Objective) -> Objective:
    """The objective itself where its stage needs the part."""
    try:
        return objective.without(part)
    except ObjectiveError:
        return objective


def _on_the_map(
    objective: Objective, advice: Advice, evidence: Evidence, part: str = "", base: Objective | None = None
) -> OnTheMap | None:
    row = evidence.row(advice.regime, objective)
    if row is None:
        return None
    other = evidence.row(advice.regime, base) if base else None
    value = row.value(advice.quantity)
    without = other.value(advice.quantity) if other else None
    along = evidence.policy_gradient[advice.regime].get(advice.quantity)
    beside = row.shifts[advice.quantity].beside if advice.quantity in row.shifts else 0
    wanted = 1 if advice.more else -1
    reference = next((candidate for candidate in (without, along) if candidate is not None), value)
    return OnTheMap(
        row=row,
        quantity=advice.quantity,
        value=value,
        without=without,
        policy_gradient=along,
        helps=beside * wanted,
        gain=(value - reference) * wanted,
        is_idle=part in row.idle,
    )
