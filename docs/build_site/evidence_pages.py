"""What the page of a method says of measurements, from the files that the package ships."""

from collections.abc import Iterator, Sequence

from objectives import TROUBLES, Name, Objective
from rlzoo.choosing.evidence import ClaimEvidence, Evidence, MapRow, shipped
from rlzoo.report.choice import NOT_MEASURED, board_words, claim_words

SHOWN = {
    "reward": "reward",
    "pass_8": "pass@8",
    "entropy": "entropy",
    "length_wrong": "length, wrong",
    "distinct_right": "distinct right",
    "log_rare_right": "rare right",
}
"""Quantity of the map -> the heading of its column."""
FEW = 3
"""Names that a cell takes."""
MORE = {1: " ▲", -1: " ▼", 0: ""}


def trouble_words(name: Name) -> str:
    """What the parts address that are a method's idea, in users' words."""
    lines = [f"- `{tag}`: {TROUBLES[tag].diagnosis} Users say: {TROUBLES[tag].words[0]}." for tag in name.troubles]
    return "\n".join(lines) or "None of [the troubles that the chooser knows](../../guides/choose.md)."


def map_table(objective: Objective, evidence: Evidence | None = None) -> str:
    """Its row of the map in each regime: bias, noise, and what a step changes."""
    found = evidence or shipped()
    regimes = dict.fromkeys(row.regime for row in found.rows)
    rows = [row for row in (found.row(regime, objective) for regime in regimes) if row is not None]
    if not rows:
        return f"It is {NOT_MEASURED}."
    heads = ["regime", "cosine", "signal / noise", *SHOWN.values(), "does not act", "the same there"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(_cells(row))} |" for row in rows)]
    note = (
        "One update in a language whose responses are all enumerated: the cosine of the expected gradient with the "
        "policy gradient, the signal over the noise of a batch, and what a small step changes, exactly. ▲ and ▼: "
        "surely more, or less, than an equally long step along the policy gradient."
    )
    return "\n".join([note, "", *lines])


def claims_list(objective: Objective, contribution: Sequence[str], evidence: Evidence | None = None) -> str:
    """What the suite found of the method and of the parts that are its idea, and the boards of the method."""
    found = evidence or shipped()
    claims: dict[ClaimEvidence, None] = {it: None for part in contribution for it in found.claims_about(part)}
    lines = [*(f"- {claim_words(it)} ({it.paper})." for it in claims)]
    lines += [f"- Board {board_words(row)}." for row in found.on_boards(objective)]
    return "\n".join(lines) or f"Neither suite nor boards: {NOT_MEASURED}."


def _cells(row: MapRow) -> Iterator[str]:
    yield row.regime.replace("_", " ")
    yield f"{max(-1.0, min(1.0, row.cosine)):.2f}"
    yield f"{row.signal_to_noise:.2f}"
    for quantity in SHOWN:
        shift = row.shifts[quantity]
        yield f"{shift.value:+.3f}{MORE[shift.beside]}"
    yield ", ".join(f"`{part}`" for part in row.idle)
    more = f" and {len(row.same) - FEW} more" if len(row.same) > FEW else ""
    yield ", ".join(f"`{name}`" for name in row.same[:FEW]) + more
