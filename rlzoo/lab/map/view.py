"""The map in words, tables and files, as a page and on the terminal."""

from pathlib import Path

import numpy as np
from markupsafe import Markup

from rlzoo.files import write_text
from rlzoo.lab.keys import MapConfig
from rlzoo.lab.map import figures
from rlzoo.lab.map.behaviour import Behaviour, Change
from rlzoo.lab.map.regimes import QUANTITIES
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import save_figure, themed
from rlzoo.report.table import Cell, Column, Shown, Table, code, in_markdown, plain_console, templates
from rlzoo.statistics.intervals import Estimate

FEW = 6
"""Expressions whose changes are shown on the terminal."""
PICTURED = ("on_policy", "stale")
"""Regimes of the picture of planes, if they are there."""

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
    columns = [Column("objective", is_text=True), Column("cosine"), Column("with its target"), Column("length")]
    columns += [Column("signal / noise"), *map(Column, SHORT.values()), Column("tokens moved by quarter (%)")]
    columns += [Column("up (%)"), Column("entropy, formula / exact"), Column("does not act", is_text=True, kind="idle")]
    truth = regime_map.policy_gradient
    first: list[Shown] = ["policy gradient", *[Cell("1.00", value=1.0)] * 3, ""]
    first += [*(Cell(f"{truth[name]:+.3f}", value=truth[name]) for name in QUANTITIES), *[""] * 4]
    title = f"Changes, {regime_map.regime.name}"
    return Table(columns, [first, *map(_changes_row, regime_map.behaviours)], title=title)


def _changes_row(row: Behaviour) -> list[Shown]:
    target = row.target_cosine.mean if row.target_cosine else -2.0
    return [
        Cell(row.expression, is_code=True),
        Cell(cosine(row.cosine), value=row.cosine.mean),
        Cell(cosine(row.target_cosine), value=target),
        Cell(f"{row.length.mean:.2g}", value=row.length.mean),
        Cell(f"{row.signal_to_noise:.2f}", value=row.signal_to_noise),
        *(Cell(change(it), value=it.exact) for it in (row.changes[name] for name in QUANTITIES)),
        Cell(" ".join(f"{100 * share:.0f}" for share in row.mass), value=row.mass[0]),
        Cell(f"{100 * row.up:.0f}", value=row.up),
        Cell(f"{row.entropy.predicted:+.3f} / {row.entropy.all:+.3f}", value=row.entropy.predicted),
        ", ".join(row.idle),
    ]


def bias_table(zoo_map: ZooMap) -> Table:
    """The cosine with the policy gradient, objectives by regimes."""
    names = dict.fromkeys(name for regime_map in zoo_map.regimes for name in regime_map.expressions)
    columns = [Column("objective", is_text=True)]
    columns += [Column(regime_map.regime.name.replace("_", " ")) for regime_map in zoo_map.regimes]
    rows = [[Cell(name, is_code=True), *(_bias(it, name) for it in zoo_map.regimes)] for name in names]
    return Table(columns, rows, title="Bias of every objective in every regime")


def _bias(regime_map: RegimeMap, name: str) -> Cell:
    if name not in regime_map.expressions:
        return Cell("-", value=-2.0)
    value = max(-1.0, min(1.0, regime_map.row(name).cosine.mean))
    color, share = "--like" if value > 0 else "--unlike", round(55 * abs(float(figures.closeness(np.array(value)))))
    background = f"color-mix(in srgb, var({color}) {share}%, transparent)"
    return Cell(f"{value:.2f}", value=value, background=background)


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
        **{f"mass_quarter_{number}": _rounded(share) for number, share in enumerate(row.mass, 1)},
        "up": _rounded(row.up),
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


def map_page(zoo_map: ZooMap) -> str:
    """The page, which needs nothing else. Whatever a user wrote is escaped."""
    drawn = [regime_map for regime_map in zoo_map.regimes if len(regime_map.groups) >= figures.SMALLEST]
    template = templates("rlzoo.lab").get_template("map.html")
    return template.render(
        zoo_map=zoo_map,
        pictures={it.regime.name: (Markup(figures.plane_svg(it)), Markup(figures.cluster_svg(it))) for it in drawn},
        biases=bias_table(zoo_map),
        changes=changes_table,
        directions=directions,
        facts=facts,
        formula=_formula(zoo_map),
    )


def _formula(zoo_map: ZooMap) -> dict[str, float]:
    """How well the formula for the entropy tells its change: correlations over all rows, and how often signs agree."""
    changes = [row.entropy for regime_map in zoo_map.regimes for row in regime_map.behaviours]
    if len(changes) < FEW:
        return {}
    predicted, same, exact = np.array([(it.predicted, it.same_places, it.all) for it in changes]).T
    return {
        "same_places": float(np.corrcoef(predicted, same)[0, 1]),
        "all": float(np.corrcoef(predicted, exact)[0, 1]),
        "signs": float((np.sign(predicted) == np.sign(exact)).mean()),
    }


# ---- the terminal ----------------------------------------------------------------------------------------------------


class MapView:
    """Shows a map as it is made, and writes it."""

    def __init__(self, config: MapConfig, quiet: bool = False) -> None:
        self.folder = Path(config.output)
        self.console = plain_console(quiet)

    def begin(self, regime: str) -> None:
        """A regime begins."""
        self.console.print(f"map         {regime}")

    def show(self, zoo_map: ZooMap) -> None:
        """Writes the files and says what is in them."""
        write_text(self.folder / "map.md", markdown(zoo_map))
        write_text(self.folder / "map.csv", comma_separated(zoo_map))
        write_text(self.folder / "map.html", map_page(zoo_map))
        with themed(rc={"text.parse_math": False}):
            self._draw(zoo_map)
        for regime_map in zoo_map.regimes:
            self.console.print(f"{regime_map.regime.name:<16}{directions(regime_map)}")
            if len(regime_map.expressions) <= FEW:
                self.console.print(transposed(changes_table(regime_map)))
            for name, why in regime_map.left_out.items():
                self.console.print(f"  {name} has no row: {why}", soft_wrap=True)
        if any(len(regime_map.expressions) <= FEW for regime_map in zoo_map.regimes):
            self.console.print(" ".join(LEGEND))
        self.console.print(f"page  {self.folder / 'map.html'}", soft_wrap=True)

    def _draw(self, zoo_map: ZooMap) -> None:
        many = [regime_map for regime_map in zoo_map.regimes if len(regime_map.groups) >= figures.SMALLEST]
        if len(many) == len(zoo_map.regimes):
            save_figure(figures.bias_figure(zoo_map), self.folder / "bias.png")
        if any(regime_map.regime.name in PICTURED for regime_map in many):
            save_figure(figures.plane_figure(zoo_map, PICTURED), self.folder / "plane.png")
        for regime_map in many:
            if regime_map.regime.name in PICTURED:
                save_figure(figures.cluster_figure(regime_map), self.folder / f"cosines_{regime_map.regime.name}.png")
