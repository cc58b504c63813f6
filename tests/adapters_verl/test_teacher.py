"""A teacher inside verl: its column is read token by token, and what is none of its log-probs is refused in a line."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torch import Tensor
from transformers import AutoTokenizer

from objectives import ObjectiveError, parse
from objectives.adapters.verl.settings import settled
from objectives.adapters.verl.teacher import IDS, LOGP, LOOP, MODELS, NODES, TEMPERATURE, check_vocabulary, teacher_logp
from objectives.peers.verl import AS_REWARD, MOST, TASK, TEACHER, TEACHES
from tests.adapters_verl.rollouts import MODEL, nested, scored, taught
from tests.adapters_verl.test_settings import WITH_TEACHER, config

OPD = parse("opd")


def read(data: TensorDict, real: Tensor | None = None) -> Tensor:
    everything = torch.ones(len(data), dtype=torch.bool)
    return teacher_logp(data, everything if real is None else real, OPD)


def changed(name: str, change: Callable[[Tensor], Tensor]) -> TensorDict:
    """Data of verl's with a column that is another one in every row."""
    data = taught()
    data[name] = nested([change(row) for row in data[name].unbind()])
    return data


def moved(by: int) -> TensorDict:
    """Data of verl's with both columns moved by some tokens."""
    data = changed(IDS, lambda row: row.roll(by, 0))
    data[LOGP] = nested([row.roll(by, 0) for row in data[LOGP].unbind()])
    return data


def test_the_column_has_the_teachers_log_prob_of_each_sampled_token() -> None:
    batch, found = scored().batch, read(taught())
    present = batch.mask | (batch.require("writer", "test") != 0)
    assert found.shape == batch.mask.shape and present.sum() > 100
    expected = batch.require("logp_teacher", "test")
    torch.testing.assert_close(found[present], expected[present], rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[present], batch.require("logp_ref", "test")[present], atol=1e-3)


@pytest.mark.parametrize("by", [-1, 1])
def test_a_column_that_is_one_token_off_is_refused(by: int) -> None:
    with pytest.raises(ObjectiveError, match=r"not the tokens that were sampled: .* where response 0 has"):
        read(moved(by))


def test_one_other_token_of_one_response_is_refused_and_of_a_row_that_fills_up_is_not() -> None:
    data = taught()
    ids = [row.clone() for row in data[IDS].unbind()]
    ids[3][-2] += 1  # of the last token, said at the one before
    data[IDS] = nested(ids)
    with pytest.raises(ObjectiveError, match="where response 3 has"):
        read(data)
    real = torch.arange(len(data)) != 3
    assert torch.equal(read(data, real)[real], read(taught())[real])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            lambda: taught().exclude(LOGP),
            f"no {LOGP} of each response: set {TEACHER}=true and {MODELS}.teacher_model.model_path",
        ),
        (
            lambda: taught().exclude(IDS),
            f"no {IDS} of each response: .*, or have your agent loop give {IDS} and {LOGP} in extra_fields",
        ),
        (
            lambda: changed(LOGP, lambda row: row.expand(-1, 4)),
            f"4 numbers for a token, those of the teacher's likeliest ones, .*: leave {TEACHES} at k3",
        ),
        (lambda: changed(IDS, lambda row: row[-1:]), f"{IDS} has no more places than a response has tokens"),
    ],
)
def test_data_without_the_sampled_tokens_log_probs_is_one_line(data: Callable[[], TensorDict], said: str) -> None:
    with pytest.raises(ObjectiveError, match=said) as raised:
        read(data())
    assert "\n" not in str(raised.value)


def test_a_teacher_with_another_vocabulary_is_refused_with_both_sizes() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    given: dict[str, Any] = {f"{MODELS}.teacher_model.model_path": str(MODEL), "actor_rollout_ref.model.path": "mine"}
    check_vocabulary(config("opd", **given), tokenizer)
    given[f"{MODELS}.teacher_model.model_path"] = str(MODEL.with_name("calculator"))
    with pytest.raises(ObjectiveError, match=r"has another vocabulary than mine: \d+ tokens, and \d+, which are not"):
        check_vocabulary(config("opd", **given), tokenizer)


@pytest.mark.parametrize("objective", ["opd", "grpo+teacher_kl"])
def test_verl_starts_a_teacher_where_a_part_reads_one(objective: str) -> None:
    made = settled(config(objective, **WITH_TEACHER))
    assert made.distillation.enabled is True and settled(made) == made
    assert settled(config("grpo", **WITH_TEACHER)).distillation.enabled is False
    own = settled(config(objective, **{LOOP: "mine.yaml"}))
    assert own.distillation.enabled is False and settled(own) == own


@pytest.mark.parametrize(
    ("objective", "changes", "said"),
    [
        ("opd", {}, f"without {MODELS}.teacher_model.model_path and {NODES}: set them, or name by {LOOP}"),
        ("opd", {NODES: 1}, f"without {MODELS}.teacher_model.model_path: set it"),
        ("rlsd", WITH_TEACHER | {TEMPERATURE: 0.6}, f"{TEMPERATURE}=0.6: verl's teacher scores at 1"),
        ("opd", WITH_TEACHER | {TEACHES: "forward_kl_topk"}, "the teacher's likeliest tokens, here the sampled ones"),
        (
            "opd",
            WITH_TEACHER | {AS_REWARD: True, TEACHES: "k1"},
            "without rewards it is opd; leave that out",
        ),
        ("opd", WITH_TEACHER | {TASK: False}, "which does that already: leave that out"),
        ("opd", WITH_TEACHER | {TEACHES: "k2"}, r"'opd\+teacher_kl\(estimator=k2\)'"),
        ("opd", WITH_TEACHER | {MOST: 10.0}, "leave that out"),
        ("grpo", WITH_TEACHER | {TEACHER: True}, r"enabled=True has no effect .* 'grpo\+teacher_kl\(clamp=20.0\)'"),
    ],
)
def test_settings_of_verls_distillation_that_cannot_be_are_refused(
    objective: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ObjectiveError, match=said):
        settled(config(objective, **changes))
