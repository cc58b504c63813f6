"""verl's own functions beside ours: the expression is what `rlzoo objectives --from verl` says for the settings, or
what the adapter says to write instead of them.

Each is equal in the gradient of every token; what is not, says why.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import verl
import yaml
from torch import Tensor
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.core_algos import agg_loss, get_adv_estimator_fn, get_policy_loss_fn, kl_penalty
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights, compute_rollout_rejection_mask
from verl.workers.config import ActorConfig, DistillationLossConfig, PolicyLossConfig

from objectives import TokenBatch
from objectives.peers import VERL
from objectives.peers.installed import committed, flat
from objectives.peers.translate import from_peer
from objectives.peers.verl import (
    ACTOR,
    ADVANTAGE,
    AS_REWARD,
    BETA,
    BOUND,
    BYPASS,
    CAP,
    CLIP,
    COEF,
    COV,
    DRO,
    ENTROPY,
    HIGH,
    KIND,
    KL,
    KL_COEF,
    KL_COV,
    LENGTH,
    LOSS,
    LOW,
    MEAN,
    MOST,
    REJECT,
    REJECTED,
    REWARD_BETA,
    REWARD_KIND,
    REWARD_KL,
    SAMPLER,
    STANDARD,
    TASK,
    TAU_NEG,
    TAU_POS,
    TEACHER,
    TEACHER_CLIP,
    TEACHER_HIGH,
    TEACHER_LOW,
    TEACHES,
)
from tests.objectives.peers.remedies import remedy_beside_usual
from tests.peers.beside import FEW, SEEDS, assert_same, batch_of, ours, ours_on_entropy, pushed
from tests.peers.installed import installed

POLICY = f"{ACTOR}policy_loss."
WITH_KL: dict[str, Any] = {KL: True, BETA: 0.3}

EQUAL: dict[str, dict[str, Any]] = {
    "grpo": {},
    "grpo without dual clip": {CAP: 1e9},
    "dapo's clip": {HIGH: 0.28, CAP: 10.0},
    "mean per response": {MEAN: "seq-mean-token-mean"},
    "dr_grpo": {STANDARD: False, MEAN: "seq-mean-token-sum-norm"} | {LENGTH: 64},
    "rloo": {ADVANTAGE: "rloo", MEAN: "seq-mean-token-sum"},
    "opo": {ADVANTAGE: "opo"},
    "gpg": {ADVANTAGE: "gpg", LOSS: "gpg"},
    "gspo": {LOSS: "gspo", LOW: 3e-4, HIGH: 4e-4},
    "gspo over responses": {LOSS: "gspo", LOW: 0.1, HIGH: 0.3, MEAN: "seq-mean-token-mean"},
    "sapo": {LOSS: "sapo"},
    "gmpo": {LOSS: "geo_mean", LOW: 0.4, HIGH: 0.4},
    "cispo": {LOSS: "cispo", LOW: 10, HIGH: 0.2},
    "dppo by total variation": {LOSS: "dppo_tv", LOW: 0.15, HIGH: 0.15, CAP: 20.0},
    "dppo by divergence": {LOSS: "dppo_kl", LOW: 0.05, HIGH: 0.05, CAP: 20.0},
    "dro": {LOSS: "dro", DRO: 0.1},
    "kl_cov": {LOSS: "kl_cov", KL_COV: 0.05, KL_COEF: 1.0},
    "clip_cov of every token in the band": {LOSS: "clip_cov", f"{COV}ratio": 1.0, f"{COV}lb": 0.1},
    "kl k1": WITH_KL | {KIND: "k1"},
    "kl k2": WITH_KL | {KIND: "mse"},
    "kl k3": WITH_KL | {KIND: "low_var_kl"},
    "kl k3 with the gradient of k2": WITH_KL | {KIND: "k3+"},
    "teacher k2": {TEACHER: True, TEACHES: "k2", COEF: 0.3},
    "teacher k3": {TEACHER: True, MEAN: "seq-mean-token-mean"},
    "truncated importance sampling": {SAMPLER: "token", BOUND: 1.1},
    "its sequence form": {SAMPLER: "sequence", BOUND: 1.5},
}


REPLACED: list[dict[str, Any]] = [
    *({LOW: value} for value in (0.05, 0.3)),
    *({HIGH: value} for value in (0.05, 0.28)),
    *({CLIP: value, LOW: None, HIGH: None} for value in (0.1, 0.3)),
    *({CAP: value} for value in (1.5, 10.0, 1e9)),
    *({MEAN: name} for name in ("seq-mean-token-sum", "seq-mean-token-mean")),
    *({MEAN: "seq-mean-token-sum-norm", LENGTH: value} for value in (7, 64)),
    *({BETA: value} for value in (0.01, 0.3)),
    *({KIND: name} for name in ("kl", "k1", "mse", "k2", "k2+", "mse+", "k3+", "k1+", "kl+", "low_var_kl+")),
    *({KIND: "k3", BETA: value} for value in (0.01, 0.3)),
    *({TEACHER: True, TEACHES: name, COEF: 0.3} for name in ("k3", "low_var_kl", "mse")),
    {STANDARD: False},
    *({ADVANTAGE: name} for name in ("rloo", "rloo_vectorized", "opo", "gpg")),
    *({REWARD_KL: True, REWARD_BETA: value} for value in (0.01, 0.2)),
    *({SAMPLER: name, BOUND: value} for name in ("token", "sequence") for value in (1.1, 2.0, "0.3_5.0", "0.5_2.0")),
    {BYPASS: True},
    *({LOSS: "gspo", LOW: value} for value in (3e-4, 0.01)),
    *({LOSS: "sapo", **taus} for taus in ({TAU_POS: 2.0}, {TAU_NEG: 3.0})),
    {LOSS: "geo_mean", LOW: 0.3, HIGH: 0.4},
    {LOSS: "cispo", HIGH: 0.4},
    {LOSS: "dppo_tv", LOW: 0.1, HIGH: 0.1},
    *({LOSS: "kl_cov", **numbers} for numbers in ({KL_COV: 0.1}, {KL_COV: 0.1, KL_COEF: 0.5})),
    {LOSS: "clip_cov", f"{COV}ratio": 1.0, f"{COV}lb": 0.1, f"{COV}ub": 3.0},
    *({LOSS: "dro", DRO: value} for value in (0.1, 0.3)),
    *(
        {REJECT: name, REJECTED: bounds, MEAN: mean}
        for name in ("token_k1", "seq_sum_k1", "seq_mean_k1")
        for bounds in ("0.9_1.2", "0.7_1.05", 1.1)
        for mean in ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum")
    ),
]
"""Settings that the adapter refuses, at the user's values, beside the objective of a loss of verl."""


def theirs(settings: dict[str, Any], batch: TokenBatch, by: str = "logp") -> Tensor:
    """[N, T]: minus the derivative of verl's loss by log-prob, or by entropy."""
    values = {**VERL.defaults, **settings}
    logp, entropy = (field.clone().requires_grad_() for field in (batch.logp, batch.entropy))
    mask = batch.mask.double()
    in_actor = ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "tau_pos", "tau_neg")
    in_loss = ("loss_mode", "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef", "dro_beta")
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        policy_loss=PolicyLossConfig(**{name: values[POLICY + name] for name in in_loss}),
        **{name: values[ACTOR + name] for name in in_actor},
    )
    config.global_batch_info.update({"loss_scale_factor": values[LENGTH]} if values[LENGTH] else {})
    weights, kept = None, mask
    away = batch.logp_old - batch.logp_sampler
    if values[SAMPLER]:
        weights, _ = compute_rollout_correction_weights(away, mask, values[SAMPLER], values[BOUND])
    if values[REJECT]:  # the engine counts tokens and responses before (engine/fsdp/transformer_impl.py, 725 to 735)
        kept, _ = compute_rollout_rejection_mask(away, mask, values[REJECT], values[REJECTED])
        config.global_batch_info.update(batch_num_tokens=mask.sum(), global_batch_size=len(mask))
    old = batch.logp_sampler if values[BYPASS] else batch.logp_old
    loss, _ = get_policy_loss_fn(values[LOSS])(
        old, logp, advantages(values, batch), kept, values[MEAN], config, weights
    )
    if values[KL]:
        divergence = kl_penalty(logp, batch.logp_ref, values[KIND])
        loss = loss + values[BETA] * agg_loss(divergence, mask, values[MEAN])
    if values[TEACHER]:  # as `distillation_loss` does (trainer/distillation/losses.py, 291 to 302)
        divergence = kl_penalty(logp, batch.logp_teacher, values[TEACHES])
        loss = loss + values[COEF] * agg_loss(divergence, mask, values[MEAN])
    loss = loss - values[ENTROPY] * agg_loss(entropy, mask, values[MEAN])
    return pushed(loss, {"logp": logp, "entropy": entropy}[by], batch.mask)


def advantages(values: dict[str, Any], batch: TokenBatch) -> Tensor:
    """[N, T] verl's, from rewards that lie on the responses' last tokens, less the divergence at every token."""
    last = torch.arange(batch.mask.shape[1]) == (batch.mask * torch.arange(batch.mask.shape[1])).argmax(1, keepdim=True)
    reward = last * batch.reward[:, None]
    if values[REWARD_KL]:  # as `apply_kl_penalty` does (ray_trainer.py, 98 to 106), which takes a DataProto
        divergence = kl_penalty(batch.logp_old, batch.logp_ref, values[REWARD_KIND])
        reward = reward - values[REWARD_BETA] * divergence * batch.mask
    advantage, _ = get_adv_estimator_fn(values[ADVANTAGE])(
        token_level_rewards=reward,
        response_mask=batch.mask.double(),
        index=batch.group.numpy(),
        norm_adv_by_std_in_grpo=values[STANDARD],
        config=AlgoConfig(adv_estimator=values[ADVANTAGE], norm_adv_by_std_in_grpo=values[STANDARD]),
    )
    return advantage


@pytest.mark.parametrize("name", EQUAL)
def test_verl_pushes_every_token_as_the_expression_for_its_settings_does(name: str) -> None:
    settings = {ADVANTAGE: "grpo"} | EQUAL[name]
    expression = from_peer("verl", settings).expression
    for seed in SEEDS:
        batch = batch_of(seed)
        assert_same(ours(expression, batch), theirs(settings, batch))


@pytest.mark.parametrize("most", [None, 0.3])
@pytest.mark.parametrize("mean", ["token-mean", "seq-mean-token-mean"])
@pytest.mark.parametrize("loss_mode", ["vanilla", "sapo", "geo_mean", "gvpo"])
@pytest.mark.parametrize("clip", [{}, {TEACHER_CLIP: 0.1, TEACHER_LOW: None, TEACHER_HIGH: None}])
def test_verls_distillation_without_rewards_is_the_expression_for_its_settings(
    most: float | None, mean: str, loss_mode: str, clip: dict[str, Any]
) -> None:
    """As `distillation_loss` and `distillation_ppo_loss` do (trainer/distillation/losses.py, 206 to 300)."""
    alone = {TEACHER: True, TASK: False, AS_REWARD: True, TEACHES: "k1", MOST: most, MEAN: mean, LOSS: loss_mode}
    expression = from_peer("verl", {ADVANTAGE: "grpo", KL: True, ENTROPY: 0.1, HIGH: 0.28, **alone, **clip}).expression
    bounds = {name.rpartition(".")[2]: value for name, value in clip.items()}
    config = DistillationLossConfig(loss_mode="k1", **bounds)
    for seed in FEW:
        batch = batch_of(seed)
        logp = batch.logp.clone().requires_grad_()
        divergence = kl_penalty(logp, batch.logp_teacher, "k1").detach()
        divergence = divergence if most is None else divergence.clamp(-most, most)
        loss, _ = get_policy_loss_fn("vanilla")(
            batch.logp_old, logp, -divergence, batch.mask.double(), mean, config, None
        )
        assert_same(ours(expression, batch), pushed(loss, logp, batch.mask))


@pytest.mark.parametrize("settings", REPLACED, ids=str)
def test_the_adapters_remedy_pushes_every_token_as_verl_does_at_the_users_value(settings: dict[str, Any]) -> None:
    usual = {ADVANTAGE: "grpo", KL: BETA in settings or KIND in settings, DRO: 1.0}
    usual |= {LOSS: settings.get(LOSS, "vanilla")}  # it names the objective, which the adapter refuses nothing of
    expression = remedy_beside_usual(VERL, settings, usual)
    for seed in FEW:
        batch = batch_of(seed)
        assert_same(ours(expression, batch), theirs({**usual, **settings}, batch))


@pytest.mark.parametrize("mean", ["token-mean", "seq-mean-token-mean"])
def test_the_adapters_remedy_for_the_entropy_is_verls_bonus(mean: str) -> None:
    usual, settings = {ADVANTAGE: "grpo"}, {ENTROPY: 0.003, MEAN: mean}
    expression = remedy_beside_usual(VERL, settings, usual)
    for seed in SEEDS:
        batch = batch_of(seed)
        assert_same(ours_on_entropy(expression, batch), theirs({**usual, **settings}, batch, by="entropy"))


def test_the_committed_names_and_defaults_are_those_of_verl() -> None:
    """Where this fails, `python -m tests.peers.installed verl` writes them again: read the diff."""
    assert replace(committed("verl"), date="") == installed("verl")


def test_no_setting_of_verls_own_file_that_may_decide_the_objective_is_unknown() -> None:
    file = Path(verl.__file__).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml"
    settings = dict(flat(yaml.safe_load(file.read_text("utf-8"))))
    assert (
        from_peer("verl", {**settings, ADVANTAGE: "grpo"}).expression
        == from_peer("verl", {ADVANTAGE: "grpo"}).expression
    )


@pytest.mark.parametrize("estimator", ["reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_verls_global_deviation_has_ddof_1(estimator: str) -> None:
    """Theirs is ours times the root of (n - 1) / n, n the tokens of the batch, and adds 1e-8 to the variance."""
    settings = {**VERL.defaults} | {ADVANTAGE: estimator, LOSS: "gpg", MEAN: "seq-mean-token-sum"}
    expression = from_peer("verl", settings).expression
    for seed in SEEDS:
        batch = batch_of(seed)
        tokens = batch.mask.sum()
        torch.testing.assert_close(
            ours(expression, batch) * ((tokens - 1) / tokens).sqrt(), theirs(settings, batch), rtol=1e-6, atol=1e-8
        )


def test_verls_geometric_mean_takes_the_geometric_mean_of_the_engines_weights_too() -> None:
    """A response's weight there is the geometric mean of its tokens' truncated ones; ours has one per token."""
    plain = {ADVANTAGE: "grpo"} | EQUAL["gmpo"]
    settings = plain | EQUAL["truncated importance sampling"]
    assert "geometric mean of its tokens' weights" in " ".join(from_peer("verl", settings).differences)
    for seed in SEEDS:
        batch = batch_of(seed)
        weights = (batch.logp_old - batch.logp_sampler).exp().clamp(max=1.1).log() * batch.mask
        of_response = (weights.sum(1) / batch.mask.sum(1)).exp()
        assert_same(ours(from_peer("verl", plain).expression, batch) * of_response[:, None], theirs(settings, batch))
