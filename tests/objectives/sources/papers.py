"""How functions that hold the paper's form of a method are called, of verl, TRL or the authors, and where they stand.

Each on a whole mini-batch; what has a mean per micro-batch there is in the other files.
"""

import math
from types import SimpleNamespace
from typing import Any

import torch
from scipy.special import comb
from torch import Tensor

from tests.objectives.batches import Case
from tests.objectives.references.parts import group_center, group_norm
from tests.objectives.references.stages import groups
from tests.objectives.sources.losses import Config, Double, Loss, at_the_start, broadcast, openrlhf, tensors, z_scored

VANILLA = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": math.inf}


def verl(name: str, mode: str = "token-mean", **numbers: Any) -> Loss:
    """A loss of verl's kind on GRPO's advantage."""
    return lambda its, case, logp, entropy: _verl(its, name, case, logp, z_scored(case), mode, **numbers)


def _verl(
    its: Any, name: str, case: Case, logp: Tensor, advantage: Tensor, mode: str = "token-mean", **numbers: Any
) -> Tensor:
    old, mask = tensors(case)
    config = Config(clip_ratio=0.2, global_batch_info={}, **numbers)
    function = getattr(its, name)
    function.__globals__["ActorConfig"] = Config
    return function(old, logp, advantage, mask, mode, config)[0]


def verl_advantage(advantage: str, name: str, rewards: str = "reward", **numbers: Any) -> Loss:
    """An advantage of verl's kind, in one of verl's losses."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        values = getattr(its, advantage)(at_the_start(case, getattr(case, rewards)), tensors(case)[1], case.group)[0]
        return _verl(its, name, case, logp, values, **numbers)

    return loss


def kpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_kpo`, whose filter is in float64 here."""
    its.kalman_filter.__globals__["torch"] = Double(torch)
    bounds = {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}
    return _verl(its, "compute_policy_loss_kpo", case, logp, z_scored(case), "seq-mean-token-mean", **bounds)


def aspo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_archer` where all tokens have the narrower clip."""
    old, mask = tensors(case)
    narrow = torch.ones_like(mask, dtype=torch.bool)
    return its.compute_policy_loss_archer(old, logp, z_scored(case), mask.bool(), narrow)[0]


def ce_gppo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_gppo_loss_general_beta` with the paper's beta1 for 1.5B models."""
    old, mask = tensors(case)
    numbers = {"cliprange": 0.2, "clip_ratio_c": 10.0, "gppo_loss_beta1": 0.5, "gppo_loss_beta2": 1.0}
    return its.compute_gppo_loss_general_beta(old, logp, z_scored(case), mask, **numbers)[0]


def passk(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_advantage` with k = 2 of answers that are right in full, in verl's loss."""
    its.compute_advantage.__globals__.update(comb=comb)
    right = at_the_start(case, (case.correct == 1).astype(float))
    advantage = its.compute_advantage(right, tensors(case)[1], case.group, 2)[0]
    return _verl(its, "compute_policy_loss_vanilla", case, logp, advantage, **VANILLA)


def gdpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """Lines 1226-1248 of the authors' copy of TRL, in verl's loss."""
    advantage = its.lines_1226_1248(
        self=SimpleNamespace(reward_weights=torch.ones(2), num_generations=2),
        rewards_per_func=torch.from_numpy(case.rewards),
        device="cpu",
    ).advantages
    return _verl(its, "compute_policy_loss_vanilla", case, logp, advantage[:, None] * tensors(case)[1], **VANILLA)


def trl(loss_type: str, advantage: str = "group", level: str = "token", low: float = 0.2, high: float = 0.2) -> Loss:
    """Lines 3054-3148 of GRPOTrainer's `_compute_loss`, and the advantages of lines 2680-2708."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        old, mask = tensors(case)
        vespo = {"vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0, "vespo_lambda_neg": 2.0}
        gate = None
        if loss_type == "vespo":
            its.get_gamma_weights.__globals__["math"] = math
            gate = torch.no_grad()(its.get_gamma_weights)  # as it is decorated there
        trainer = SimpleNamespace(
            loss_type=loss_type,
            importance_sampling_level=level,
            epsilon_low=low,
            epsilon_high=high,
            beta=0.0,
            args=SimpleNamespace(delta=None, **vespo),
            off_policy_mask_threshold=None,
            use_vllm=False,
            model=SimpleNamespace(training=True),
            current_gradient_accumulation_steps=1,
            max_completion_length=case.max_length,
            accelerator=SimpleNamespace(num_processes=1),
            get_gamma_weights=gate,
        )
        found = its.lines_3054_3148(
            self=trainer,
            per_token_logps=logp,
            old_per_token_logps=old,
            advantages=_scaled(case, advantage)[:, None],
            mask=mask,
            entropy_mask=None,
            inputs={"num_items_in_batch": mask.sum()},
        )
        return found.loss

    return loss


def _scaled(case: Case, by: str) -> Tensor:
    """[N] rewards less the group's mean, over the deviation of the group (verl's eps), of the batch, or of nothing."""
    centred = torch.from_numpy(group_center(case, case.reward)[0])
    if by == "batch":
        return centred / (torch.from_numpy(case.reward).std() + 1e-4)
    return centred if by == "none" else torch.from_numpy(group_norm(case, case.reward)[0])


def rloo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """Lines 1684-1694 of RLOOTrainer's `_compute_loss`, and the advantages of lines 1525-1552 with beta = 0.05."""
    old, mask = tensors(case)
    reward = torch.from_numpy(case.reward) - 0.05 * ((old - torch.from_numpy(case.logp_ref)) * mask).sum(1)
    advantage = torch.zeros_like(reward)
    for rows in groups(case):
        others = (reward[rows].sum() - reward[rows]) / (rows.sum() - 1)
        advantage[rows] = reward[rows] - others
    found = its.lines_1684_1694(
        self=SimpleNamespace(epsilon_low=0.2, epsilon_high=0.2),
        per_token_logps=logp,
        completion_mask=mask,
        logps=(logp * mask).sum(1),
        old_logps=(old * mask).sum(1),
        inputs={"old_logps": (old * mask).sum(1), "advantages": advantage},
    )
    return found.loss


def real(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """Lines 1105-1135 of ms-swift's loss, on each prompt, which counts by its responses."""
    (old, mask), advantage, total = tensors(case), broadcast(case, group_center(case, case.reward)[0]), 0 * logp.sum()
    for rows in groups(case):
        found = its.lines_1105_1135(
            self=SimpleNamespace(real_tau=0.5, num_generations=int(rows.sum())),
            log_ratio=logp[rows] - old[rows],
            advantages=advantage[rows],
            completion_mask=mask[rows],
        )
        total = total + found.loss * rows.sum() / len(rows)
    return total


def icepop(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`PolicyLoss` with its correction of that name, and the mean per response."""
    old, mask = tensors(case)
    corrected = {"vllm_is_correction_type": "icepop", "vllm_is_truncated_threshold": [0.5, 5.0]}
    function = its.PolicyLoss(token_level_loss=False, enable_vllm_is_correction=True, **corrected)
    return function(logp, old, z_scored(case), mask, torch.from_numpy(case.logp_sampler))[0]


def dppo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_policy_loss_with_mask` as dppo_binary_tv with a threshold of 0.15 and no cap."""
    (old, mask), sampler = tensors(case), torch.from_numpy(case.logp_sampler)
    config = Config(clip_ratio=0.15, clip_ratio_low=0.15, clip_ratio_high=0.15, clip_ratio_c=1e9, global_batch_info={})
    given = {
        "config": config,
        "rollout_log_prob": sampler,
        "loss_mode": "dppo_binary_tv",
        "loss_agg_mode": "token-mean",
    }
    given |= dict.fromkeys(("topk_kl", "topk_tv", "entropy"), sampler)
    advantage = broadcast(case, group_center(case, case.reward)[0])
    return its.compute_policy_loss_with_mask(old, logp, advantage, mask, **given)[0]


CHECKS: dict[str, Loss] = {
    "cispo": verl("compute_policy_loss_cispo", clip_ratio_low=1.0, clip_ratio_high=4.0),
    "gspo": verl("compute_policy_loss_gspo", clip_ratio_low=3e-4, clip_ratio_high=4e-4),
    "sapo": verl("compute_policy_loss_sapo", tau_pos=1.0, tau_neg=1.05),
    "gmpo": verl("compute_policy_loss_geo_mean", clip_ratio_low=0.4, clip_ratio_high=0.4),
    "dro(variant=verl,beta=0.1)": verl("compute_policy_loss_dro", policy_loss=Config(dro_beta=0.1)),
    "gdpo": gdpo,
    "gpg(variant=verl)": verl_advantage("compute_gpg_outcome_advantage", "compute_policy_loss_gpg"),
    "opo(variant=verl)": verl_advantage(
        "compute_opo_outcome_advantage", "compute_policy_loss_vanilla", **VANILLA | {"clip_ratio_c": 3.0}
    ),
    "maxrl": verl_advantage("compute_maxrl_outcome_advantage", "compute_policy_loss_vanilla", "correct", **VANILLA),
    "passk(variant=paper,k=2)": passk,
    "kpo": kpo,
    "aspo-kl": aspo,
    "ce_gppo-dynamic_sampling": ce_gppo,
    "dr_grpo": trl("dr_grpo", "none"),
    "luspo": trl("luspo", level="sequence", low=0.002, high=0.0025),
    "vespo": trl("vespo"),
    "lite_ppo": trl("dapo", "batch"),
    "rloo(variant=trl)": rloo,
    "real": real,
    "icepop": icepop,
    "reinforce_pp": openrlhf(baseline=False, token_level_loss=False, kl=0.001),
    "dppo": dppo,
}
