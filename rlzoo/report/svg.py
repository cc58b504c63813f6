"""A figure as an SVG element that takes its colours from the page around it, and so fits light and dark."""

import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import seaborn as sns
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

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
PLOT = "plot"
"""Ends the id of the area between the axes."""


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
    with sns.axes_style("whitegrid"), rc_context(style):
        yield


def figure_as_svg(figure: Figure, label: str) -> str:
    """The element of a figure that was drawn in `page_style`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    written = buffer.getvalue()
    text = written[written.index("<svg") :]
    for color, meaning in PAGE_COLORS.items():
        text = text.replace(color, meaning)
    opening = rf'<svg viewBox="\1" role="img" aria-label="{label}">'
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', opening, text, count=1)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    return re.sub(r'(id="|"#|url\(#)', rf"\1{_prefix(label)}-", text).replace("xlink:href", "href")


def _prefix(label: str) -> str:
    return re.sub(r"\W+", "-", label)
