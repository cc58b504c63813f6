"""What the pages say of measurements."""

from collections.abc import Sequence
from pathlib import Path

from links import write_changed
from measurements import (
    NOT_MEASURED,
    Record,
    beginning,
    leaderboard_rows,
    leaderboard_words,
    map_rows,
    rows_of,
)

from objectives import FAILURE_MODES, Name, Objective
from rlzoo.report.failure_modes import ClaimEvidence, claims_about, remedies_table
from rlzoo.report.table import Cell, Column, Shown, Table

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


def write(folder: Path) -> None:
    """Writes the page of failure modes."""
    write_changed(folder / "which_objective.md", which_objective_page())


def which_objective_page() -> str:
    """Every failure mode with what addresses it, and what to begin with: `rlzoo objectives --for` says the same."""
    pieces = [
        "# Failure modes",
        f"{beginning().words} Change it when a run has a failure mode, and change one part at a time: add the part "
        "with `+`, train with it and without it on a few seeds, and [compare the two](../guides/compare.md).",
        "The last column says what [the claims table](benchmarks/claims/README.md) and "
        "[the behaviour suite](benchmarks/suite/README.md) found in small trainings with a built-in failure mode. "
        "Parts with a claim that holds stand first.",
    ]
    for name, meaning in FAILURE_MODES.items():
        table = remedies_table(name)
        pieces += [f"## {name.replace('_', ' ')}", f"`{name}`: {meaning}"]
        pieces.append(table.markdown() if table.rows else "No part addresses it; `rlzoo fit` says what a run takes.")
    return "\n\n".join(pieces) + "\n"


def failure_mode_words(name: Name) -> str:
    """What the parts address that are a method's idea."""
    lines = [f"- `{tag}`: {FAILURE_MODES[tag]}" for tag in name.failure_modes]
    return "\n".join(lines) or "None of [the failure modes](../which_objective.md)."


def map_table(objective: Objective, rows: Sequence[Record] | None = None) -> str:
    """Its row of the map in each regime: bias, noise, and what a step changes."""
    rows = rows_of(objective, map_rows()) if rows is None else rows
    if not rows:
        return f"It is {NOT_MEASURED}."
    heads = ["regime", "cosine", "signal / noise", *SHOWN.values(), "does not act", "the same there"]
    note = (
        "One update in a language whose responses are all enumerated: the cosine of the expected gradient with the "
        "policy gradient, the signal over the noise of a batch, and what a small step changes, exactly. ▲ and ▼: "
        "surely more, or less, than an equally long step along the policy gradient."
    )
    return "\n".join([note, "", Table([Column(head) for head in heads], [_cells(row) for row in rows]).markdown()])


def claims_list(objective: Objective, contribution: Sequence[str]) -> str:
    """What the suite found of the method and of the parts that are its idea, and the method's leaderboard rows."""
    claims: dict[ClaimEvidence, None] = {it: None for part in contribution for it in claims_about(part)}
    lines = [f"- {it.text} {it.summary} ({it.paper})." for it in claims if it.effect is not None]
    lines += [f"- Leaderboard {leaderboard_words(row)}." for row in rows_of(objective, leaderboard_rows())]
    return "\n".join(lines) or f"Neither suite nor leaderboards: {NOT_MEASURED}."


def _cells(row: Record) -> list[Shown]:
    same = row["same_as"].split()
    more = f" and {len(same) - FEW} more" if len(same) > FEW else ""
    return [
        row["regime"].replace("_", " "),
        f"{max(-1.0, min(1.0, float(row['cosine']))):.2f}",
        f"{float(row['signal_to_noise']):.2f}",
        *(f"{float(row[f'{name}_exact']):+.3f}{MORE[int(row[f'{name}_sign_beside'])]}" for name in SHOWN),
        Cell(", ".join(row["idle"].split()), is_code=True),
        ", ".join(same[:FEW]) + more,
    ]
