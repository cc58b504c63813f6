"""What an objective decides about verl's settings, and what the adapter relies on in verl."""

import copy
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from objectives import Objective, ObjectiveError, Penalty, parse
from objectives.adapters.verl.teacher import check_teacher, is_verls
from objectives.parts.advantages import check_overlong
from objectives.parts.losses import KL as Divergence
from objectives.peers.replaced import refuse_replaced
from objectives.peers.verl import (
    ACTOR,
    ADVANTAGE,
    BETA,
    EPOCHS,
    FILTER,
    KIND,
    KL,
    LIMIT,
    LOSS,
    MANAGER,
    OVERLONG,
    TEACHER,
    VERL,
)

FUSED = "actor_rollout_ref.model.use_fused_kernels"
REWARD_KEYS, REWARD_WEIGHTS = (f"algorithm.gdpo_reward_{name}" for name in ("keys", "weights"))
_KINDS = {"k1": "kl", "k2": "mse", "k3": "low_var_kl"}
"""Estimator of `kl` -> what verl calls it."""
MARK = "rlzoo:"
"""What stands before the expression in verl's `loss_mode`."""

_ONLY: Mapping[str, tuple[tuple[Any, ...], str]] = {
    f"{ACTOR}shuffle": ((False,), "it would take the responses of a prompt apart"),
    f"{ACTOR}strategy": (("fsdp", "fsdp2"), "the adapter was not tried with other engines"),
    "algorithm.use_pf_ppo": ((False,), "it resamples responses, which takes groups apart"),
    "critic.enable": ((None, False), "no objective here reads a value model"),
    "trainer.critic_warmup": ((0,), "there is no critic"),
    "trainer.use_v1": ((True,), "the adapter is made for that trainer"),
    "trainer.v1.trainer_mode": (("sync",), "the adapter was not tried with trainers that sample ahead"),
}
"""A setting of verl -> the values that the adapter can go with, and why no others."""


def expression_in(config: DictConfig) -> str | None:
    """The expression that verl's configuration names, if it does."""
    mode = OmegaConf.select(config, LOSS)
    return mode.removeprefix(MARK) if isinstance(mode, str) and mode.startswith(MARK) else None


def settled(config: DictConfig) -> DictConfig:
    """A copy of verl's configuration with what the objective in it decides; the same again where it is settled.

    Raises ObjectiveError, naming the remedy, for a setting that the objective replaces and for one it cannot go with.
    """
    objective = parse(expression_in(config) or "")
    decided = _decided(objective, config)
    _refuse_replaced(objective, config, decided)
    for name, (allowed, why) in _ONLY.items():
        value = OmegaConf.select(config, name)
        if value not in allowed:
            usual = "null" if allowed[0] is None else allowed[0]
            raise ObjectiveError(f"{name}={value} does not go with {MARK}{objective}: {why}; leave it at {usual}")
    _refuse_what_it_cannot(objective, config)
    config = copy.deepcopy(config)
    with open_dict(config):
        for name, value in decided.items():
            OmegaConf.update(config, name, value)
    return config


def _decided(objective: Objective, config: DictConfig) -> dict[str, Any]:
    """Settings of verl that follow from the objective."""
    decided = {
        EPOCHS: objective.pass_count,
        KL: "logp_ref" in objective.needs,  # loads the reference, and does nothing else here
        ADVANTAGE: "grpo",  # no critic, and does nothing else here
        FILTER: objective.refills,
        TEACHER: is_verls(objective, config),  # starts the teacher, and does nothing else here
        "critic.enable": False,
    }
    losses = [part for part in objective.parts if isinstance(part, Penalty) and "logp_ref" in part.needs]
    kl = next((part for part in losses if isinstance(part, Divergence)), None)
    if decided[KL] and (kl or not losses):  # read by no one; says which divergence is meant
        decided |= {BETA: kl.beta if kl else 0.0, KIND: _KINDS[kl.estimator if kl else "k3"]}
    return decided | ({"actor_rollout_ref.rollout.calculate_log_probs": True} if _reads_sampler(objective) else {})


def _reads_sampler(objective: Objective) -> bool:
    return "logp_sampler" in objective.needs


def _refuse_replaced(objective: Objective, config: DictConfig, decided: Mapping[str, Any]) -> None:
    given = {name: OmegaConf.select(config, name) for name in VERL.defaults if name != LOSS}
    usual = {name: OmegaConf.select(_defaults(), name) for name in given}
    shaped = {  # verl's reward manager, whose rewards the adapter reads
        name: value
        for name, value in given.items()
        if value is not None and (name in (LIMIT, MANAGER) or name.startswith(OVERLONG))
    }
    given[KIND] = _KINDS.get(given[KIND], given[KIND])
    if given[KL] and BETA in decided and any(given[name] != decided[name] for name in (BETA, KIND)):  # said aloud
        decided = {name: value for name, value in decided.items() if name not in (KL, BETA, KIND)}
    refuse_replaced(VERL, objective, given, usual, {**shaped, **decided})


def _refuse_what_it_cannot(objective: Objective, config: DictConfig) -> None:
    if objective.reads_micro_batches:
        raise ObjectiveError(
            f"objective={objective} has a part with scope=microbatch, but verl cuts a mini-batch by length after it is "
            "planned: leave the scope out"
        )
    if lacking := VERL.lacking(objective.needs):
        raise ObjectiveError(f"objective={objective} reads {lacking}, which this adapter does not get from verl")
    if "sum_pi_squared_old" in objective.needs and OmegaConf.select(config, FUSED):
        raise ObjectiveError(
            f"{FUSED}=True: objective={objective} reads sums of squares, for which verl needs the logits; leave it out"
        )
    _check_rewards(objective, config)
    check_teacher(objective, config)
    check_overlong(objective.parts, "data.max_response_length", config.data.max_response_length)
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


def _check_rewards(objective: Objective, config: DictConfig) -> None:
    """An objective that reads the rewards of several functions has them by name; a long response is punished once."""
    punished = f"{OVERLONG}enable"
    by_verl = OmegaConf.select(config, MANAGER) == "dapo" and OmegaConf.select(config, punished)
    if by_verl and any(part.name == "soft_overlong" for part in objective.parts):
        raise ObjectiveError(
            f"{punished}=True: objective={objective} punishes long responses too; leave it out, or add -soft_overlong"
        )
    keys, weights = reward_columns(config)
    if "rewards" in objective.needs and not keys:
        raise ObjectiveError(
            f"objective={objective} reads several rewards: name those of the reward function's dictionary, as in "
            f"+{REWARD_KEYS}=[accuracy,format]"
        )
    if weights is not None and len(weights) != len(keys):
        raise ObjectiveError(f"{REWARD_WEIGHTS} has {len(weights)} numbers for {len(keys)} of {REWARD_KEYS}")


def reward_columns(config: DictConfig) -> tuple[list[str], tuple[float, ...] | None]:
    """What the rewards of the reward function's dictionary are called, and their weights; None: all 1."""
    keys, weights = (OmegaConf.select(config, name) for name in (REWARD_KEYS, REWARD_WEIGHTS))
    return list(keys or ()), None if weights is None else tuple(map(float, weights))


@cache
def _defaults() -> DictConfig:
    spec = find_spec("verl")
    assert spec is not None and spec.origin is not None
    loaded = OmegaConf.load(Path(spec.origin).parent / "trainer" / "config" / "_generated_ppo_trainer.yaml")
    assert isinstance(loaded, DictConfig)
    return loaded
