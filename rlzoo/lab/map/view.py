"""The map in words, tables and files, and on the terminal."""

from pathlib import Path

from rich.console import Console

from rlzoo.files import write_text
from rlzoo.lab.map import figures
from rlzoo.lab.map.behaviour import Behaviour, Change
from rlzoo.lab.map.regimes import QUANTITIES
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import save_figure, themed
from rlzoo.report.table import Cell, Column, Shown, Table, code, in_markdown
from rlzoo.statistics.intervals import Estimate

FEW = 6
"""Expressions whose changes are shown on the terminal."""

# ---- words -----------------------------------------------------------------------------------------------------------

SHORT = {
    "reward": "reward",
    "pass_8": "pass@8",
    "entropy": "entropy",
    "length_right": "length, right",
    "length_wrong": "length, wrong",
    "distinct_right": "distinct right",
    "log_rare_right": "rare right",
}
"""Quantity -> the heading of its column."""
LEGEND = (
    "Numbers are exact changes after a step along the mean gradient; in brackets if their sign is not sure over",
    "the whole map (95 %). \u25b2 and \u25bc: surely more, or less, than an equal step along the policy gradient.",
)
MORE = {1: "\u25b2", -1: "\u25bc", 0: ""}
"""For sure more, or less, than along the policy gradient."""


def directions(regime_map: RegimeMap) -> str:
    """How many different gradients there are, in a sentence."""
    count, different = len(regime_map.expressions), len(regime_map.groups)
    if count == 1:
        return "one objective"
    return f"{count} objectives, {different} different direction{'s' * (different != 1)}"


def facts(regime_map: RegimeMap) -> str:
    """What the policy is like, in a sentence."""
    values = regime_map.facts
    return (
        f"{100 * values['reward']:.0f} % expected reward, {values['length']:.1f} tokens, "
        f"{100 * values['truncated']:.0f} % cut, {values['entropy']:.2f} nats a response; "
        f"{regime_map.regime.responses} responses per prompt"
    )


def cosine(estimate: Estimate | None) -> str:
    """An estimate may exceed 1 by its noise."""
    return "-" if estimate is None else f"{max(-1.0, min(1.0, estimate.mean)):.2f}"


def change(measured: Change) -> str:
    """What a step changes: in brackets if the sign is not sure, an arrow if it differs from the policy gradient's."""
    text = f"{measured.exact:+.3f}" if measured.sign else f"({measured.exact:+.3f})"
    return f"{text}{MORE[measured.sign_beside]}"


# ---- tables ----------------------------------------------------------------------------------------------------------


def changes_table(regime_map: RegimeMap) -> Table:
    """Bias, noise and what a step changes: a row for each objective, below one for the policy gradient."""
    headings = ["cosine", "with its target", "length", "signal / noise", *SHORT.values()]
    headings += ["entropy, formula / exact"]
    columns = [Column("objective", is_text=True), *map(Column, headings), Column("does not act", is_text=True)]
    truth = [f"{regime_map.policy_gradient[name]:+.3f}" for name in QUANTITIES]
    first: list[Shown] = ["policy gradient", *["1.00"] * 3, "", *truth, *[""] * 2]
    return Table(
        columns, [first, *map(_changes_row, regime_map.behaviours)], title=f"Changes, {regime_map.regime.name}"
    )


def _changes_row(row: Behaviour) -> list[Shown]:
    return [
        Cell(row.expression, is_code=True),
        cosine(row.cosine),
        cosine(row.target_cosine),
        f"{row.length.mean:.2g}",
        f"{row.signal_to_noise:.2f}",
        *(change(row.changes[name]) for name in QUANTITIES),
        f"{row.entropy.predicted:+.3f} / {row.entropy.all:+.3f}",
        ", ".join(row.idle),
    ]


def transposed(table: Table) -> Table:
    """Few objectives as columns, as a terminal is narrow."""
    columns, rows, _ = table.seen("terminal")
    heads = [Column("", is_text=True), *(Column(row[0].text) for row in rows)]
    return Table(heads, [[column.heading, *(row[at] for row in rows)] for at, column in enumerate(columns) if at])


# ---- files -----------------------------------------------------------------------------------------------------------


def markdown(zoo_map: ZooMap) -> str:
    """Every regime: who is the same, and what each does."""
    config = zoo_map.config
    batches = f"{config.batches} batches of rollouts a regime (seed {config.seed}); a step of KL {config.step:g} nats."
    lines = ["# The map of the zoo", "", batches, *LEGEND, ""]
    for it in zoo_map.regimes:
        lines += [f"## {it.regime.name}", "", f"{it.regime.says}: {facts(it)}. **{directions(it)}.**", ""]
        lines += [f"- the same: {', '.join(map(code, group))}" for group in it.groups if len(group) > 1]
        lines += ["", changes_table(it).markdown(), ""]
        lines += [f"- {code(name)} has no row: {in_markdown(why)}" for name, why in it.left_out.items()]
        lines += [""] * bool(it.left_out)
    return "\n".join(lines)


def comma_separated(zoo_map: ZooMap) -> str:
    """One line for each expression and regime."""
    rows = [_record(regime_map, row) for regime_map in zoo_map.regimes for row in regime_map.behaviours]
    return Table.of_records(rows, ["regime"]).csv()


def _record(regime_map: RegimeMap, row: Behaviour) -> dict[str, object]:
    group = next(group for group in regime_map.groups if row.expression in group)
    return {
        "regime": regime_map.regime.name,
        "objective": row.expression,
        "same_as": " ".join(name for name in group if name != row.expression),
        **_estimate("cosine", row.cosine),
        **_estimate("target_cosine", row.target_cosine),
        **_estimate("length", row.length),
        "signal_to_noise": _rounded(row.signal_to_noise),
        **{key: value for name in QUANTITIES for key, value in _change(name, row.changes[name]).items()},
        "entropy_predicted": _rounded(row.entropy.predicted),
        "entropy_same_places": _rounded(row.entropy.same_places),
        "entropy_all": _rounded(row.entropy.all),
        "idle": " ".join(row.idle),
    }


def _change(name: str, measured: Change) -> dict[str, object]:
    return {
        f"{name}_exact": _rounded(measured.exact),
        **_estimate(name, measured.expected),
        f"{name}_sign": measured.sign,
        **_estimate(f"{name}_beside", measured.beside),
        f"{name}_sign_beside": measured.sign_beside,
    }


def _estimate(name: str, estimate: Estimate | None) -> dict[str, object]:
    values = (None, None, None) if estimate is None else (estimate.mean, estimate.low, estimate.high)
    return {f"{name}{end}": _rounded(value) for end, value in zip(("", "_low", "_high"), values, strict=True)}


def _rounded(value: float | None) -> str:
    """Six digits: what other machines round otherwise is left out."""
    return "" if value is None else f"{value:.6g}"


# ---- the terminal ----------------------------------------------------------------------------------------------------


def show_map(zoo_map: ZooMap, folder: Path, console: Console) -> None:
    """Writes the files and says what is in them."""
    write_text(folder / "map.md", markdown(zoo_map))
    write_text(folder / "map.csv", comma_separated(zoo_map))
    many = [regime_map for regime_map in zoo_map.regimes if len(regime_map.groups) >= figures.SMALLEST]
    with themed(rc={"text.parse_math": False}):
        if len(many) == len(zoo_map.regimes):
            save_figure(figures.bias_figure(zoo_map), folder / "bias.png")
        if pictured := [regime_map for regime_map in many if regime_map.regime.name in figures.IN_WORDS]:
            save_figure(figures.plane_figure(pictured), folder / "plane.png")
    for regime_map in zoo_map.regimes:
        console.print(f"{regime_map.regime.name:<16}{directions(regime_map)}")
        if len(regime_map.expressions) <= FEW:
            console.print(transposed(changes_table(regime_map)))
        for name, why in regime_map.left_out.items():
            console.print(f"  {name} has no row: {why}", soft_wrap=True)
    if any(len(regime_map.expressions) <= FEW for regime_map in zoo_map.regimes):
        console.print(" ".join(LEGEND))
    console.print(f"everything: {folder / 'map.md'}, and beside it .csv and pictures", soft_wrap=True)
