"""What an objective decides about verl's settings, and what the adapter relies on in verl."""

import copy
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from objectives import Objective, ObjectiveError, parse

MARK = "rlzoo:"
"""What stands before the expression in verl's `loss_mode`."""

_ACTOR = "actor_rollout_ref.actor"
LOSS_MODE = f"{_ACTOR}.policy_loss.loss_mode"

REPLACED: Mapping[str, str] = {
    f"{_ACTOR}.clip_ratio": "+clip(low=0.2)",
    f"{_ACTOR}.clip_ratio_low": "+clip(low=0.2)",
    f"{_ACTOR}.clip_ratio_high": "+clip_higher(high=0.28)",
    f"{_ACTOR}.clip_ratio_c": "+dual_clip(cap=3)",
    f"{_ACTOR}.entropy_coeff": "+entropy_bonus(coefficient=0.001)",
    f"{_ACTOR}.kl_loss_coef": "+kl(beta=0.001)",
    f"{_ACTOR}.kl_loss_type": "+kl(estimator=k2)",
    f"{_ACTOR}.loss_agg_mode": "+token_mean",
    f"{_ACTOR}.loss_scale_factor": "+constant_length(length=1024)",
    f"{_ACTOR}.policy_loss.clip_cov_lb": "+clip_cov(low=1)",
    f"{_ACTOR}.policy_loss.clip_cov_ratio": "+clip_cov(fraction=0.0002)",
    f"{_ACTOR}.policy_loss.clip_cov_ub": "+clip_cov(high=5)",
    f"{_ACTOR}.policy_loss.dro_beta": "+drift(beta=0.1)",
    f"{_ACTOR}.policy_loss.kl_cov_ratio": "+kl_cov",
    f"{_ACTOR}.policy_loss.ppo_kl_coef": "+kl_cov",
    f"{_ACTOR}.ppo_epochs": "+lopti",
    f"{_ACTOR}.tau_neg": "+sapo(tau_neg=1.05)",
    f"{_ACTOR}.tau_pos": "+sapo(tau_pos=1)",
    f"{_ACTOR}.use_kl_loss": "+kl(beta=0.001)",
    "algorithm.adv_estimator": "+group_norm",
    "algorithm.filter_groups.enable": "+dynamic_sampling",
    "algorithm.filter_groups.metric": "+dynamic_sampling",
    "algorithm.gamma": "+global_norm",
    "algorithm.kl_ctrl.horizon": "+kl_reward(beta=0.001)",
    "algorithm.kl_ctrl.kl_coef": "+kl_reward(beta=0.001)",
    "algorithm.kl_ctrl.target_kl": "+kl_reward(beta=0.001)",
    "algorithm.kl_ctrl.type": "+kl_reward(beta=0.001)",
    "algorithm.kl_penalty": "+kl_reward(beta=0.001)",
    "algorithm.lam": "+global_norm",
    "algorithm.norm_adv_by_std_in_grpo": "+group_center",
    "algorithm.rollout_correction.bypass_mode": "+sampler_ratio",
    "algorithm.rollout_correction.loss_type": "+sampler_ratio",
    "algorithm.rollout_correction.rollout_is": "+sampler_correction(cap=2)",
    "algorithm.rollout_correction.rollout_is_batch_normalize": "+sampler_correction(cap=2)",
    "algorithm.rollout_correction.rollout_is_threshold": "+sampler_correction(cap=2)",
    "algorithm.rollout_correction.rollout_rs": "+sampler_mask",
    "algorithm.rollout_correction.rollout_rs_threshold": "+sampler_mask",
    "algorithm.use_kl_in_reward": "+kl_reward(beta=0.001)",
}
"""A setting of verl that has no effect here -> what an objective has in its place, as it is added to an expression."""

_ONLY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    f"{_ACTOR}.shuffle": ((False,), "it would take the responses of a prompt apart"),
    f"{_ACTOR}.strategy": (("fsdp", "fsdp2"), "the adapter was not tried with other engines"),
    "algorithm.use_pf_ppo": ((False,), "it draws responses anew, which takes groups apart"),
    "critic.enable": ((None, False), "no objective here reads a value model"),
    "distillation.enabled": ((False,), "its loss and the objective's would be in one place"),
    "trainer.critic_warmup": ((0,), "there is no critic"),
    "trainer.use_v1": ((True,), "the adapter is made for that trainer"),
    "trainer.v1.trainer_mode": (("sync",), "the adapter was not tried with trainers that sample ahead"),
}
"""A setting of verl -> the values that the adapter can go with, and why no others."""


def expression_in(config: DictConfig) -> str | None:
    """The expression that verl's configuration names, if it does."""
    mode = OmegaConf.select(config, LOSS_MODE)
    return mode.removeprefix(MARK) if isinstance(mode, str) and mode.startswith(MARK) else None


def settled(config: DictConfig) -> DictConfig:
    """A copy of verl's configuration with what the objective in it decides; the same again where it is settled.

    Raises ObjectiveError, naming the remedy, for a setting that the objective replaces and for one it cannot go with.
    """
    objective = parse(expression_in(config) or "")
    decided = _decided(objective)
    _refuse_replaced(objective, config, decided)
    for name, (allowed, why) in _ONLY.items():
        value = OmegaConf.select(config, name)
        if value not in allowed:
            raise ObjectiveError(f"{name}={value} does not go with {MARK}{objective}: {why}; leave it at {allowed[0]}")
    _refuse_what_it_cannot(objective, config)
    config = copy.deepcopy(config)
    with open_dict(config):
        for name, value in decided.items():
            OmegaConf.update(config, name, value)
    return config


def _decided(objective: Objective) -> dict[str, Any]:
    """Settings of verl that follow from the objective."""
    decided = {
        f"{_ACTOR}.ppo_epochs": objective.pass_count,
        f"{_ACTOR}.use_kl_loss": "logp_ref" in objective.needs,  # loads the reference, and does nothing else here
        "algorithm.adv_estimator": "grpo",  # no critic, and does nothing else here
        "algorithm.filter_groups.enable": objective.refills,
        "critic.enable": False,
    }
    return decided | ({"actor_rollout_ref.rollout.calculate_log_probs": True} if _reads_sampler(objective) else {})


def _reads_sampler(objective: Objective) -> bool:
    return "logp_sampler" in objective.needs


def _refuse_replaced(objective: Objective, config: DictConfig, decided: Mapping[str, Any]) -> None:
    """What the objective would set itself may be said."""
    for name, remedy in REPLACED.items():
        value, usual = OmegaConf.select(config, name), OmegaConf.select(_defaults(), name)
        if value != usual and value != decided.get(name, usual):
            raise ObjectiveError(
                f"{name}={value} has no effect beside {MARK}{objective}: leave it out and write the part that "
                f"does it into the objective, as in '{objective}{remedy}'"
            )


def _refuse_what_it_cannot(objective: Objective, config: DictConfig) -> None:
    if objective.reads_micro_batches:
        raise ObjectiveError(
            f"objective={objective} has a part with scope=microbatch, but verl cuts a mini-batch by length after it is "
            "planned: leave the scope out"
        )
    if "logp_prompt" in objective.needs:
        raise ObjectiveError(f"objective={objective} reads the log-probs of prompts, which verl does not calculate")
    rows = config.actor_rollout_ref.rollout.n
    if rows < objective.learning_group:
        raise ObjectiveError(
            f"actor_rollout_ref.rollout.n={rows}: objective={objective} needs at least {objective.learning_group}"
        )
    if objective.refills and OmegaConf.select(config, "trainer.v1.sampler.custom_sampler.path"):
        raise ObjectiveError(
            f"objective={objective} samples again what it drops, which a trainer.v1.sampler.custom_sampler does not: "
            "leave it out, or add -dynamic_sampling"
        )


@cache
def _defaults() -> DictConfig:
    spec = find_spec("verl")
    assert spec is not None and spec.origin is not None
    loaded = OmegaConf.load(Path(spec.origin).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml")
    assert isinstance(loaded, DictConfig)
    return loaded
