"""The map as files, as a page and on the terminal."""

from pathlib import Path

import numpy as np
from markupsafe import Markup
from rich.table import Table

from rlzoo.files import write_text
from rlzoo.lab.keys import MapConfig
from rlzoo.lab.map import figures
from rlzoo.lab.map import text as map_text
from rlzoo.lab.map.quantities import QUANTITIES
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.drawing import save_figure, themed
from rlzoo.report.table import breakable, plain_console, templates

FEW = 6
"""Expressions whose changes are shown on the terminal."""
PICTURED = ("on_policy", "stale")
"""Regimes of the picture of planes, if they are there."""


class MapView:
    """Tells of a map as it is made, and writes it."""

    def __init__(self, config: MapConfig, quiet: bool = False) -> None:
        self.folder = Path(config.output)
        self.console = plain_console(quiet)

    def begin(self, regime: str) -> None:
        """A regime begins."""
        self.console.print(f"map         {regime}")

    def show(self, zoo_map: ZooMap) -> None:
        """Writes the files and says what is in them."""
        write_text(self.folder / "map.md", map_text.markdown(zoo_map))
        write_text(self.folder / "map.csv", map_text.comma_separated(zoo_map))
        write_text(self.folder / "map.html", map_page(zoo_map))
        with themed(rc={"text.parse_math": False}):
            self._draw(zoo_map)
        for regime_map in zoo_map.regimes:
            self.console.print(f"{regime_map.regime.name:<16}{map_text.directions(regime_map)}")
            if len(regime_map.expressions) <= FEW:
                self.console.print(_changes(regime_map))
            for name, why in regime_map.left_out.items():
                self.console.print(f"  {name} has no row: {why}", soft_wrap=True)
        if any(len(regime_map.expressions) <= FEW for regime_map in zoo_map.regimes):
            self.console.print(" ".join(map_text.LEGEND))
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


def _changes(regime_map: RegimeMap) -> Table:
    """Of few objectives: bias, noise and what a step changes."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("policy gradient", *regime_map.expressions):
        table.add_column(name, justify="right", overflow="fold")
    rows = regime_map.behaviours
    table.add_row("cosine", "1.00", *(map_text.cosine(row.cosine) for row in rows))
    table.add_row("with its target", "", *(map_text.cosine(row.target_cosine) for row in rows))
    table.add_row("signal / noise", "", *(f"{row.signal_to_noise:.2f}" for row in rows))
    for name, heading in map_text.SHORT.items():
        truth = map_text.number(regime_map.policy_gradient[name])
        table.add_row(heading, truth, *(map_text.change(row.changes[name]) for row in rows))
    table.add_row("does not act", "", *(", ".join(row.idle) for row in rows))
    return table


def map_page(zoo_map: ZooMap) -> str:
    """The page, which needs nothing else. Whatever a user wrote is escaped."""
    pictures = {
        regime_map.regime.name: (Markup(figures.plane_svg(regime_map)), Markup(figures.cluster_svg(regime_map)))
        for regime_map in zoo_map.regimes
        if len(regime_map.groups) >= figures.SMALLEST
    }
    names = dict.fromkeys(name for regime_map in zoo_map.regimes for name in regime_map.expressions)
    return (
        templates("rlzoo.lab")
        .get_template("map.html")
        .render(
            zoo_map=zoo_map,
            pictures=pictures,
            biases={name: [_bias(regime_map, name) for regime_map in zoo_map.regimes] for name in names},
            text=map_text,
            quantities=QUANTITIES,
            formula=_formula(zoo_map),
            breakable=breakable,
            shade=lambda value: round(55 * abs(float(figures.closeness(np.array(value))))),
        )
    )


def _bias(regime_map: RegimeMap, name: str) -> float | None:
    return max(-1.0, min(1.0, regime_map.row(name).cosine.mean)) if name in regime_map.expressions else None


def _formula(zoo_map: ZooMap) -> dict[str, float]:
    """How well the formula for the entropy tells its change: correlations over all rows, and how often signs agree."""
    changes = [row.entropy for regime_map in zoo_map.regimes for row in regime_map.behaviours]
    predicted, same, exact = (
        np.array([getattr(change, name) for change in changes]) for name in ("predicted", "same_places", "all")
    )
    if len(changes) < FEW:
        return {}
    return {
        "same_places": float(np.corrcoef(predicted, same)[0, 1]),
        "all": float(np.corrcoef(predicted, exact)[0, 1]),
        "signs": float((np.sign(predicted) == np.sign(exact)).mean()),
    }
