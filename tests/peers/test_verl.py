"""verl's own functions beside ours: the expression is what `rlzoo objectives --from verl` says for the settings.

Each is equal in the gradient of every token; what is not, says why.
"""

from typing import Any

import pytest
import torch
from torch import Tensor
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo.core_algos import agg_loss, get_adv_estimator_fn, get_policy_loss_fn, kl_penalty
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.workers.config import ActorConfig, PolicyLossConfig

from objectives import TokenBatch
from rlzoo.peers import PEERS
from rlzoo.peers.translate import from_peer
from tests.peers.beside import SEEDS, assert_same, batch_of, ours, pushed

ACTOR, LOSS = "actor_rollout_ref.actor.", "actor_rollout_ref.actor.policy_loss."
MODE, ESTIMATOR = f"{LOSS}loss_mode", "algorithm.adv_estimator"
MEAN, LOW, HIGH, CAP = (f"{ACTOR}{it}" for it in ("loss_agg_mode", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c"))
CORRECTION = "algorithm.rollout_correction."
KL = {f"{ACTOR}use_kl_loss": True, f"{ACTOR}kl_loss_coef": 0.3}

EQUAL: dict[str, dict[str, Any]] = {
    "grpo": {},
    "grpo without dual clip": {CAP: 1e9},
    "dapo's clip": {HIGH: 0.28, CAP: 10.0},
    "mean per response": {MEAN: "seq-mean-token-mean"},
    "dr_grpo": {"algorithm.norm_adv_by_std_in_grpo": False, MEAN: "seq-mean-token-sum-norm"}
    | {f"{ACTOR}loss_scale_factor": 64},
    "rloo": {ESTIMATOR: "rloo", MEAN: "seq-mean-token-sum"},
    "opo": {ESTIMATOR: "opo"},
    "gpg": {ESTIMATOR: "gpg", MODE: "gpg"},
    "gspo": {MODE: "gspo", LOW: 3e-4, HIGH: 4e-4},
    "gspo over responses": {MODE: "gspo", LOW: 0.1, HIGH: 0.3, MEAN: "seq-mean-token-mean"},
    "sapo": {MODE: "sapo"},
    "gmpo": {MODE: "geo_mean", LOW: 0.4, HIGH: 0.4},
    "cispo": {MODE: "cispo", LOW: 10, HIGH: 0.2},
    "dppo by total variation": {MODE: "dppo_tv", LOW: 0.15, HIGH: 0.15, CAP: 20.0},
    "dppo by divergence": {MODE: "dppo_kl", LOW: 0.05, HIGH: 0.05, CAP: 20.0},
    "dro": {MODE: "dro", f"{LOSS}dro_beta": 0.1},
    "kl_cov": {MODE: "kl_cov", f"{LOSS}kl_cov_ratio": 0.05, f"{LOSS}ppo_kl_coef": 1.0},
    "clip_cov of every token in the band": {MODE: "clip_cov", f"{LOSS}clip_cov_ratio": 1.0, f"{LOSS}clip_cov_lb": 0.1},
    "kl k1": KL | {f"{ACTOR}kl_loss_type": "k1"},
    "kl k2": KL | {f"{ACTOR}kl_loss_type": "mse"},
    "kl k3": KL | {f"{ACTOR}kl_loss_type": "low_var_kl"},
    "kl k3 with the gradient of k2": KL | {f"{ACTOR}kl_loss_type": "k3+"},
    "truncated importance sampling": {f"{CORRECTION}rollout_is": "token", f"{CORRECTION}rollout_is_threshold": 1.1},
    "its sequence form": {f"{CORRECTION}rollout_is": "sequence", f"{CORRECTION}rollout_is_threshold": 1.5},
}


def theirs(settings: dict[str, Any], batch: TokenBatch) -> Tensor:
    """[N, T]: minus the derivative of verl's loss by log-prob."""
    values = PEERS["verl"].defaults | settings
    logp, mask = batch.logp.clone().requires_grad_(), batch.mask.double()
    in_actor = ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "tau_pos", "tau_neg")
    in_loss = ("loss_mode", "clip_cov_ratio", "clip_cov_lb", "clip_cov_ub", "kl_cov_ratio", "ppo_kl_coef", "dro_beta")
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        use_dynamic_bsz=True,
        policy_loss=PolicyLossConfig(**{name: values[LOSS + name] for name in in_loss}),
        **{name: values[ACTOR + name] for name in in_actor},
    )
    scale = {"loss_scale_factor": values[f"{ACTOR}loss_scale_factor"]}
    config.global_batch_info.update({key: value for key, value in scale.items() if value})
    weights = None
    if values[f"{CORRECTION}rollout_is"]:
        weights, _ = compute_rollout_correction_weights(
            batch.logp_old - batch.logp_sampler,
            mask,
            values[f"{CORRECTION}rollout_is"],
            values[f"{CORRECTION}rollout_is_threshold"],
        )
    loss, _ = get_policy_loss_fn(values[MODE])(
        batch.logp_old, logp, advantages(values, batch), mask, values[MEAN], config, weights
    )
    if values[f"{ACTOR}use_kl_loss"]:
        divergence = kl_penalty(logp, batch.logp_ref, values[f"{ACTOR}kl_loss_type"])
        loss = loss + values[f"{ACTOR}kl_loss_coef"] * agg_loss(divergence, mask, values[MEAN])
    return pushed(loss, logp, batch.mask)


def advantages(values: dict[str, Any], batch: TokenBatch) -> Tensor:
    """[N, T] verl's, from rewards that lie on the responses' last tokens."""
    last = torch.arange(batch.mask.shape[1]) == (batch.mask * torch.arange(batch.mask.shape[1])).argmax(1, keepdim=True)
    standard = values["algorithm.norm_adv_by_std_in_grpo"]
    found, _ = get_adv_estimator_fn(values[ESTIMATOR])(
        token_level_rewards=last * batch.reward[:, None],
        response_mask=batch.mask.double(),
        index=batch.group.numpy(),
        norm_adv_by_std_in_grpo=standard,
        config=AlgoConfig(adv_estimator=values[ESTIMATOR], norm_adv_by_std_in_grpo=standard),
    )
    return found


@pytest.mark.parametrize("name", EQUAL)
def test_verl_pushes_every_token_as_the_expression_for_its_settings_does(name: str) -> None:
    settings = {ESTIMATOR: "grpo"} | EQUAL[name]
    expression = from_peer("verl", settings).expression
    for seed in SEEDS:
        batch = batch_of(seed)
        assert_same(ours(expression, batch), theirs(settings, batch))


@pytest.mark.parametrize("estimator", ["reinforce_plus_plus", "reinforce_plus_plus_baseline"])
def test_verls_global_deviation_has_ddof_1(estimator: str) -> None:
    """Theirs is ours times the root of (n - 1) / n, n the tokens of the batch, and adds 1e-8 to the variance."""
    settings = PEERS["verl"].defaults | {ESTIMATOR: estimator, MODE: "gpg", MEAN: "seq-mean-token-sum"}
    expression = from_peer("verl", settings).expression
    for seed in SEEDS:
        batch = batch_of(seed)
        tokens = batch.mask.sum()
        torch.testing.assert_close(
            ours(expression, batch) * ((tokens - 1) / tokens).sqrt(), theirs(settings, batch), rtol=1e-6, atol=1e-8
        )


def test_verls_geometric_mean_takes_the_geometric_mean_of_the_engines_weights_too() -> None:
    """A response's weight there is the geometric mean of its tokens' truncated ones; ours has one per token."""
    plain = {ESTIMATOR: "grpo"} | EQUAL["gmpo"]
    settings = plain | EQUAL["truncated importance sampling"]
    assert "geometric mean of its tokens' weights" in " ".join(from_peer("verl", settings).differences)
    for seed in SEEDS:
        batch = batch_of(seed)
        weights = (batch.logp_old - batch.logp_sampler).exp().clamp(max=1.1).log() * batch.mask
        of_response = (weights.sum(1) / batch.mask.sum(1)).exp()
        assert_same(ours(from_peer("verl", plain).expression, batch) * of_response[:, None], theirs(settings, batch))
