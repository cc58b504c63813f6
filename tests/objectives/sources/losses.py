"""How other people's loss functions are called, each on a batch of this package."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import group_center, group_norm

Loss = Callable[[Any, Case, Tensor, Tensor], Tensor | list[Tensor]]
"""The source's names, a batch, its log-probs and entropies with gradient [N, T] -> the loss of each optimiser step."""


def masked_mean(values: Tensor, mask: Tensor, axis: int | None = None, dim: int | None = None) -> Tensor:
    """As verl's and OpenRLHF's."""
    axis = dim if axis is None else axis
    return (values * mask).sum(axis) / (mask.sum(axis) + 1e-8) if axis is not None else _mean(values, mask)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask.bool(), values, 0.0).sum() / (mask.sum() + 1e-8)


# ---- what the functions are given ------------------------------------------------------------------------------------


def tensors(case: Case) -> tuple[Tensor, Tensor]:
    """[N, T] the old log-probs and the mask as numbers."""
    return torch.from_numpy(case.logp_old), torch.from_numpy(case.mask).double()


def z_scored(case: Case) -> Tensor:
    """[N, T] verl's GRPO advantage: (R - mean) / (std + 1e-6), ddof 1."""
    return broadcast(case, group_norm(case, case.reward)[0])


def broadcast(case: Case, advantage: np.ndarray) -> Tensor:
    """[N] advantages on every token of the mask [N, T]."""
    return torch.from_numpy(np.repeat(advantage[:, None], case.mask.shape[1], 1) * case.mask)


def at_the_start(case: Case, rewards: Array) -> Tensor:
    """[N, T] rewards of responses as verl has them, on one token of each."""
    placed = torch.zeros(case.mask.shape)
    placed[:, 0] = torch.from_numpy(rewards)
    return placed


def per_micro_batch(case: Case, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Verl's `loss * rows / ppo_mini_batch_size` for each micro-batch (dp_actor.py, use_dynamic_bsz)."""
    numbers = torch.from_numpy(case.micro_batch)
    parts = [(numbers == number).nonzero()[:, 0] for number in numbers.unique()]
    return sum((loss(rows) * len(rows) / len(numbers) for rows in parts), start=torch.zeros(()))


# ---- the checks ------------------------------------------------------------------------------------------------------


def verl_fork(name: str, given: dict[str, Any], advantage: Callable[[Case], Tensor] = z_scored) -> Loss:
    """A fork's loss function, called as its actor calls it."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        (old, mask), weight = tensors(case), advantage(case)

        def part(rows: Tensor) -> Tensor:
            width = int(mask[rows].sum(0).nonzero().amax()) + 1
            here = (old[rows][:, :width], logp[rows][:, :width], weight[rows][:, :width], mask[rows][:, :width])
            more = {"entropy": entropy[rows][:, :width]} if "entropy_pivot" in given else {}
            return getattr(its, name)(*here, **given, **more)[0]

        return per_micro_batch(case, part)

    return loss


class Config(SimpleNamespace):
    """An actor's configuration."""

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def openrlhf(baseline: bool, token_level_loss: bool = True, kl: float = 0.01) -> Loss:
    """`PolicyLoss` as ppo_actor.py:76 makes it, and the advantages of experience_maker.py:262-328."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        old, mask = tensors(case)
        divergence = (old - torch.from_numpy(case.logp_ref)) * mask
        if baseline:
            value = broadcast(case, group_center(case, case.reward)[0])
        else:
            value = (torch.from_numpy(case.reward)[:, None] - kl * divergence.flip(1).cumsum(1).flip(1)) * mask
        mean = value.sum() / mask.sum()
        advantage = (value - mean) * (((value - mean) ** 2 * mask).sum() / mask.sum()).clamp(min=1e-8).rsqrt()
        policy = its.PolicyLoss(policy_loss_type="ppo", token_level_loss=token_level_loss)(
            logp, old, advantage, action_mask=mask
        )[0]
        if not baseline:
            return policy
        far = its.compute_approx_kl(logp, torch.from_numpy(case.logp_ref), kl_estimator="k2")
        return policy + 1e-5 * its.aggregate_loss(far, mask)

    return loss


def gpg(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_loss` of open-r1's trainer; share and advantage of lines 618-626."""
    centred = group_center(case, case.reward)[0]
    groups = [case.group == name for name in set(case.group.tolist())]
    share = sum(rows.sum() for rows in groups if case.reward[rows].std() > 0) / len(case.group)
    mask = torch.from_numpy(case.mask)
    trainer = SimpleNamespace(
        _get_per_token_logps=lambda *given: logp,
        beta=0.0,
        control=SimpleNamespace(should_evaluate=False),
        args=SimpleNamespace(adjust_gd=True),
        _metrics={"train": {"inverse_alpha": [max(share, 1 / len(case.group))]}},
    )
    ids = torch.zeros(mask.shape)
    inputs = {"prompt_ids": ids, "prompt_mask": ids, "completion_ids": ids, "completion_mask": mask.double()}
    return its.compute_loss(trainer, None, inputs | {"advantages": torch.from_numpy(centred)})


def fipo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`_compute_fipo_influence` with delta = 10, and the lines 1062-1074 and 1140 around it."""
    old, mask = tensors(case)
    advantage, ratio = z_scored(case), (logp - old).exp()
    trainer = SimpleNamespace(
        args=SimpleNamespace(delta=10.0),
        fipo_gamma=2 ** (-1 / 32.0),
        fipo_clip_range=0.2,
        fipo_clip_high_only=True,
        fipo_safety_threshold=4.0,
    )
    weight, _ = its._compute_fipo_influence(trainer, logp - old, ratio, advantage, mask.bool())
    each = -torch.min(ratio.clamp(max=10.0) * advantage, ratio.clamp(0.8, 1.2) * advantage)
    return (each * weight * mask).sum() / mask.sum()


def w_reinforce(kind: str) -> Loss:
    """`compute_psr_nsr_outcome_advantage` and `compute_policy_loss`, less 0.001 times the entropy's mean."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        old, mask = tensors(case)
        last = mask.cumsum(1).argmax(1)
        scores = torch.zeros_like(mask)
        scores[torch.arange(len(last)), last] = torch.from_numpy(case.reward == 1).double()
        given = (scores, scores, mask, 1.0, kind, 0.1)
        advantage, _ = its.compute_psr_nsr_outcome_advantage(*given)
        kept = {"positive": case.reward == 1, "negative": case.reward < 1}.get(kind, case.reward < 2)
        numbers = torch.from_numpy(np.where(kept, case.micro_batch, -1))
        total = torch.zeros(())
        for number in numbers[numbers >= 0].unique():
            rows = numbers == number
            here = (old[rows], logp[rows], advantage[rows], mask[rows], 0.2, scores[rows])
            part = its.compute_policy_loss(*here)[0] - 0.001 * masked_mean(entropy[rows], mask[rows])
            total = total + part * rows.sum() / kept.sum()
        return total

    return loss


def skywork(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`update_policy` (dp_actor.py:269-307) with a controller at 0.003, before it is updated."""
    (old, mask), advantage = tensors(case), z_scored(case)
    controller = its.EntController(0.003, 0.005, 0, 0.0001, 0.2, True)

    def part(rows: Tensor) -> Tensor:
        policy = its.compute_policy_loss(old[rows], logp[rows], advantage[rows], mask[rows], 0.2)[0]
        bonus = masked_mean(entropy[rows], mask[rows]) * controller.value * controller.entropy_loss_enabled
        return policy - bonus

    return per_micro_batch(case, part)


def gvpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_gvpo` with beta = 0.1 on each prompt, whose weight is its responses."""
    alone = SimpleNamespace(_flatten=lambda: SimpleNamespace(get_group=lambda: None))
    distributed = SimpleNamespace(get_world_size=lambda group: 1)
    its.compute_policy_loss_gvpo.__globals__.update(
        torch=SimpleNamespace(distributed=distributed, unique=torch.unique),
        allgather_dict_tensors=lambda data, size, group: data,
    )
    (old, mask), advantage = tensors(case), broadcast(case, group_center(case, case.reward)[0])
    uid = torch.from_numpy(case.group)
    total = torch.zeros(())
    for name in uid.unique():
        rows = uid == name
        here = (old[rows], logp[rows], advantage[rows], mask[rows], 0.1, uid[rows], alone, int(rows.sum()))
        total = total + its.compute_policy_loss_gvpo(*here) * rows.sum() / len(uid)
    return total


class Double:
    """A library whose float32 is float64."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name.replace("float32", "float64"))


def gdpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_gdpo_outcome_advantage` in float64, and `compute_policy_loss_vanilla` as configured by default."""
    names = its.compute_gdpo_outcome_advantage.__globals__
    names["verl_F"].masked_whiten = its.masked_whiten
    names |= {"torch": Double(torch), "np": Double(np)}
    old, mask = tensors(case)
    length = int(mask.shape[1])
    attended = torch.cat([torch.ones(len(mask), 1), torch.arange(length) < torch.from_numpy(case.length)[:, None]], 1)
    advantage = its.compute_gdpo_outcome_advantage(
        mask,
        mask,
        case.group,
        config={"gdpo_reward_keys": ["first", "second"]},
        non_tensor_batch={"first": case.rewards[:, 0], "second": case.rewards[:, 1]},
        batch={"prompts": torch.ones(len(mask), 1), "attention_mask": attended.long()},
    )[0]
    config = Config(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0, global_batch_info={})
    return its.compute_policy_loss_vanilla(old, logp, advantage, mask, "token-mean", config)[0]


def otb(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_optimal_token_baseline_advantage`, and `compute_policy_loss_vanilla` as configured by default."""
    old, mask = tensors(case)
    rewards = torch.zeros_like(mask)
    rewards[torch.arange(len(mask)), mask.cumsum(1).argmax(1)] = torch.from_numpy(case.reward)
    squares = torch.from_numpy(case.sum_pi_squared_old)
    advantage = its.compute_optimal_token_baseline_advantage(rewards, mask, case.group, old, squares)[0]
    config = Config(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0, global_batch_info={})
    return its.compute_policy_loss_vanilla(old, logp, advantage, mask, "token-mean", config)[0]


def hapo_advantage(its: Any, case: Case) -> Tensor:
    """`compute_hapo_outcome_advantage`."""
    _, mask = tensors(case)
    rewards = at_the_start(case, case.reward)
    return its.compute_hapo_outcome_advantage(rewards, mask, case.group, entropys=mask)[0]


def hapo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss` with the settings of recipe/qwen2.5_math_7b.sh."""
    settings = {
        "cliprange": 0.2,
        "clip_ratio_c": 10.0,
        "entropy_pivot": 0.8,
        "adaptive_clip": True,
        "adaptive_advantage": True,
    }
    return verl_fork("compute_policy_loss", settings, lambda it: hapo_advantage(its, it))(its, case, logp, entropy)


BAPO = Config(
    clip_ratio=0.2,
    clip_ratio_low=0.2,
    clip_ratio_high=0.2,
    policy_loss=Config(
        ratio_lower_start=0.8,
        ratio_upper_start=1.2,
        ratio_lower_max=0.95,
        ratio_upper_max=2.0,
        ratio_lower_step=0.05,
        ratio_upper_step=0.1,
        adv_ratio_target=0.5,
        eps=1e-8,
    ),
)
DCPO = Config(clip_type="dynamic", clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=10.0)

CHECKS: dict[str, Loss] = {
    "reinforce_pp(variant=authors)": openrlhf(baseline=False),
    "reinforce_pp_baseline(variant=authors)": openrlhf(baseline=True),
    "gpg(variant=authors)": gpg,
    "m2po(variant=authors)": verl_fork(
        "compute_m2po_policy_loss", {"M2_budget": 0.04, "miniclip_low": None, "miniclip_high": None}
    ),
    "fipo": fipo,
    "hapo(variant=authors)": hapo,
    "bapo(variant=authors)": verl_fork("compute_policy_loss_bapo", {"config": BAPO}),
    "clip_cov(variant=authors,fraction=1)-dynamic_sampling": verl_fork(
        "compute_policy_loss_clip_cov", {"cliprange": 1.0, "clip_ratio": 1.0}
    ),
    "kl_cov(variant=authors)-dynamic_sampling": verl_fork(
        "compute_policy_loss_kl_cov", {"k_percent": 0.2, "ppo_kl_coef": 1}
    ),
    "w_reinforce(variant=authors)": w_reinforce("weighted"),
    "w_reinforce(variant=psr_authors)": w_reinforce("positive"),
    "w_reinforce(variant=nsr_authors)": w_reinforce("negative"),
    "gvpo": gvpo,
    "magic(variant=authors,start=0.003)-dynamic_sampling": skywork,
    "gdpo(variant=verl)": gdpo,
    "otb(variant=verl)": otb,
    "dcpo(variant=authors)": verl_fork(
        "compute_policy_loss_dcpo", {"config": DCPO, "loss_agg_mode": "only-token-mean"}
    ),
}
