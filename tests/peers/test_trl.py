"""TRL's own loss beside ours: the expression is what `rlzoo objectives --from trl` says for the settings.

The loss is a method of its trainer, which here is given the log-probs instead of a model; the advantages are ours, as
TRL has no function that they could be had from. Each is equal in the gradient of every token; what is not, says why.
"""

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from trl import GRPOTrainer

from objectives import TokenBatch, parse
from rlzoo.peers import PEERS
from rlzoo.peers.translate import from_peer
from tests.peers.beside import SEEDS, assert_same, batch_of, ours, pushed

SEQUENCE = {"loss_type": "grpo", "importance_sampling_level": "sequence"}
EQUAL: dict[str, dict[str, Any]] = {
    "dapo": {"epsilon_high": 0.28},
    "grpo": {"loss_type": "grpo"},
    "grpo with delta": {"loss_type": "grpo", "delta": 2.0},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "batch deviation": {"loss_type": "grpo", "scale_rewards": "batch"},
    "gspo": {**SEQUENCE, "epsilon": 3e-4, "epsilon_high": 4e-4},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon": 0.1},
    "cispo": {"loss_type": "cispo", "epsilon_high": 1.2},
    "sapo": {"loss_type": "sapo"},
    "vespo": {"loss_type": "vespo"},
    "kl": {"loss_type": "grpo", "beta": 0.3, "use_bias_correction_kl": False},
    "off-policy mask": {"loss_type": "grpo", "off_policy_mask_threshold": 0.05},
}


def theirs(settings: dict[str, Any], batch: TokenBatch, advantage: Tensor) -> Tensor:
    """[N, T]: minus the derivative of TRL's loss by log-prob."""
    values = PEERS["trl"].defaults | settings
    logp, mask = batch.logp.clone().requires_grad_(), batch.mask.double()
    same = SimpleNamespace(
        num_processes=1,
        gather=lambda it: it,
        gather_for_metrics=lambda it: it,
        reduce=lambda it, reduction: it,
        pad_across_processes=lambda it, dim, pad_index: it,
        sync_gradients=True,
    )
    high = values["epsilon_high"]
    trainer = SimpleNamespace(
        **{key: values[key] for key in ("beta", "loss_type", "importance_sampling_level", "top_entropy_quantile")},
        **{
            key: values[key]
            for key in ("off_policy_mask_threshold", "use_vllm", "use_adaptive_entropy", "entropy_coef")
        },
        args=SimpleNamespace(**values, steps_per_generation=1),
        epsilon_low=values["epsilon"],
        epsilon_high=values["epsilon"] if high is None else high,
        max_completion_length=batch.max_length,
        vllm_importance_sampling_correction=True,
        aux_loss_enabled=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True),
        accelerator=same,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, batch.entropy, None),
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_high_entropy_mask=lambda *a: GRPOTrainer.get_high_entropy_mask(trainer, *a),
    )
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1),
        "prompt_mask": torch.ones(len(mask), 1),
        "completion_ids": torch.zeros(mask.shape),
        "completion_mask": mask,
        "advantages": advantage,
        "old_per_token_logps": batch.logp_old,
        "ref_per_token_logps": batch.logp_ref,
        "num_items_in_batch": mask.sum(),
    }
    return pushed(GRPOTrainer._compute_loss(trainer, None, inputs), logp, batch.mask)


@pytest.mark.parametrize("name", EQUAL)
def test_trl_pushes_every_token_as_the_expression_for_its_settings_does(name: str) -> None:
    expression = from_peer("trl", EQUAL[name]).expression
    for seed in SEEDS:
        batch = batch_of(seed).with_fields(micro_batch=torch.zeros(len(batch_of(seed).mask), dtype=torch.long))
        advantage = parse(expression).advantages(batch)
        assert_same(ours(expression, batch), theirs(EQUAL[name], batch, advantage))


def test_trls_entropy_threshold_is_interpolated() -> None:
    """The quantile of 80 % lies between two entropies, so that it keeps up to a token less than our fifth, no other."""
    settings = {"loss_type": "dapo", "top_entropy_quantile": 0.2}
    expression = from_peer("trl", settings).expression
    for seed in SEEDS:
        batch = batch_of(seed)
        advantage = parse(expression).advantages(batch)
        found, wanted = ours(expression, batch), theirs(settings, batch, advantage)
        kept, theirs_kept = found != 0, wanted != 0
        assert not (theirs_kept & ~kept).any()
        assert_same(torch.where(theirs_kept, found, 0.0), wanted)


def test_trls_unbiased_divergence_is_k3_times_the_ratio() -> None:
    """`use_bias_correction_kl`, its default, differentiates r k3; ours is the gradient of k3 itself."""
    settings = {"loss_type": "grpo", "beta": 0.3}
    expression = from_peer("trl", settings).expression
    batch = batch_of(1)
    without = parse("grpo+group_norm(eps=0.0001)-kl")
    found = theirs(settings, batch, parse(expression).advantages(batch)) - ours(str(without), batch)
    logp = batch.logp.clone().requires_grad_()
    away = logp - batch.logp_ref
    unbiased = (logp - batch.logp_old).exp() * (torch.expm1(-away) + away)
    loss = 0.3 * ((unbiased * batch.mask).sum(1) / batch.mask.sum(1)).mean()
    assert_same(found, pushed(loss, logp, batch.mask))
