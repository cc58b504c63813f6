"""The map as files, as a page and on the terminal."""

from pathlib import Path

import numpy as np
from markupsafe import Markup
from rich.table import Table

from rlzoo.config import MapConfig
from rlzoo.files import write_text
from rlzoo.mapping.quantities import QUANTITIES
from rlzoo.mapping.zoo_map import RegimeMap, ZooMap
from rlzoo.report import map_figures as figures
from rlzoo.report import map_text
from rlzoo.report.console import plain_console
from rlzoo.report.curves import save_figure, themed
from rlzoo.report.page import breakable, templates

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

    def show(self, found: ZooMap) -> None:
        """Writes the files and says what is in them."""
        write_text(self.folder / "map.md", map_text.markdown(found))
        write_text(self.folder / "map.csv", map_text.comma_separated(found))
        write_text(self.folder / "map.html", map_page(found))
        with themed(rc={"text.parse_math": False}):
            self._draw(found)
        for it in found.regimes:
            self.console.print(f"{it.regime.name:<16}{map_text.directions(it)}")
            if len(it.expressions) <= FEW:
                self.console.print(_changes(it))
            for name, why in it.left_out.items():
                self.console.print(f"  {name} has no row: {why}", soft_wrap=True)
        if any(len(it.expressions) <= FEW for it in found.regimes):
            self.console.print(" ".join(map_text.LEGEND))
        self.console.print(f"page  {self.folder / 'map.html'}", soft_wrap=True)

    def _draw(self, found: ZooMap) -> None:
        many = [it for it in found.regimes if len(it.groups) >= figures.SMALLEST]
        if len(many) == len(found.regimes):
            save_figure(figures.bias_figure(found), self.folder / "bias.png")
        if any(it.regime.name in PICTURED for it in many):
            save_figure(figures.plane_figure(found, PICTURED), self.folder / "plane.png")
        for it in many:
            if it.regime.name in PICTURED:
                save_figure(figures.cluster_figure(it), self.folder / f"cosines_{it.regime.name}.png")


def _changes(found: RegimeMap) -> Table:
    """Of few objectives: bias, noise and what a step changes."""
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for name in ("policy gradient", *found.expressions):
        table.add_column(name, justify="right", overflow="fold")
    rows = found.behaviours
    table.add_row("cosine", "1.00", *(map_text.cosine(it.cosine) for it in rows))
    table.add_row("with its target", "", *(map_text.cosine(it.target_cosine) for it in rows))
    table.add_row("signal / noise", "", *(f"{it.signal_to_noise:.2f}" for it in rows))
    for name, heading in map_text.SHORT.items():
        truth = map_text.number(found.policy_gradient[name])
        table.add_row(heading, truth, *(map_text.change(it.changes[name]) for it in rows))
    table.add_row("does not act", "", *(", ".join(it.idle) for it in rows))
    return table


def map_page(found: ZooMap) -> str:
    """The page, which needs nothing else. Whatever a user wrote is escaped."""
    pictures = {
        it.regime.name: (Markup(figures.plane_svg(it)), Markup(figures.cluster_svg(it)))
        for it in found.regimes
        if len(it.groups) >= figures.SMALLEST
    }
    names = dict.fromkeys(name for it in found.regimes for name in it.expressions)
    return (
        templates()
        .get_template("map.html")
        .render(
            found=found,
            pictures=pictures,
            biases={name: [_bias(it, name) for it in found.regimes] for name in names},
            text=map_text,
            quantities=QUANTITIES,
            formula=_formula(found),
            breakable=breakable,
            shade=lambda value: round(55 * abs(float(figures.closeness(np.array(value))))),
        )
    )


def _bias(found: RegimeMap, name: str) -> float | None:
    return max(-1.0, min(1.0, found.row(name).cosine.mean)) if name in found.expressions else None


def _formula(found: ZooMap) -> dict[str, float]:
    """How well the formula for the entropy tells its change: correlations over all rows, and how often signs agree."""
    changes = [row.entropy for it in found.regimes for row in it.behaviours]
    predicted, same, exact = (
        np.array([getattr(it, name) for it in changes]) for name in ("predicted", "same_places", "all")
    )
    if len(changes) < FEW:
        return {}
    return {
        "same_places": float(np.corrcoef(predicted, same)[0, 1]),
        "all": float(np.corrcoef(predicted, exact)[0, 1]),
        "signs": float((np.sign(predicted) == np.sign(exact)).mean()),
    }
