"""Pictures as SVG files for light and dark pages, and one: a token's gradient by its importance ratio."""

from collections.abc import Callable
from pathlib import Path

import torch
from links import write_changed
from matplotlib.axes import Axes

from objectives import Mask, Objective, ObjectiveError, Penalty, Reward, Select, TokenBatch, Weight
from rlzoo.report.drawing import DOWN, SOFT, UP, svg

RATIOS = torch.linspace(0.02, 2.5, 125)
OLD = 0.3
"""The probability that the token had when it was sampled."""
ASIDE = (Mask, Penalty, Reward, Select, Weight)
"""What acts on a token by other things than its ratio."""


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


def bare(objective: Objective) -> Objective:
    """The ratio and the surrogate with its bounds, by themselves."""
    for kind in ASIDE:
        for part in objective.all(kind):
            objective = objective.without(part.name)
    return objective


def gradient_by_ratio(objective: Objective, sign: int) -> torch.Tensor:
    """[R] minus the derivative of one token's loss with respect to its log-prob, at each of RATIOS, for A = `sign`.

    Each ratio is a response of one token beside others of the opposite sign; `OLD` is its old probability.
    Raises ObjectiveError where one token says nothing.
    """
    return torch.tensor([_gradient_at(objective, sign, float(ratio)) for ratio in RATIOS])


def _gradient_at(objective: Objective, sign: int, ratio: float) -> float:
    old, entropy = torch.full((2, 1), OLD).log(), torch.ones(2, 1)
    right = torch.tensor([1.0, 0.0]) if sign > 0 else torch.tensor([0.0, 1.0])
    group = torch.zeros(2, dtype=torch.long)
    batch = TokenBatch(
        **{"mask": entropy > 0, "group": group, "micro_batch": group, "truncated": group > 0, "max_length": 1},
        **{"reward": right, "correct": right, "advantage": 2 * right - 1},
        **dict.fromkeys(("logp_old", "logp_sampler", "logp_ref"), old),
        **{"logp": old + torch.tensor([[ratio], [1.0]]).log(), "entropy_old": entropy, "entropy": entropy},
    )
    total = sum(gradient[0, 0] for gradient in objective.token_gradients(batch))
    return 2 * float(total)  # the mean over two responses


def draw_gradient(path: Path, name: str, objective: Objective) -> bool:
    """Draws both signs; False where the surrogate needs more than one token and cannot be drawn so."""
    try:
        positive, negative = (gradient_by_ratio(bare(objective), sign) for sign in (1, -1))
    except ObjectiveError:
        return False

    def curves(axis: Axes) -> None:
        axis.axhline(0, color=SOFT, linewidth=0.8)
        axis.axvline(1, color=SOFT, linewidth=0.8, linestyle=":")
        axis.plot(RATIOS, positive, color=UP, linewidth=2)
        axis.plot(RATIOS, negative, color=DOWN, linewidth=2)
        axis.text(0.06, float(positive.max()), "A = 1", color=UP, va="bottom")
        axis.text(0.06, float(negative.min()), "A = -1", color=DOWN, va="top")
        axis.margins(y=0.15)
        axis.set_xlabel("importance ratio")
        axis.set_ylabel("gradient on log p")

    draw(path, f"gradient of {name}", curves)
    return True
