"""The page of failure modes, and what the pages of methods say of claims."""

from collections.abc import Sequence
from pathlib import Path

from links import write_changed

from objectives import FAILURE_MODES, Name
from rlzoo.report.failure_modes import claims_about, remedies_table


def write(folder: Path) -> None:
    """Writes the page of failure modes."""
    write_changed(folder / "which_objective.md", which_objective_page())


def which_objective_page() -> str:
    """Every failure mode with what addresses it: `rlzoo objectives --for` says the same."""
    pieces = [
        "# Failure modes",
        "No objective is better on every leaderboard here ([which objective?](../guides/choose.md)). Change it when a "
        "run has a failure mode, and change one part at a time: add the part with `+`, train with it and without it on "
        "a few seeds, and [compare the two](../guides/compare.md).",
        "The last column says what [the claims table](benchmarks/claims/README.md) and "
        "[the behaviour suite](benchmarks/suite/README.md) found in trainings of tiny models on tasks with a "
        "built-in failure mode. Parts with a claim that holds or is reproduced, and none that fails, stand first.",
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


def claims_list(contribution: Sequence[str]) -> str:
    """What claims table and suite found of the single parts that are a method's idea."""
    claims = dict.fromkeys(claim for part in contribution for claim in claims_about(part))
    lines = [f"- {claim.text} {claim.summary} ({claim.paper})." for claim in claims if claim.effect is not None]
    whole = "Claims about whole methods are in [the table of claims](../benchmarks/claims/README.md)."
    if not lines:
        return f"No claim about a single part of its idea was asked of runs here. {whole}"
    which = "Of its single parts. Each line names its two arms, which may also differ in a parameter or a further part."
    return "\n".join([f"{which} {whole}\n", *lines])
