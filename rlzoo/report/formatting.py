"""How figures and names are written, wherever they are shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the zoo is shown without scipy, which takes a second to import
    from rlzoo.statistics.intervals import Estimate

AFTER = re.compile(r"(?<=[-+_(),=:# ])(?=\w)")
"""Where an expression may be broken: never inside a word."""


def percent(estimate: Estimate) -> str:
    """`75.2 [73.0, 77.4]`."""
    return f"{100 * estimate.mean:.1f} {interval(estimate)}"


def points(difference: Estimate | None) -> str:
    """`+3.1 [-1.0, 7.2]`."""
    return "-" if difference is None else f"{signed(difference)} {interval(difference)}"


def signed(difference: Estimate) -> str:
    """`+3.1`."""
    return f"{100 * difference.mean:+.1f}"


def interval(estimate: Estimate) -> str:
    """`[73.0, 77.4]`."""
    return f"[{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def tokens(count: float) -> str:
    """Three digits that count: `31.4k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * size:
            return f"{float(f'{count / size:.3g}'):g}{unit}"
    return f"{count:.3g}"


# ---- names in lines --------------------------------------------------------------------------------------------------


def pieces(text: str) -> list[str]:
    """An expression, cut wherever a line may end in it."""
    return AFTER.split(text)


def folded(text: str, width: int) -> str:
    """An expression in lines of at most `width` characters, broken inside a word only if that alone is longer."""
    lines = [""]
    for piece in pieces(text):
        if len(lines[-1]) + len(piece.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.strip() for line in lines)
