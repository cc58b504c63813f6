"""What an objective's advantages ascend: the reward itself, or a function of it."""

from functools import lru_cache
from math import comb

import torch
from torch import Tensor

from objectives import Objective, ObjectiveError, Surrogate, TokenBatch
from rlzoo.lab.map.regimes import RegimeSetting


def target_gradient(objective: Objective, setting: RegimeSetting) -> Tensor | None:
    """The gradient [P, T, V + 1, V] of what the advantages ascend in expectation; None if they have no such target.

    With G responses, of which each is right with probability p, an advantage that depends on its group's rewards alone
    ascends a function F(p), and F' is a sum over the G + 1 groups that there are. So GRPO's is not p, and that of a
    mean over pass@k is not either. What looks at other groups, at log-probs or at partial rewards has no F; nor has a
    surrogate that does not follow the advantage.
    """
    regime = setting.regime
    if regime.partial or not objective.the(Surrogate).follows_advantage:
        return None
    right, wrong = _advantages(objective, regime.responses)
    if right is None or wrong is None:
        return None
    table = setting.current.clone().requires_grad_()
    passed = (setting.language.log_probs(table).exp() * setting.right).sum(1)
    weight = _slope(right, wrong, passed.detach())
    return torch.autograd.grad((weight * passed).mean(), table)[0]


def _slope(right: Tensor, wrong: Tensor, passed: Tensor) -> Tensor:
    """F' at each p: by how much a right response expects more than a wrong one, over the others of its group."""
    others = len(right) - 2
    chance = torch.stack([comb(others, k) * passed**k * (1 - passed) ** (others - k) for k in range(others + 1)])
    return (chance * (right[1:] - wrong[:-1])[:, None]).sum(0)


@lru_cache(maxsize=1024)
def _advantages(objective: Objective, size: int) -> tuple[Tensor | None, Tensor | None]:
    """[G + 1] advantages of right and of wrong responses by how many are right (0 where there are none)."""
    groups = torch.stack([(torch.arange(size) < k).double() for k in range(size + 1)])
    try:
        together = _of(objective, groups)
        apart = torch.cat([_of(objective, groups[[k]]) for k in range(size + 1)])
    except ObjectiveError:  # it reads what groups of rewards do not have
        return None, None
    if not torch.allclose(together, apart, atol=1e-9):
        return None, None
    first, last = together[:, 0].clone(), together[:, -1].clone()
    first[0], last[-1] = 0.0, 0.0
    return first, last


def _of(objective: Objective, rewards: Tensor) -> Tensor:
    """[groups, G] advantages of groups of responses of one token."""
    count, size = rewards.shape
    ones = torch.ones(count * size, 1, dtype=torch.float64)
    batch = TokenBatch(
        mask=ones.bool(),
        group=torch.arange(count).repeat_interleave(size),
        reward=rewards.flatten(),
        rewards=rewards.flatten()[:, None],
        correct=rewards.flatten(),
        truncated=torch.zeros(count * size, dtype=torch.bool),
        max_length=100,
        logp_old=-ones,
        logp_ref=-ones,
        logp_sampler=-ones,
        logp_prompt=-ones[:, 0],
        entropy_old=ones,
        sum_pi_squared_old=ones / 2,
        on_policy=True,
    )
    advantage = objective.advantages(batch)
    return (advantage[:, 0] if advantage.dim() == 2 else advantage).view(count, size)
