"""The push on a token's log-prob as a function of its importance ratio, drawn from the objective itself."""

from pathlib import Path

import torch
from matplotlib.axes import Axes
from pictures import draw

from objectives import Mask, Objective, ObjectiveError, Penalty, Reward, Select, TokenBatch, Weight

RATIOS = torch.linspace(0.02, 2.5, 249)
OLD = 0.3
"""The probability that the token had when it was sampled."""
ASIDE = (Mask, Penalty, Reward, Select, Weight)
"""What acts on a token by other things than its ratio."""


def bare(objective: Objective) -> Objective:
    """The ratio and the surrogate with its bounds, by themselves."""
    for kind in ASIDE:
        for part in objective.all(kind):
            objective = objective.without(part.name)
    return objective


def push(objective: Objective, sign: int) -> torch.Tensor:
    """[R] minus the derivative of one token's loss with respect to its log-prob, at each of RATIOS, for A = `sign`.

    Each ratio is a response of one token beside others of the opposite sign; `OLD` is its old probability.
    Raises ObjectiveError where one token says nothing.
    """
    pushes = [_push_of_one(objective, sign, float(ratio)) for ratio in RATIOS]
    return torch.tensor(pushes)


def _push_of_one(objective: Objective, sign: int, ratio: float) -> float:
    old = torch.full((2, 1), OLD).log()
    right = torch.tensor([1.0, 0.0]) if sign > 0 else torch.tensor([0.0, 1.0])
    now = old + torch.tensor([[ratio], [1.0]]).log()
    entropy = torch.ones(2, 1)
    batch = TokenBatch(
        mask=torch.ones(2, 1, dtype=torch.bool),
        group=torch.tensor([0, 0]),
        reward=right,
        correct=right,
        truncated=torch.zeros(2, dtype=torch.bool),
        max_length=1,
        micro_batch=torch.zeros(2, dtype=torch.long),
        logp_old=old,
        logp_sampler=old,
        logp_ref=old,
        logp=now,
        entropy_old=entropy,
        entropy=entropy,
        advantage=2 * right - 1,
    )
    total = sum(gradient[0, 0] for gradient in objective.token_gradients(batch))
    return 2 * float(total)  # the mean over two responses


def draw_push(path: Path, name: str, objective: Objective) -> bool:
    """Draws both signs; False where the surrogate needs more than one token and cannot be drawn so."""
    try:
        positive, negative = (push(bare(objective), sign) for sign in (1, -1))
    except ObjectiveError:
        return False

    def curves(axis: Axes) -> None:
        from rlzoo.report.drawing import DOWN, SOFT, UP

        axis.axhline(0, color=SOFT, linewidth=0.8)
        axis.axvline(1, color=SOFT, linewidth=0.8, linestyle=":")
        axis.plot(RATIOS, positive, color=UP, linewidth=2)
        axis.plot(RATIOS, negative, color=DOWN, linewidth=2)
        axis.text(0.06, float(positive.max()), "A = 1", color=UP, va="bottom")
        axis.text(0.06, float(negative.min()), "A = -1", color=DOWN, va="top")
        axis.margins(y=0.15)
        axis.set_xlabel("importance ratio")
        axis.set_ylabel("push on log p")

    draw(path, f"push of {name}", curves)
    return True
