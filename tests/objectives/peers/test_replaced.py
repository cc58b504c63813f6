"""What is said of a setting that an objective replaces: the part that the user's own value is, or why there is none.

`replaced.jsonl` has adapter, objective, settings, and the expression or the words that the answer has.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from objectives import parse
from objectives.peers import TRL, VERL
from objectives.peers.replaced import refuse_replaced
from objectives.peers.table import PeerTable
from objectives.peers.translate import from_peer, to_peer
from objectives.peers.verl import (
    ADVANTAGE,
    BOUND,
    EPOCHS,
    FILTER,
    KL,
    LOSS,
    MEAN,
    REJECT,
    REJECTED,
    REWARD_KL,
    SAMPLER,
    STANDARD,
)
from tests.objectives.peers.remedies import refusal, remedy_in

ADAPTERS: dict[str, tuple[PeerTable, dict[str, Any]]] = {
    "trl": (TRL, {}),
    "trl with vllm": (TRL, {"use_vllm": True}),
    "verl": (VERL, {ADVANTAGE: "grpo", KL: True}),
}
"""The table of each adapter, and what it sets itself."""


def test_the_remedy_is_the_part_that_the_users_value_means() -> None:
    cases = [json.loads(line) for line in Path(__file__).with_name("replaced.jsonl").read_text().splitlines()]
    for adapter, objective, settings, expected in cases:
        table, decided = ADAPTERS[adapter]
        line = refusal(table, objective, settings, decided)
        assert "\n" not in line and any(line.startswith(f"{key}={value}") for key, value in settings.items()), line
        written = remedy_in(line)
        assert expected in line if written is None else parse(written) == parse(expected), (objective, settings)


ALONE: dict[str, Any] = {
    **{"mask_truncated_completions": True, "scale_rewards": "batch", "loss_type": "luspo", "delta": 2.5},
    **{ADVANTAGE: "rloo", MEAN: "seq-mean-token-sum", STANDARD: False, FILTER: True, REWARD_KL: True},
}
"""Values for settings that are no number; a number is made another one."""


def test_a_remedy_beside_what_the_settings_mean_is_what_they_mean_together() -> None:
    """Beside the objective of a library's own defaults, a remedy is `--from` of the settings."""
    written = 0
    for table, usual in ((TRL, {}), (VERL, {ADVANTAGE: "grpo"})):
        base = from_peer(table.name, usual).expression
        for name, default in table.defaults.items():
            other = {float: 0.31, int: 2, bool: not default}.get(type(default), "k2")
            setting = {name: ALONE.get(name, other)}
            if name != LOSS and (remedy := remedy_in(refusal(table, base, setting, usual))):
                assert parse(remedy) == parse(from_peer(table.name, {**usual, **setting}).expression), name
                written += 1
    assert written > 20


def test_verls_rejection_bounds_the_reciprocal_of_our_ratio() -> None:
    """Its k1 is log(rollout/train) (`rollout_corr_helper.py`, token_k1), our ratio is trainer to engine."""
    for theirs in ("0.9_1.2", "0.5_2.0", "0.999_1.001"):
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


def test_epochs_are_epochs_in_every_library() -> None:
    for name, setting, usual in (("trl", "num_iterations", {}), ("verl", EPOCHS, {ADVANTAGE: "grpo"})):
        for count in (2, "2"):
            objective = parse(from_peer(name, {**usual, setting: count}).expression)
            assert objective.pass_count == 2
            assert to_peer(name, objective).settings[setting] == 2


def test_what_the_adapter_would_set_itself_may_be_given() -> None:
    decided = {"num_iterations": 2}
    refuse_replaced(TRL, parse("lopti"), {**TRL.defaults, **decided}, TRL.defaults, decided)
