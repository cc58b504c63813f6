"""How functions of frameworks, and of authors that built on one, are called, and where they stand."""

import asyncio
import math
from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from tests.objectives.batches import Case
from tests.objectives.references.parts import group_center, group_norm
from tests.objectives.references.stages import groups
from tests.objectives.sources.losses import Config, Loss, broadcast, masked_mean, tensors


def centred(case: Case) -> Tensor:
    """[N, T] R - mean of the group."""
    return broadcast(case, group_center(case, case.reward)[0])


def dppo_trl(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`_compute_divergence_mask` and lines 1317-1342 of `_compute_loss` with dppo_config.py's numbers; 1065-1086."""
    _, mask = tensors(case)
    numbers = {"epsilon_low": 0.15, "epsilon_high": 0.15, "divergence_type": "binary_tv"}
    trainer = SimpleNamespace(
        **numbers,
        clip_ratio_c=20.0,
        beta=0.0,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(num_processes=1),
        _compute_divergence_mask=lambda *given, **more: its._compute_divergence_mask(trainer, *given, **more),
    )
    found = its.lines_1317_1342(
        self=trainer,
        math=math,
        per_token_logps=logp,
        sampling_per_token_logps=torch.from_numpy(case.logp_sampler),
        advantages=torch.from_numpy(group_norm(case, case.reward, 1e-4)[0])[:, None],
        mask=mask,
        current_topk_logps=None,
        sampling_topk_logps=None,
        inputs={"num_items_in_batch": mask.sum()},
    )
    return found.loss


def nft(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """Lines 322-373 of `update_policy` on the groups that their trainer leaves; over the tokens instead of 1000."""
    old, mask = tensors(case)
    success, mixed = torch.zeros(len(mask), 1), torch.zeros(len(mask), dtype=torch.bool)
    for group in groups(case):
        success[group] = case.correct[group].mean()
        mixed[group] = len(set(case.correct[group])) > 1
    found = its.lines_322_373(
        self=SimpleNamespace(
            config=Config(ratio_type="token", clamp_negative=1.0, clamp_positive=0.0, neg_weight=1.0, normalize=1)
        ),
        log_prob=logp[mixed],
        old_log_prob=old[mixed],
        response_mask=mask[mixed],
        correct_rate=success[mixed],
        correct_mask=torch.from_numpy(case.correct)[mixed],
        verl_F=SimpleNamespace(masked_mean=masked_mean),
        clamp_preserve_grad=its.clamp_preserve_grad,
        print=lambda *given: None,
    )
    return found.pg_loss * 1000 / mask[mixed].sum()


def rec(mode: str, weight: str = "none") -> Loss:
    """`RECPolicyLossFn` with the numbers of its `default_args`."""

    def loss(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
        old, mask = tensors(case)
        function = its.RECPolicyLossFn(epsilon_low_prime=0.6, epsilon_high_prime=2.0, clip_mode=mode, weight=weight)
        return function(logp, old, mask, centred(case))[0]

    return loss


def kimi(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`_compute_kimi15_loss`, and the mean over tokens in place of `agg_loss`."""
    old, mask = tensors(case)
    worker = SimpleNamespace(
        _get_or_cache_config=lambda name, usual: usual, _kimi15_config_logged=True, _cached_metrics={}
    )
    return masked_mean(its._compute_kimi15_loss(worker, (logp - old).exp(), logp, old, centred(case)), mask)


def dg(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`dg_loss`; log-probs outside the mask are 0."""
    return its.dg_loss(logp * tensors(case)[1], torch.from_numpy(group_center(case, case.reward)[0]))


def tpo(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`tpo_target` of each group, and the cross-entropy of _trial.py:370-376, a mean over prompts."""
    old, mask = tensors(case)
    terms = []
    for rows in groups(case):
        target = its.tpo_target((old * mask)[rows].sum(1), case.reward[rows])
        terms.append(-(target * (logp * mask)[rows].sum(1).log_softmax(0)).sum())
    return torch.stack(terms).mean()


def opd(its: Any, case: Case, logp: Tensor, entropy: Tensor) -> Tensor:
    """`incorporate_kl_penalty`, and minus the sum of ratio times advantage, which the service calculates."""
    old, mask = tensors(case)
    teacher = torch.from_numpy(case.logp_teacher)

    class Values(SimpleNamespace):
        def to_torch(self) -> Tensor:
            return self.data

    async def scored(row: int) -> list[float]:
        return [0.0, *teacher[row].tolist()]

    data = []
    for row in range(len(mask)):
        fields = {"logprobs": old[row], "mask": mask[row], "advantages": 0 * old[row], "target_tokens": mask[row]}
        said = {name: Values(data=values) for name, values in fields.items()}
        whole = SimpleNamespace(append_int=lambda token, row=row: row)
        data.append(SimpleNamespace(model_input=whole, loss_fn_inputs=defaultdict(None, said)))
    client = SimpleNamespace(compute_logprobs_async=scored)
    asyncio.run(its.incorporate_kl_penalty(data, [client] * len(data), [0] * len(data), 1.0, 0.0))
    advantage = torch.stack([datum.loss_fn_inputs["advantages"] for datum in data])
    return -((logp - old).exp() * advantage * mask).sum() / len(mask)


CHECKS: dict[str, Loss] = {
    "dppo(variant=trl)": dppo_trl,
    "nft+dynamic_sampling": nft,
    "rec": rec("one-side"),
    "rec(variant=two_side)": rec("two-side"),
    "rec(variant=ring)": rec("ring"),
    "rec(variant=is)": rec("one-side", "importance_sampling"),
    "kimi(variant=roll)": kimi,
    "dg": dg,
    "tpo": tpo,
    "opd": opd,
}
