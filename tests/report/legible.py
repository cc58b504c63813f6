"""What of a picture can be read where a page shows it 600 pixels wide."""

import itertools

from matplotlib.figure import Figure
from matplotlib.text import Text

SHOWN, LEGIBLE = 600, 8.0
"""Pixels of a page's picture, and of the letters of its smallest word."""


def words(figure: Figure) -> list[Text]:
    """Every text that is drawn."""
    figure.draw_without_rendering()
    return [text for text in figure.findobj(Text) if isinstance(text, Text) and text.get_text().strip()]


def assert_legible(figure: Figure) -> None:
    """Its letters are large enough, however wide it is."""
    pixels = {text.get_text(): text.get_fontsize() / 72 / figure.get_figwidth() * SHOWN for text in words(figure)}
    assert {word: size for word, size in pixels.items() if size < LEGIBLE} == {}


def overlapping(texts: list[Text]) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes overlap."""
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    return [(one, other) for (one, its), (other, theirs) in itertools.combinations(boxes, 2) if its.overlaps(theirs)]
