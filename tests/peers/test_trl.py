"""TRL's own loss beside ours: the expression is what `rlzoo objectives --from trl` says for the settings, or what the
adapter says to write instead of them.

The loss is a method of its trainer, which here is given the log-probs instead of a model. Each is equal in the gradient
of every token; what is not, says why.
"""

from collections import defaultdict
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from trl import GRPOConfig, GRPOTrainer

from objectives import TokenBatch
from objectives.peers import TRL
from objectives.peers.installed import committed
from objectives.peers.translate import from_peer
from tests.objectives.peers.remedies import refusal, remedy_beside_usual
from tests.peers.beside import FEW, SEEDS, assert_same, batch_of, ours, ours_on_entropy, pushed
from tests.peers.installed import installed

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
    "unbiased_kl": {"loss_type": "grpo", "beta": 0.3},
    "off-policy mask": {"loss_type": "grpo", "off_policy_mask_threshold": 0.05},
}


ENGINE: dict[str, Any] = {"use_vllm": True}
BY_TOKEN, MIN = {"vllm_importance_sampling_mode": "token_truncate"}, "vllm_importance_sampling_clip_min"
MAX = "vllm_importance_sampling_clip_max"
VESPO = {f"vespo_{name}": value for name, value in (("k_pos", 1.5), ("k_neg", 2.5), ("lambda_pos", 2.0))}
REPLACED: list[dict[str, Any]] = [
    *({"epsilon": value} for value in (0.05, 0.3, 1.5)),
    *({"epsilon_high": value} for value in (0.05, 0.28, 0.6)),
    {"epsilon": 0.1, "epsilon_high": 0.5},
    *({"delta": value} for value in (1.1, 1.5, 4.0)),
    {"epsilon": 0.5, "delta": 1.25},
    *({"beta": value, "use_bias_correction_kl": biased} for value in (0.04, 0.3) for biased in (False, True)),
    *({"loss_type": name} for name in ("grpo", "bnpo", "dr_grpo", "luspo", "sapo", "vespo")),
    *({"loss_type": "cispo", "epsilon_high": value} for value in (1.2, 2.0, 5.0)),
    {"importance_sampling_level": "sequence"},
    *({"importance_sampling_level": "sequence", "loss_type": name} for name in ("grpo", "luspo", "sapo")),
    {"loss_type": "sapo", "sapo_temperature_pos": 2.0},
    {"loss_type": "sapo", "sapo_temperature_neg": 3.0},
    {"loss_type": "vespo", **VESPO},
    {"loss_type": "vespo", "vespo_lambda_neg": 1.5},
    *({"scale_rewards": name} for name in ("none", "batch")),
    {"mask_truncated_completions": True},
    *({"off_policy_mask_threshold": value} for value in (0.01, 0.1)),
    *({**ENGINE, "off_policy_mask_threshold": value} for value in (0.01, 0.1)),
    *({**ENGINE, MAX: value} for value in (1.1, 2.0)),
    {**ENGINE, MAX: 1.5, MIN: 0.7},
    {**ENGINE, MAX: None, MIN: 0.7},
    {**ENGINE, **BY_TOKEN},
    {**ENGINE, **BY_TOKEN, MAX: 1.1, MIN: 0.9},
    {**ENGINE, "vllm_importance_sampling_mode": "token_mask", MAX: 1.1},
    {**ENGINE, "vllm_importance_sampling_mode": "sequence_truncate", MAX: 1.1},
]
"""Settings that the adapter refuses, at the user's values; `use_vllm` it leaves to TRL."""


def advantages(values: dict[str, Any], batch: TokenBatch) -> Tensor:
    """[N] as `_generate_and_score_completions` has them (grpo_trainer.py, 2761 to 2787), which samples as well."""
    names, index = batch.group.unique(return_inverse=True)
    groups = [batch.reward[index == number] for number in range(len(names))]
    mean = torch.stack([rewards.mean() for rewards in groups])[index]
    deviation = torch.stack([rewards.std() for rewards in groups])[index]
    deviation = batch.reward.std() if values["scale_rewards"] == "batch" else deviation
    return (batch.reward - mean) / (1.0 if values["scale_rewards"] == "none" else deviation + 1e-4)


def engine_weights(values: dict[str, Any], batch: TokenBatch) -> Tensor:
    """[N, T] or [N, 1] the weights of the same method (2661 to 2703)."""
    mode = values["vllm_importance_sampling_mode"]
    away = (batch.logp_old - batch.logp_sampler) * batch.mask
    ratio = (away if mode.startswith("token") else away.sum(1, keepdim=True)).exp()
    least, most = values[MIN], values[MAX]
    if mode.endswith("truncate"):
        return ratio.clamp(least, most)
    outside = (ratio < (-torch.inf if least is None else least)) | (ratio > (torch.inf if most is None else most))
    return ratio.masked_fill(outside, 0.0)


def theirs(settings: dict[str, Any], batch: TokenBatch, by: str = "logp") -> Tensor:
    """[N, T]: minus the derivative of TRL's loss by log-prob, or by entropy."""
    values = {**TRL.defaults, **settings}
    logp, entropy = (field.clone().requires_grad_() for field in (batch.logp, batch.entropy))
    mask = batch.mask.double()
    if values["mask_truncated_completions"]:
        mask = mask * ~batch.truncated[:, None]
    same = SimpleNamespace(
        num_processes=1,
        gather=lambda values: values,
        gather_for_metrics=lambda values: values,
        reduce=lambda values, reduction: values,
        pad_across_processes=lambda values, dim, pad_index: values,
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
        _entropy_bonus_enabled=values["entropy_coef"] != 0,
        current_gradient_accumulation_steps=1,
        model=SimpleNamespace(training=True),
        accelerator=same,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *a, **k: (logp, entropy, None),
        get_gamma_weights=GRPOTrainer.get_gamma_weights,
        get_off_policy_mask=GRPOTrainer.get_off_policy_mask,
        get_high_entropy_mask=lambda *a: GRPOTrainer.get_high_entropy_mask(trainer, *a),
    )
    inputs = {
        "prompt_ids": torch.zeros(len(mask), 1),
        "prompt_mask": torch.ones(len(mask), 1),
        "completion_ids": torch.zeros(mask.shape),
        "completion_mask": mask,
        "advantages": advantages(values, batch),
        "old_per_token_logps": batch.logp_old,
        "ref_per_token_logps": batch.logp_ref,
        "num_items_in_batch": mask.sum(),
    }
    if values["use_vllm"]:
        inputs |= {"sampling_per_token_logps": batch.logp_sampler}
        inputs |= {"importance_sampling_ratio": engine_weights(values, batch)}
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    return pushed(loss, {"logp": logp, "entropy": entropy}[by], batch.mask)


def whole_batch(seed: int) -> TokenBatch:
    """Random rollouts that are one micro-batch."""
    batch = batch_of(seed)
    return batch.with_fields(micro_batch=torch.zeros(len(batch.mask), dtype=torch.long))


@pytest.mark.parametrize("name", EQUAL)
def test_trl_pushes_every_token_as_the_expression_for_its_settings_does(name: str) -> None:
    expression = from_peer("trl", EQUAL[name]).expression
    for batch in map(whole_batch, SEEDS):
        assert_same(ours(expression, batch), theirs(EQUAL[name], batch))


@pytest.mark.parametrize("settings", REPLACED, ids=str)
def test_the_adapters_remedy_pushes_every_token_as_trl_does_at_the_users_value(settings: dict[str, Any]) -> None:
    usual = {key: value for key, value in settings.items() if key in ENGINE}
    expression = remedy_beside_usual(TRL, settings, usual)
    for batch in map(whole_batch, FEW):
        assert_same(ours(expression, batch), theirs(settings, batch))


@pytest.mark.parametrize("coefficient", [0.001, -0.1])
def test_the_adapters_remedy_for_the_entropy_is_trls_bonus(coefficient: float) -> None:
    settings = {"entropy_coef": coefficient}
    expression = remedy_beside_usual(TRL, settings, {})
    for batch in map(whole_batch, SEEDS):
        assert_same(ours_on_entropy(expression, batch), theirs(settings, batch, by="entropy"))


def test_the_committed_names_and_defaults_are_those_of_trl() -> None:
    """Where this fails, `python -m tests.peers.installed trl` writes them again: read the diff."""
    assert replace(committed("trl"), date="") == installed("trl")


def test_no_setting_of_trl_that_may_decide_the_objective_is_unknown() -> None:
    names = {item.name for item in fields(GRPOConfig)} - TRL.other_names.keys() - TRL.defaults.keys()
    names.remove("router_aux_loss_coef")  # a loss of its own, which nothing here has
    assert from_peer("trl", dict.fromkeys(names, 1)).expression == from_peer("trl", {}).expression


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_trls_entropy_threshold_is_interpolated(share: float) -> None:
    """The quantile lies between two entropies, so that it keeps up to a token less than our share, and no other."""
    settings = {"top_entropy_quantile": share}
    expression = remedy_beside_usual(TRL, settings, {})
    for batch in map(whole_batch, SEEDS):
        push, wanted = ours(expression, batch), theirs(settings, batch)
        kept, theirs_kept = push != 0, wanted != 0
        assert not (theirs_kept & ~kept).any()
        assert_same(torch.where(theirs_kept, push, 0.0), wanted)


@pytest.mark.parametrize("beta", [0.04, 0.3])
def test_trls_unbiased_divergence_of_a_response_is_k3_times_its_ratio(beta: float) -> None:
    """`use_bias_correction_kl`, its default, differentiates r k3, here of the response's ratio, and it says so."""
    settings = {"beta": beta, **SEQUENCE}
    line = refusal(TRL, from_peer("trl", SEQUENCE).expression, settings, {})
    assert "trl differs: " in line and "multiplied by the response's ratio" in line
    batch = whole_batch(1)
    divergence = theirs(settings, batch) - ours(from_peer("trl", SEQUENCE).expression, batch)
    logp = batch.logp.clone().requires_grad_()
    away, lengths = logp - batch.logp_ref, batch.mask.sum(1)
    ratio = (((logp - batch.logp_old) * batch.mask).sum(1) / lengths).exp()[:, None]
    loss = beta * ((ratio * (torch.expm1(-away) + away) * batch.mask).sum(1) / lengths).mean()
    assert_same(divergence, pushed(loss, logp, batch.mask))
