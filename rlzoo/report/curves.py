"""How figures look, whatever they show."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlzoo.files import file_written_atomically
from rlzoo.statistics.intervals import Estimate


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


def draw_estimates(
    axis: Axes, places: Sequence[float], estimates: Sequence[Estimate], is_flat: bool = False, **look: Any
) -> None:
    """Means in % with their intervals over their places, or beside them where they are to lie flat."""
    means = [100 * estimate.mean for estimate in estimates]
    reach = [
        [100 * (estimate.mean - estimate.low) for estimate in estimates],
        [100 * (estimate.high - estimate.mean) for estimate in estimates],
    ]
    if is_flat:
        axis.errorbar(means, places, xerr=reach, **look)
    else:
        axis.errorbar(places, means, yerr=reach, **look)
