"""From what troubles a user to what addresses it."""

from collections.abc import Sequence
from dataclasses import dataclass

from objectives import TROUBLES, Name, Objective, Trouble, parse, with_examples
from rlzoo.choosing.advice import ADVICE, Advice
from rlzoo.choosing.costs import costs
from rlzoo.choosing.evidence import BoardEvidence, ClaimEvidence, Evidence, shipped
from rlzoo.choosing.remedies import BASE, Remedy, of_expression, of_part, own_names
from rlzoo.choosing.understanding import ALSO, UNDERSTOOD, likeness, named_in
from rlzoo.errors import UserError, printable
from rlzoo.statistics.verdicts import Finding

NEAREST = 3
"""Troubles that are named if none was understood."""


@dataclass(frozen=True)
class Beginning:
    """Where to start."""

    expression: str
    costs: tuple[str, ...]
    boards: tuple[BoardEvidence, ...]
    """Its rows on the boards."""
    compared: tuple[str, ...]
    """All objectives on the boards."""
    better: tuple[str, ...]
    """Objectives that some board calls better than its baseline."""
    worse: tuple[str, ...]
    """Objectives that some board calls worse than its baseline."""


@dataclass(frozen=True)
class Choice:
    """The answer."""

    words: str
    trouble: Trouble
    others: tuple[Trouble, ...]
    """What may have been meant as well."""
    advice: Advice
    named: tuple[Remedy, ...]
    """The recipes that were named, if there are several."""
    remedies: tuple[Remedy, ...]
    """Parts, the most promising first by what was measured."""
    claims: tuple[ClaimEvidence, ...]
    """What else the suite found of the trouble."""
    beginning: Beginning


def choose(words: str) -> Choice:
    """What addresses the trouble that is described. Raises UserError if the description is like none."""
    zoo = own_names()
    named, rest = named_in(words, zoo)
    (trouble, best), *others = _understood(words, named, rest)
    evidence, advice = shipped(), ADVICE[trouble.tag]
    also = tuple(other for other, value in others if value >= max(UNDERSTOOD, ALSO * best))
    remedies = addressing(trouble.tag)
    shown_with = [claim for remedy in remedies for claim in remedy.claims]
    shown = [advice, *(ADVICE[other.tag] for other in also)]
    return Choice(
        words=words,
        trouble=trouble,
        others=also,
        advice=advice,
        named=tuple(of_expression(with_examples(name), shown, evidence) for name in named) if len(named) > 1 else (),
        remedies=remedies,
        claims=tuple(claim for claim in evidence.claims if claim.trouble == trouble.tag and claim not in shown_with),
        beginning=beginning(evidence),
    )


def addressing(tag: str) -> tuple[Remedy, ...]:
    """What addresses a trouble of `TROUBLES`, the most promising first by what was measured."""
    evidence, advice = shipped(), ADVICE[tag]
    parts = [name for name in own_names() if name.kind == "part" and tag in name.troubles]
    remedies = [of_part(name, advice, evidence) for name in parts]
    remedies += [of_expression(expression, [advice], evidence) for expression in advice.expressions]
    return tuple(sorted(remedies, key=lambda remedy: remedy.promise, reverse=True))


def _understood(words: str, named: Sequence[Name], rest: str) -> list[tuple[Trouble, float]]:
    """Every trouble, the likest first. Raises UserError if the first is not like enough."""
    alike = likeness(rest)
    if alike[0][1] < UNDERSTOOD and len(named) > 1:
        about = _differing(named[0], named[1])
        alike = [*((TROUBLES[tag], 1.0) for tag in about), *(pair for pair in alike if pair[0].tag not in about)]
    if alike[0][1] < UNDERSTOOD:
        near = ", ".join(f"{trouble.tag} ({trouble.words[0]})" for trouble, _ in alike[:NEAREST])
        raise UserError(
            f"rlzoo choose {printable(words)!r}: that is like no trouble known here; the nearest are {near}; "
            "rlzoo choose alone lists them all"
        )
    return alike


def _differing(first: Name, second: Name) -> list[str]:
    """The troubles that the parts address in which two recipes differ."""
    ours, theirs = (set(parse(with_examples(name)).parts) for name in (first, second))
    addressed = {tag for part in ours ^ theirs for tag in part.troubles}
    return [tag for tag in dict.fromkeys((*second.troubles, *first.troubles)) if tag in addressed]


def beginning(evidence: Evidence) -> Beginning:
    """What asks the least of the trainer among the objectives that some board calls better than its baseline and none
    worse; where there is none, `grpo`.
    """
    rows = evidence.boards
    compared, better, worse = (
        tuple(dict.fromkeys(row.objective for row in rows if finding in (None, row.verdict.finding)))
        for finding in (None, Finding.BETTER, Finding.WORSE)
    )
    candidates = [candidate for candidate in better if candidate not in worse] or [BASE]
    expression = min(candidates, key=lambda candidate: _asks(parse(candidate)))
    return Beginning(
        expression=expression,
        costs=tuple(costs(parse(expression))),
        boards=tuple(row for row in rows if row.objective == expression),
        compared=compared,
        better=better,
        worse=worse,
    )


def _asks(objective: Objective) -> tuple[int, int]:
    return len(costs(objective)), len(objective.parts)
