"""How the loss functions of the authors' copies of verl are called, each on a batch of this package."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.objectives.batches import Array, Case
from tests.objectives.references.parts import group_center, group_norm
from tests.objectives.sources.losses import Config, Double, Loss, broadcast, per_micro_batch, tensors, z_scored

CLIP = Config(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.28, clip_ratio_c=10.0, global_batch_info={})
BOUNDS = {"cliprange": 0.2, "cliprange_low": 0.2, "cliprange_high": 0.28, "clip_ratio_c": 10.0}


def reweighted(its: Any, case: Case, alpha: float) -> Tensor:
    """[N, T] `compute_reweight_advantage` as the scripts of AR-Lopti set it."""
    old, _ = tensors(case)
    return its.compute_reweight_advantage(z_scored(case), old, "both_linear_normal", alpha, 1 - alpha, 1.0)


def _ar_lopti(its: Any, case: Case, logp: Tensor, advantage: Tensor, kl_mask: Tensor) -> Tensor:
    """`update_policy` (dp_actor.py:252-373): micro-batches of equal size, each with the same weight."""
    (old, mask), ref = tensors(case), torch.from_numpy(case.logp_ref)

    def part(rows: Tensor) -> Tensor:
        bounds = BOUNDS | {"cliprange_high": 0.24}
        policy = its.compute_policy_loss(old[rows], logp[rows], advantage[rows], mask[rows], **bounds)[0]
        divergence = its.kl_penalty(logp[rows], ref[rows], "low_var_kl") * kl_mask[rows]
        return policy + 0.001 * its.agg_loss(divergence, mask[rows], "token-mean")

    return per_micro_batch(case, part)


def advantage_reweighting(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """The settings of scripts/train_kklogic_AR_4x80GB.sh."""
    return _ar_lopti(its, case, logp, reweighted(its, case, 0.2), torch.ones_like(logp))


def lopti(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> list[Tensor]:
    """The two updates of ray_trainer.py:1264-1292 with the settings of scripts/train_kklogic_Lopti_4x80GB.sh."""
    low, advantage = torch.from_numpy(case.logp_old).exp() < 0.4, reweighted(its, case, 0.0)
    return [
        _ar_lopti(its, case, logp, torch.where(tokens, advantage, 0.0), torch.where(tokens, 1.0, 0.0))
        for tokens in (low, ~low)
    ]


def justrl(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss` with the settings of examples/justrl/run_scaling_ssh_distill.sh."""
    return _justrl(its, case, logp, tensors(case)[1])


def stapo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """JustRL's function on the tokens that the mask of STAPO's Algorithm 1 leaves."""
    mask = torch.from_numpy(case.mask & ~spurious(case, group_norm(case, case.reward)[0])).double()
    return _justrl(its, case, logp, mask)


def spurious(case: Case, advantage: Array) -> np.ndarray:
    """[N, T] A > 0, pi < tau_p and H below the 75 % quantile of the tokens with the first two."""
    rare = case.mask & (advantage[:, None] > 0) & (np.exp(case.current) < 0.002)
    if not rare.any():
        return rare
    return rare & (case.current_entropy < np.quantile(case.current_entropy[rare], 0.75))


def _justrl(its: Any, case: Case, logp: Tensor, mask: Tensor) -> Tensor:
    (old, _), advantage = tensors(case), z_scored(case)

    def part(rows: Tensor) -> Tensor:
        return its.compute_policy_loss(old[rows], logp[rows], advantage[rows], mask[rows], **BOUNDS)[0]

    return per_micro_batch(case, part)


def dapo_advantage(its: Any, case: Case) -> Tensor:
    """[N, T] `DAPORewardManager` and `compute_grpo_outcome_advantage`, after a prompt of one token."""

    def row(number: int) -> SimpleNamespace:
        inside = torch.arange(-1, case.mask.shape[1]) < int(case.length[number])
        fields = {"prompts": inside[:1], "responses": inside[1:], "attention_mask": inside}
        return SimpleNamespace(batch=fields, non_tensor_batch={"reward_model": {"ground_truth": number}, "source": ""})

    class Rows(list[SimpleNamespace]):
        @property
        def batch(self) -> dict[str, Tensor]:
            return {"responses": torch.zeros(case.mask.shape)}

    its.DAPORewardManager.__call__.__globals__["torch"] = Double(torch)
    buffer = Config(enable=True, len=case.max_length / 5, penalty_factor=1.0, log=False)
    rewards = its.DAPORewardManager(
        Config(decode=lambda ids, skip_special_tokens: "", eos_token="</s>"),
        0,
        lambda data_source, solution_str, ground_truth, extra_info: case.reward[ground_truth],
        "source",
        case.max_length,
        buffer,
    )(Rows(map(row, range(len(case.group)))))
    return its.compute_grpo_outcome_advantage(rewards, tensors(case)[1], case.group)[0]


def dapo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_vanilla` with the settings of dapo/run_dapo_qwen2.5_32b.sh."""
    return _vanilla(its, case, logp, dapo_advantage(its, case))


def entropy20(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`update_policy` (dp_actor.py:436-489) with entropy_top_ratio = 0.2 on DAPO's advantages."""

    def top(rows: Tensor, mask: Tensor) -> dict[str, Tensor]:
        return {"entropy_top_mask": its.get_global_entropy_top_mask(entropy[rows].detach(), mask, 0.2)}

    return _vanilla(its, case, logp, dapo_advantage(its, case), top)


def stare(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_stare` with the settings of run_short_cot_qwen2.5_math_7b_STARE.sh and its controller."""
    controller = its.STAREController(target_entropy=0.3, reweight_w=1.1, reweight_m=0.9)
    controller.update(case.entropy_old[case.mask].mean())
    settings = Config(**vars(CLIP), stare=Config(enabled=True, variant="O1", top_p_ratio=0.1))
    more = {"config": settings, "stare_ctrl_dict": vars(controller)}
    return _vanilla(its, case, logp, z_scored(case), lambda rows, mask: more, "compute_policy_loss_stare")


def dppo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_with_mask` as dppo_binary_tv with a threshold of 0.15."""
    sampler = torch.from_numpy(case.logp_sampler)
    settings = Config(clip_ratio=0.15, clip_ratio_low=0.15, clip_ratio_high=0.15, global_batch_info={})

    def more(rows: Tensor, mask: Tensor) -> dict[str, Any]:
        given = {"config": settings, "rollout_log_prob": sampler[rows], "loss_mode": "dppo_binary_tv"}
        return given | {name: sampler[rows] for name in ("topk_kl", "topk_tv", "entropy")}

    advantage = broadcast(case, group_center(case, case.reward)[0])
    return _vanilla(its, case, logp, advantage, more, "compute_policy_loss_with_mask")


def _vanilla(
    its: Any,
    case: Case,
    logp: Tensor,
    advantage: Tensor,
    more: Any = lambda rows, mask: {},
    name: str = "compute_policy_loss_vanilla",
) -> Tensor:
    old, mask = tensors(case)

    def part(rows: Tensor) -> Tensor:
        given = {"loss_agg_mode": "token-mean", "config": CLIP, **more(rows, mask[rows])}
        return getattr(its, name)(old[rows], logp[rows], advantage[rows], mask[rows], **given)[0]

    return per_micro_batch(case, part)


CHECKS: dict[str, Loss] = {
    "advantage_reweighting(variant=authors)": advantage_reweighting,
    "lopti(variant=authors)": lopti,
    "dapo(variant=authors)-dynamic_sampling": dapo,
    "entropy20(variant=authors)-dynamic_sampling": entropy20,
    "justrl(variant=authors)": justrl,
    "stapo(variant=justrl)": stapo,
    "stare(variant=authors)-dynamic_sampling": stare,
    "dppo(variant=authors)": dppo,
}
