"""What `rlzoo choose` says."""

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.table import Table

from objectives import TROUBLES
from rlzoo.choosing.advice import QUANTITIES
from rlzoo.choosing.choose import Beginning, Choice
from rlzoo.choosing.evidence import BoardEvidence, ClaimEvidence
from rlzoo.choosing.remedies import OnTheMap, Remedy
from rlzoo.report.formatting import verdict_words
from rlzoo.report.table import plain_console

NOT_MEASURED = "not measured here"
BESIDE: Mapping[int, str] = {
    1: "surely better than the policy gradient",
    -1: "surely worse than the policy gradient",
    0: "not told from the policy gradient",
}
LABEL = 9
"""Columns of the words that say what a line is about."""


def print_choice(choice: Choice, most: int = 5, console: Console | None = None) -> None:
    """The trouble, what addresses it, and where to begin."""
    console = console or plain_console()
    lines = [("trouble", f"{choice.trouble.tag}: {choice.trouble.diagnosis}")]
    if choice.others:
        lines.append(("or", ", ".join(f"{other.tag} ({other.words[0]})" for other in choice.others)))
    _print(lines, console)
    for remedy in [*choice.named, *choice.remedies[:most]]:
        console.print(f"\n{remedy.name}", style="bold", soft_wrap=True)
        _print(remedy_lines(remedy), console)
    console.print()
    left = choice.remedies[most:]
    lines = [("also", ", ".join(remedy.name for remedy in left) + " (--all shows them)")] if left else []
    lines += [("suite", claim_words(claim)) for claim in choice.claims]
    lines += [("setting", f"{setting.word} {setting.effect}") for setting in choice.advice.settings]
    lines += [("watch", ", ".join(choice.advice.watch))] if choice.advice.watch else []
    lines += [("unknown", choice.advice.unknown), ("begin", beginning_words(choice.beginning))]
    _print(lines, console)


def print_troubles(beginning: Beginning, console: Console | None = None) -> None:
    """Every trouble that is known, in its users' words, and where to begin."""
    console = console or plain_console()
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for trouble in TROUBLES.values():
        table.add_row(trouble.tag, "; ".join(trouble.words[:3]))
    console.print(table)
    console.print()
    _print([("begin", beginning_words(beginning)), ("ask", "rlzoo choose my entropy collapses at step 50")], console)


def remedy_lines(remedy: Remedy) -> Iterator[tuple[str, str]]:
    """What a line is about, and what it says."""
    paper = f" ({remedy.paper})" if remedy.paper else ""
    yield "what", f"{remedy.summary}{'' if remedy.summary.endswith('.') else '.'}{paper}"
    yield "type", f"objective={remedy.expression}"
    nothing = f"nothing beyond {remedy.against}" if remedy.against else "one forward and backward over the rollouts"
    yield "costs", "; ".join(remedy.costs) or nothing
    if remedy.against:
        yield "acts", remedy.metric or "on every token, so that no metric counts it"
    for entry in remedy.map:
        yield "map", map_words(entry, remedy)
    if not remedy.map:
        yield "map", NOT_MEASURED
    for claim in remedy.claims:
        yield "suite", claim_words(claim)
    if not remedy.claims:
        yield "suite", NOT_MEASURED
    for row in remedy.boards:
        yield "board", board_words(row)


def map_words(entry: OnTheMap, remedy: Remedy) -> str:
    """What the map says, in a sentence."""
    regime = entry.row.regime.replace("_", " ")
    if entry.is_idle:
        return f"{regime}: it acts on no token there, so that the map says nothing of it"
    beside = [f"{_number(entry, entry.without)} without it ({remedy.against})"] if entry.without is not None else []
    if entry.policy_gradient is not None:
        beside.append(f"{_number(entry, entry.policy_gradient)} along the policy gradient")
    change = " changes by" if entry.policy_gradient is not None else ""
    text = f"{regime}: {QUANTITIES[entry.quantity]}{change} {_number(entry, entry.value)}"
    text += f"; {', '.join(beside)}" if beside else ""
    return text if entry.policy_gradient is None else f"{text}; {BESIDE[entry.helps]}"


def claim_words(claim: ClaimEvidence) -> str:
    """What the suite found, in a sentence."""
    text = f"{claim.experiment}: {claim.text} Here: {claim.verdict}"
    if claim.effect is None or claim.low is None or claim.high is None or claim.p is None:
        return text
    effect = f"{claim.score} {claim.effect:+.3g} [{claim.low:.3g}, {claim.high:.3g}]"
    return f"{text}; {effect}, corrected p {claim.p:.2g}, {claim.seeds} seeds"


def board_words(row: BoardEvidence) -> str:
    """What a board found, in a sentence."""
    text = f"{row.board}, {row.decoding}: {100 * row.accuracy:.1f} %"
    if row.difference is None or row.low is None or row.high is None:
        return f"{text}, the baseline; {row.seeds} seeds"
    interval = f"{100 * row.difference:+.1f} points [{100 * row.low:.1f}, {100 * row.high:.1f}]"
    return f"{text}, {interval}, {verdict_words(row.verdict)}; {row.seeds} seeds"


def beginning_words(beginning: Beginning) -> str:
    """Where to begin, and why."""
    better = f"call {', '.join(beginning.better)}" if beginning.better else "call nothing"
    worse = f", and {', '.join(beginning.worse)} worse" if beginning.worse else ""
    return (
        f"Start with objective={beginning.expression}. Somewhere the boards here {better} better than their baseline"
        f"{worse}. Of those that are better somewhere and worse nowhere this one asks the least of the trainer: "
        f"{'; '.join(beginning.costs)}."
    )


def _number(entry: OnTheMap, value: float | None) -> str:
    if value is None:
        return "-"
    if entry.policy_gradient is not None:
        return f"{value:+.3f}"
    if entry.quantity != "cosine":
        return f"{value:.2f}"
    low, high = (max(-1.0, min(1.0, end)) for end in entry.row.interval)  # an estimate may exceed 1 by its noise
    return f"{min(1.0, value):.2f}" + (f" [{low:.2f}, {high:.2f}]" if value == entry.value else "")


def _print(lines: list[tuple[str, str]] | Iterator[tuple[str, str]], console: Console) -> None:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True, min_width=LABEL)
    table.add_column(overflow="fold")
    for label, text in lines:
        table.add_row(label, text)
    console.print(table)
