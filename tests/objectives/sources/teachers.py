"""How other people's functions that learn from a teacher are called, and where they stand."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.objectives.batches import Case
from tests.objectives.sources.losses import Config, Loss, masked_mean, per_micro_batch, tensors, z_scored

VERL = ("verl-project/verl", "1dda039b9c6311889a9c9a26040677e1254814f9", "verl/trainer/ppo/core_algos.py")
SDAR = ("ZJU-REAL/SDAR", "8b85c231df3b384131132f174f0cd893fb58b509")
RLSD = ("iie-ycx/RLSD", "93e46f7a0312a71094498425baef8b3d28ca383f")


def _teacher(case: Case) -> Tensor:
    return torch.from_numpy(case.logp_teacher)


def verl_opd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`kl_penalty` with k1 as the advantage of `compute_policy_loss_vanilla` (losses.py:250-270)."""
    old, mask = tensors(case)
    advantage = -its.kl_penalty(logp, _teacher(case), "k1").detach()
    config = Config(clip_ratio=0.2, clip_ratio_low=0.2, clip_ratio_high=0.2, global_batch_info={})
    loss: Tensor = its.compute_policy_loss_vanilla(old, logp, advantage, mask, "token-mean", config)[0]
    return loss


def opsd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`compute_loss` with `use_thinking_machines_loss`, for a model whose only token has these log-probs."""
    names = its.compute_loss.__globals__
    names |= {"F": SimpleNamespace(log_softmax=lambda logits, dim: logits)}
    names |= {"nullcontext": nullcontext, "empty_cache": lambda: None}
    trainer = SimpleNamespace(
        use_thinking_machines_loss=True, temperature=1.0, use_ema_teacher=False, fixed_teacher=False
    )

    def part(rows: Tensor) -> Tensor:
        mask = torch.from_numpy(case.mask)[rows]
        known = {"student": logp[rows], "teacher": _teacher(case)[rows]}
        ids = {name: torch.zeros(len(rows), 1 + mask.shape[1], dtype=torch.long) for name in known}

        def model(input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
            values = next(known[name] for name in known if input_ids is ids[name])
            return SimpleNamespace(logits=torch.nn.functional.pad(values, (0, 1))[..., None])

        inputs: dict[str, Any] = {"labels": torch.nn.functional.pad(mask.long() - 1, (1, 0), value=-1) * 100}
        for name in known:
            inputs |= {f"{name}_input_ids": ids[name], f"{name}_attention_mask": ids[name], f"{name}_prompt_length": 1}
        loss: Tensor = its.compute_loss(trainer, model, inputs)
        return loss

    return per_micro_batch(case, part)


def rlsd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`_build_stgca_advantages` and `compute_policy_loss` with the numbers of rlsd_train.sh, in the first step."""
    means = SimpleNamespace(masked_mean=lambda values, mask, dim=None, eps=0.0: masked_mean(values, mask, dim))
    for function in (its.compute_policy_loss, its.average_loss, its._build_stgca_advantages):
        function.__globals__["VF"] = means
    old, mask = tensors(case)
    advantage, _ = its._build_stgca_advantages(
        teacher_log_probs=_teacher(case),
        student_log_probs=logp,
        advantages=z_scored(case),
        response_mask=mask,
        lam=0.5,
        clip_range=0.2,
    )
    loss: Tensor = its.compute_policy_loss(old, logp, advantage, mask, 0.2, 0.28, 3.0, "default", "token")[0]
    return loss


def sdar(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`update_policy` (dp_actor.py:372-457) with the numbers of sdar_trainer/run_alfworld_3b.sh."""
    (old, mask), advantage = tensors(case), z_scored(case)
    reference, teacher = torch.from_numpy(case.logp_ref), _teacher(case)

    def part(rows: Tensor) -> Tensor:
        here = (old[rows], logp[rows], advantage[rows], mask[rows])
        policy = its.compute_policy_loss(*here, 0.2, 0.2, 0.2, 3.0, "token-mean")[0]
        kl = its.agg_loss(its.kl_penalty(logp[rows], reference[rows], "low_var_kl"), mask[rows], "token-mean")
        gated: Tensor = its.compute_sdar_loss(logp[rows], teacher[rows], mask[rows], 5.0, "token-mean")[0]
        return policy + 0.01 * kl + 0.01 * gated

    return per_micro_batch(case, part)


CHECKS: dict[str, tuple[list[tuple[str, str, str, list[str]]], Loss]] = {
    "opd(variant=verl)": (
        [(*VERL, ["kl_penalty", "kl_penalty_forward", "compute_policy_loss_vanilla", "agg_loss"])],
        verl_opd,
    ),
    "opsd(variant=authors)": (
        [("siyan-zhao/OPSD", "590ec26c59e689a29840a501f65335578251b68c", "opsd_trainer.py", ["compute_loss"])],
        opsd,
    ),
    "rlsd(variant=authors)": (
        [
            (*RLSD, "verl/workers/actor/dp_opsd_actor.py", ["_build_stgca_advantages"]),
            (*RLSD, "verl/trainer/core_algos.py", ["compute_policy_loss", "average_loss"]),
        ],
        rlsd,
    ),
    "sdar(variant=authors)": (
        [
            (*SDAR, "verl/trainer/ppo/sdar_utils.py", ["compute_sdar_loss"]),
            (*SDAR, "verl/trainer/ppo/core_algos.py", ["compute_policy_loss", "kl_penalty", "agg_loss"]),
        ],
        sdar,
    ),
}
