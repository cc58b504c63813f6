"""What is said of a setting that an objective replaces: the part that the user's own value is, or why there is none."""

from typing import Any

import pytest

from objectives import parse
from objectives.peers import PEERS, TRL, VERL
from objectives.peers.replaced import refuse_replaced
from objectives.peers.table import PeerTable
from objectives.peers.translate import from_peer, to_peer
from objectives.peers.verl import (
    ADVANTAGE,
    AS_REWARD,
    BETA,
    BOUND,
    BYPASS,
    CAP,
    CLIP,
    CONTROL,
    EPOCHS,
    FILTER,
    GAMMA,
    HIGH,
    KIND,
    KL,
    LENGTH,
    LOSS,
    LOW,
    MEAN,
    METRIC,
    NORMALISED,
    REJECT,
    REJECTED,
    REWARD_BETA,
    REWARD_KL,
    SAMPLER,
    STANDARD,
    TEACHER,
    TEACHES,
)
from objectives.peers.verl import ENTROPY as ENTROPY_COEFF
from tests.objectives.peers.remedies import refusal, remedy_in

ENGINE = {"use_vllm": True}
VERL_DECIDES = {ADVANTAGE: "grpo", KL: True}
"""What verl's adapter sets itself beside grpo."""


NOTHING, UNREAD, THERE = "nothing here does that", "beside its other settings", "which does that already"
IN_TRL: list[tuple[str, dict[str, Any], str]] = [
    ("grpo", {"epsilon": 0.3}, "grpo+clip(low=0.3)"),
    ("stapo", {"epsilon": 0.3}, "stapo+clip(low=0.3)+clip_higher(high=0.3)"),
    ("stapo", {"epsilon": 0.3, "epsilon_high": 0.4}, "stapo+clip(low=0.3)+clip_higher(high=0.4)"),
    ("stapo", {"epsilon_high": 0.28}, THERE),
    ("grpo", {"epsilon_high": 0.35}, "grpo+clip_higher(high=0.35)"),
    ("grpo+clip_higher", {"epsilon_high": 0.35}, "grpo+clip_higher(high=0.35)"),
    ("grpo", {"epsilon": 1.5}, "grpo+clip(low=1)+clip_higher(high=1.5)"),
    ("sapo", {"epsilon": 0.3}, UNREAD),
    ("nft", {"epsilon": 0.3}, "the objective has implicit_negative"),
    ("grpo", {"delta": 4.0}, "grpo+dual_clip(cap=4)"),
    ("grpo", {"delta": 1.1}, "grpo+clip_higher(high=0.1)+dual_clip(cap=1.2)"),
    ("grpo", {"beta": 0.1}, "grpo+unbiased_kl(beta=0.1)-kl"),
    ("grpo-kl", {"beta": 0.1}, "grpo+unbiased_kl(beta=0.1)-kl"),
    ("grpo", {"beta": 0.1, "use_bias_correction_kl": False}, "grpo+kl(beta=0.1)"),
    ("gspo", {"beta": 0.1}, "gspo+kl(beta=0.1)"),
    ("grpo-kl", {"beta": 0.1, "sync_ref_model": True}, "grpo+unbiased_kl(beta=0.1)-kl"),
    ("stapo", {"beta": 0.001, "use_bias_correction_kl": False}, "stapo+kl(beta=0.001)"),
    ("stapo", {"use_bias_correction_kl": False}, UNREAD),
    ("stapo", {"loss_type": "grpo"}, "stapo+seq_mean"),
    ("stapo", {"loss_type": "bnpo"}, "stapo+token_mean(scope=microbatch)"),
    ("stapo", {"loss_type": "dr_grpo"}, "stapo+constant_length"),
    ("stapo", {"loss_type": "luspo"}, "stapo+seq_sum"),
    ("grpo+token_mean", {"loss_type": "luspo"}, "grpo+seq_sum"),
    ("stapo", {"loss_type": "cispo"}, NOTHING),
    ("stapo", {"loss_type": "cispo", "epsilon_high": 5.0}, "stapo-clip_higher+cispo(low=1,high=4)"),
    ("cispo", {"loss_type": "cispo", "epsilon_high": 4.0}, "cispo+cispo(low=1,high=3)"),
    ("stapo", {"loss_type": "sapo"}, "stapo-clip_higher+soft_gate+seq_mean"),
    ("stapo", {"loss_type": "vespo"}, "stapo-clip_higher+sequence_ratio(norm=sum)+gamma_gate"),
    ("stapo", {"loss_type": "none"}, NOTHING),
    ("sapo", {"sapo_temperature_pos": 2.0}, "sapo(tau_pos=2)"),
    ("sapo", {"sapo_temperature_neg": 1.5}, "sapo(tau_neg=1.5)"),
    ("grpo", {"sapo_temperature_pos": 2.0}, UNREAD),
    ("vespo", {"vespo_k_pos": 1.0, "vespo_lambda_neg": 4.0}, "vespo(k_good=1,l_bad=4)"),
    ("grpo", {"vespo_lambda_pos": 2.0}, UNREAD),
    ("grpo", {"scale_rewards": "none"}, "grpo+group_center"),
    ("grpo", {"scale_rewards": "batch"}, "grpo+center_batch_std(eps=0.0001)"),
    ("dr_grpo", {"scale_rewards": "none"}, THERE),
    ("grpo", {"importance_sampling_level": "sequence"}, "grpo+sequence_ratio"),
    ("grpo", {"num_iterations": 2}, "grpo+epochs"),
    ("grpo+epochs", {"num_iterations": 3}, "grpo+epochs(count=3)"),
    ("lopti", {"num_iterations": 3, "epsilon": 0.3}, "the objective has lopti in its place"),
    ("grpo", {"top_entropy_quantile": 0.3}, "grpo+top_entropy(fraction=0.3,denominator=all)"),
    ("grpo", {"mask_truncated_completions": True}, "grpo+overlong_filter"),
    ("grpo", {"off_policy_mask_threshold": 0.4}, "grpo+off_policy_mask(delta=0.4)"),
    ("grpo", {"entropy_coef": 0.003}, "grpo+entropy_bonus(coefficient=0.003)"),
    ("grpo", {"use_adaptive_entropy": True}, NOTHING),
    ("grpo", {"use_adaptive_entropy": True, "entropy_target": 0.3}, NOTHING),
    ("grpo", {"entropy_target": 0.3}, UNREAD),
    ("grpo", {"multi_objective_aggregation": "normalize_then_sum"}, NOTHING),
    ("grpo", {"vllm_importance_sampling_clip_max": 5.0}, UNREAD),
]
IN_TRL_WITH_VLLM: list[tuple[str, dict[str, Any], str]] = [
    (
        "grpo",
        {"vllm_importance_sampling_clip_max": 5.0},
        "grpo+sampler_correction(cap=5,level=product,outside=drop)",
    ),
    (
        "grpo",
        {"vllm_importance_sampling_clip_max": None, "vllm_importance_sampling_clip_min": 0.5},
        "grpo+sampler_correction(cap=none,low=0.5,level=product,outside=drop)",
    ),
    ("grpo", {"vllm_importance_sampling_mode": "token_truncate"}, "grpo+sampler_correction(cap=3)"),
    ("grpo+sampler_correction", {"vllm_importance_sampling_clip_max": 5.0}, "grpo+sampler_correction(cap=5)"),
    ("grpo", {"off_policy_mask_threshold": 0.4}, "grpo+off_policy_mask(delta=0.4,anchor=sampler)"),
]
IN_VERL: list[tuple[str, dict[str, Any], str]] = [
    ("grpo", {LOW: 0.3}, "grpo+clip(low=0.3)+clip_higher(high=0.2)"),
    ("stapo", {LOW: 0.3}, "stapo+clip(low=0.3)"),
    ("stapo", {HIGH: 0.35}, "stapo+clip_higher(high=0.35)"),
    ("stapo", {CLIP: 0.3}, UNREAD),
    ("grpo", {CLIP: 0.3, LOW: None, HIGH: None}, "grpo+clip(low=0.3)"),
    ("grpo", {CAP: 10.0}, "grpo+dual_clip(cap=10)"),
    ("dapo(variant=authors)", {CAP: 1e9}, "dapo(variant=authors)-dual_clip"),
    ("gspo", {LOW: 0.0001, HIGH: 0.0002}, "gspo+clip(low=0.0001)+clip_higher(high=0.0002)"),
    ("stapo", {MEAN: "seq-mean-token-mean"}, "stapo+seq_mean"),
    ("stapo", {MEAN: "seq-mean-token-sum"}, "stapo+seq_sum"),
    ("stapo", {MEAN: "seq-mean-token-sum-norm"}, "stapo+constant_length"),
    ("stapo", {MEAN: "seq-mean-token-sum-norm", LENGTH: 64}, "stapo+constant_length(length=64)"),
    ("stapo", {MEAN: "token-sum"}, NOTHING),
    ("grpo", {MEAN: "token-mean", LENGTH: 64}, UNREAD),
    ("grpo", {BETA: 0.01}, "grpo+kl(beta=0.01,clamp=20)"),
    ("grpo", {KIND: "k3", BETA: 0.01}, "grpo+kl(beta=0.01,clamp=20)"),
    ("grpo", {KIND: "kl"}, "grpo+kl(beta=0.001,estimator=k1)"),
    ("grpo", {KIND: "k1"}, "grpo+kl(beta=0.001,estimator=k1)"),
    ("grpo", {KIND: "mse"}, "grpo+kl(beta=0.001,estimator=k2)"),
    ("grpo", {KIND: "k2"}, "grpo+kl(beta=0.001,estimator=k2)"),
    ("grpo", {KIND: "k2+"}, "grpo+kl(beta=0.001,estimator=k2)"),
    ("grpo", {KIND: "k3+"}, "grpo+kl(beta=0.001,estimator=k2)"),
    ("grpo", {KIND: "low_var_kl+"}, "grpo+kl(beta=0.001,estimator=k2)"),
    ("grpo", {KIND: "abs"}, NOTHING),
    ("grpo", {KIND: "full"}, NOTHING),
    ("grpo", {TEACHER: True}, "grpo+teacher_kl(clamp=20)"),
    ("opd", {TEACHER: True, TEACHES: "k2"}, "opd+teacher_kl(estimator=k2)"),
    ("grpo", {TEACHES: "k2"}, UNREAD),
    ("grpo", {TEACHER: True, TEACHES: "forward_kl_topk"}, NOTHING),
    ("grpo", {TEACHER: True, AS_REWARD: True}, NOTHING),
    ("grpo", {EPOCHS: 2}, "grpo+epochs"),
    ("grpo", {ENTROPY_COEFF: 0.01}, "grpo+entropy_bonus(coefficient=0.01)"),
    ("grpo", {STANDARD: False}, "grpo+group_center"),
    ("grpo", {ADVANTAGE: "rloo"}, "grpo+leave_one_out"),
    ("grpo", {ADVANTAGE: "opo"}, "grpo+optimal_baseline"),
    ("grpo", {ADVANTAGE: "remax"}, NOTHING),
    ("grpo", {GAMMA: 0.9}, UNREAD),
    ("grpo", {ADVANTAGE: "reinforce_plus_plus", GAMMA: 0.9}, NOTHING),
    ("grpo", {FILTER: True, METRIC: "acc"}, "grpo+dynamic_sampling"),
    ("grpo", {METRIC: "acc"}, UNREAD),
    ("grpo", {REWARD_KL: True, REWARD_BETA: 0.02}, "grpo+kl_reward(beta=0.02)"),
    ("grpo", {REWARD_KL: True, CONTROL: "adaptive"}, NOTHING),
    ("grpo", {SAMPLER: "token", BOUND: 3.0}, "grpo+sampler_correction(cap=3)"),
    ("grpo", {SAMPLER: "sequence", BOUND: 3.0}, "grpo+sampler_correction(cap=3,level=product)"),
    ("grpo", {SAMPLER: "token", BOUND: "0.5_5.0"}, "grpo+sampler_correction(cap=5,low=0.5,outside=drop)"),
    ("grpo+sampler_correction", {BOUND: 3.0}, "grpo+sampler_correction(cap=3)"),
    ("grpo", {BOUND: 3.0}, UNREAD),
    ("grpo", {SAMPLER: "token", NORMALISED: True}, NOTHING),
    ("grpo", {BYPASS: True}, "grpo+sampler_ratio"),
    ("stapo", {REJECT: "token_k1", REJECTED: "0.8_1.25"}, "stapo+sampler_mask(level=token,low=0.8,high=1.25)"),
    ("stapo", {REJECT: "token_k1", REJECTED: "0.5_1.25"}, "stapo+sampler_mask(level=token,low=0.8,high=2)"),
    ("stapo", {REJECT: "token_k1", REJECTED: 1.25}, "stapo+sampler_mask(level=token,low=0.8,high=1.25)"),
    (
        "grpo",
        {REJECT: "token_k1", REJECTED: "0.5_4"},
        "grpo+sampler_mask(level=token,low=0.25,high=2,shrinks=true)",
    ),
    ("grpo", {REJECT: "seq_sum_k1", REJECTED: "0.5_4"}, "grpo+sampler_mask(level=product,low=0.25,high=2)"),
    ("grpo", {REJECT: "seq_mean_k1", REJECTED: "0.5_4"}, "grpo+sampler_mask(low=0.25,high=2)"),
    ("grpo", {REJECT: "seq_mean_k3", REJECTED: 0.01}, NOTHING),
    ("grpo", {REJECT: "token_k1,seq_max_k2", REJECTED: 2.0}, NOTHING),
]
CASES = [
    *((TRL, {}, *case) for case in IN_TRL),
    *((TRL, ENGINE, *case) for case in IN_TRL_WITH_VLLM),
    *((VERL, VERL_DECIDES, *case) for case in IN_VERL),
]


@pytest.mark.parametrize(("table", "decided", "objective", "settings", "expected"), CASES)
def test_the_remedy_is_the_part_that_the_users_value_means(
    table: PeerTable, decided: dict[str, Any], objective: str, settings: dict[str, Any], expected: str
) -> None:
    line = refusal(table, objective, settings, decided)
    assert "\n" not in line and any(line.startswith(f"{key}={value}") for key, value in settings.items())
    written = remedy_in(line)
    if written is None:
        assert expected in line
    else:
        assert parse(written) == parse(expected), written


ALONE: dict[str, Any] = {
    **{"mask_truncated_completions": True, "scale_rewards": "batch", "loss_type": "luspo", "delta": 2.5},
    **{ADVANTAGE: "rloo", MEAN: "seq-mean-token-sum", STANDARD: False, FILTER: True, REWARD_KL: True},
}
"""Values for settings that are no number; a number is made another one."""


@pytest.mark.parametrize(
    ("peer", "name"), [(table.name, name) for table in (TRL, VERL) for name in table.defaults if name != LOSS]
)
def test_a_remedy_beside_what_the_settings_mean_is_what_they_mean_together(peer: str, name: str) -> None:
    """Beside the objective of a library's own defaults, a remedy is `--from` of the settings."""
    table, usual = PEERS[peer], {ADVANTAGE: "grpo"} if peer == "verl" else {}
    value = ALONE.get(name, {float: 0.31, int: 2, bool: not table.defaults[name]}.get(type(table.defaults[name]), "k2"))
    base = from_peer(table.name, usual).expression
    written = remedy_in(refusal(table, base, {name: value}, usual))
    if written is not None:
        assert parse(written) == parse(from_peer(table.name, {**usual, name: value}).expression)


@pytest.mark.parametrize("theirs", ["0.9_1.2", "0.5_2.0", "0.999_1.001"])
def test_verls_rejection_bounds_the_reciprocal_of_our_ratio(theirs: str) -> None:
    """Its k1 is log(rollout/train) (`rollout_corr_helper.py`, token_k1), our ratio is trainer to engine."""
    settings = {ADVANTAGE: "grpo", REJECT: "seq_mean_k1", REJECTED: theirs}
    objective = parse(from_peer("verl", settings).expression)
    (mask,) = (part for part in objective.parts if part.name == "sampler_mask")
    low, high = map(float, theirs.split("_"))
    assert (mask.low, mask.high) == pytest.approx((1 / high, 1 / low), abs=1e-11)
    assert to_peer("verl", objective).settings[REJECTED] == theirs


def test_two_bounds_in_a_word_are_no_number() -> None:
    """Python and YAML take 0.5_5 for 0.55."""
    settings = {ADVANTAGE: "grpo", SAMPLER: "token", BOUND: "0.5_5"}
    assert "sampler_correction(cap=5.0,low=0.5,outside=drop)" in from_peer("verl", settings).expression


@pytest.mark.parametrize("count", [2, "2"])
@pytest.mark.parametrize(("name", "setting"), [("trl", "num_iterations"), ("verl", EPOCHS)])
def test_epochs_are_epochs_in_every_library(name: str, setting: str, count: int | str) -> None:
    usual = {ADVANTAGE: "grpo"} if name == "verl" else {}
    objective = parse(from_peer(name, {**usual, setting: count}).expression)
    assert objective.pass_count == 2
    assert to_peer(name, objective).settings[setting] == 2


def test_what_the_adapter_would_set_itself_may_be_given() -> None:
    decided = {"num_iterations": 2}
    refuse_replaced(TRL, parse("lopti"), {**TRL.defaults, **decided}, TRL.defaults, decided)
