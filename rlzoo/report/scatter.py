"""Where the tokens of a step lie between probability and entropy, and where they are pushed."""

import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from torch import Tensor

from rlzoo.inspecting.microscope import Microscope
from rlzoo.inspecting.view import View
from rlzoo.report.drawing import DOWN, INK, SOFT, UP, svg

MOST = 1500
"""Points drawn; of more tokens a sample."""
LOWEST = 1e-4
"""Probabilities below are drawn there."""


def probability_against_entropy(scope: Microscope, view: View, number: int) -> str:
    """A point for each token, in the colour of its push; crosses are silenced."""
    kept = _sample(scope.batch.mask)
    probability = scope.batch.require("logp_old", "scatter").exp()[kept].clamp(min=LOWEST)
    entropy, push, silenced = (
        scope.batch.require("entropy_old", "scatter")[kept],
        view.push[kept],
        view.any_silenced[kept],
    )
    strength = (push.abs() / (2 * view.unit)).clamp(0.25, 0.9)

    def draw(axis: Axes) -> None:
        for here, color in ((~silenced & (push == 0), SOFT), (push < 0, DOWN), (push > 0, UP)):
            shades = [to_rgba(color, 0.3 if color == SOFT else alpha) for alpha in strength[here].tolist()]
            axis.scatter(probability[here], entropy[here], c=shades, s=11, linewidths=0)
        axis.scatter(probability[silenced], entropy[silenced], c=INK, marker="x", s=13, linewidths=0.7, alpha=0.6)
        axis.set_xscale("log")
        axis.set_xlim(LOWEST * 0.8, 1.3)
        axis.axvline(scope.settings.probability, color=SOFT, linewidth=0.8, linestyle=(0, (3, 3)))
        axis.axhline(scope.uncertain, color=SOFT, linewidth=0.8, linestyle=(0, (3, 3)))
        axis.set_xlabel("probability of the token")
        axis.set_title("entropy of its place (nats)", loc="left", fontsize=9)

    return svg(draw, f"probability against entropy {number + 1}", width=6.4, height=3.8)


def _sample(mask: Tensor) -> tuple[Tensor, ...]:
    """Positions of some tokens, always the same ones."""
    places = mask.nonzero()
    chosen = torch.randperm(len(places), generator=torch.Generator().manual_seed(0))[:MOST]
    return tuple(places[chosen].T)
