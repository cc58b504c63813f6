"""Pictures as SVG files that fit light and dark pages."""

from collections.abc import Callable
from pathlib import Path

from links import write_changed
from matplotlib.axes import Axes

from rlzoo.report.drawing import svg

STYLE = """<style>
svg { color: #24292f; --grid: #d8dee4; --up: #2563c9; --down: #b3541e; --soft: #6b7480; }
@media (prefers-color-scheme: dark) {
  svg { color: #e6e8eb; --grid: #3a4048; --up: #7fb0ff; --down: #f0a06a; --soft: #98a2ae; }
}
</style>"""


def draw(path: Path, label: str, drawing: Callable[[Axes], None], width: float = 5.0, height: float = 3.0) -> None:
    """Writes what `drawing` draws on an axis as an SVG file."""
    text = svg(drawing, label, width, height)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{100 * width:g}" height="{100 * height:g}"'
    write_changed(path, text.replace("<svg ", f"<svg {size} ", 1).replace(">", f">{STYLE}", 1))
