"""How figures look: their theme, smoothed curves, and SVG elements that take their colors from the page around them."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import seaborn as sns
from markupsafe import escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter1d

from rlzoo.files import file_written_atomically
from rlzoo.report.formatting import folded

INK, GRID, UP, DOWN, SOFT = "#010203", "#040506", "#070809", "#0a0b0c", "#0d0e0f"
"""Stand-ins that become the page's colours."""
PAGE_COLORS = {
    INK: "currentColor",
    GRID: "var(--grid)",
    UP: "var(--up)",
    DOWN: "var(--down)",
    SOFT: "var(--soft)",
}
WIDTH, HEIGHT = 5.0, 3.6
LONGEST, LINES = 33, 3
"""Characters in a line of a row's name, and lines."""
PLOT = "plot"
"""Ends the id of the area between the axes."""


@contextmanager
def themed(**options: Any) -> Iterator[None]:
    """The look of our figures, which a notebook's own do not take on."""
    with matplotlib.rc_context():
        sns.set_theme(style="whitegrid", context="notebook", color_codes=False, **options)
        yield


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a PNG atomically."""
    with file_written_atomically(path) as file:
        figure.savefig(file, dpi=130, format="png")


def row_label(name: str, most: int = LINES) -> str:
    """An objective's name in lines that a picture has room for, the end of what is longer left out."""
    lines = folded(name, LONGEST).split("\n")
    kept = [*lines[: most - 1], "".join(lines[most - 1 :])]
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}\u2026" for line in kept if line)


def label_color_bar(axis: Axes, words: str) -> None:
    """Says what the colors of the first collection of an axis mean."""
    bar = axis.collections[0].colorbar
    assert bar is not None
    bar.ax.tick_params(labelsize=8)
    bar.set_label(words, fontsize=9)


def smoothed(values: ArrayLike) -> np.ndarray:
    """[..., steps] values averaged over about a fiftieth of the steps around each, the ends kept where they are."""
    curve = np.asarray(values, dtype=np.float64)
    return gaussian_filter1d(curve, max(0.5, curve.shape[-1] / 50), axis=-1, mode="nearest")


def svg(draw: Callable[[Axes], None], label: str, width: float = WIDTH, height: float = HEIGHT) -> str:
    """An inline SVG element; its text is text and its ids are its own."""
    with page_style(label):
        figure = Figure(figsize=(width, height), layout="constrained")
        axis = figure.subplots()
        sns.despine(ax=axis)
        axis.patch.set_gid(PLOT)
        draw(axis)
        return figure_as_svg(figure, label)


@contextmanager
def page_style(label: str) -> Iterator[None]:
    """Figures in the page's colours; `label` is what a screen reader says of them."""
    style: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": _prefix(label),
        "font.family": "sans-serif",
        "font.size": 9.0,
        "text.parse_math": False,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
        **dict.fromkeys(("axes.edgecolor", "grid.color"), GRID),
    }
    with sns.axes_style("whitegrid"), matplotlib.rc_context(style):
        yield


def figure_as_svg(figure: Figure, label: str) -> str:
    """The element of a figure that was drawn in `page_style`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    written = buffer.getvalue()
    text = written[written.index("<svg") :]
    for color, meaning in PAGE_COLORS.items():
        text = text.replace(color, meaning)
    start, named = r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', escape(label)
    text = re.sub(start, lambda it: f'<svg viewBox="{it[1]}" role="img" aria-label="{named}">', text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'(id="|"#|url\(#)', rf"\g<1>{_prefix(label)}-", text).replace("xlink:href", "href")


def _prefix(label: str) -> str:
    return re.sub(r"\W+", "-", label)
