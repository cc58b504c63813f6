"""Partial rollouts: what goes on in later steps, by which policy, and that nothing gets lost with it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.experiment.progress import OPTIMIZER, PROGRESS
from rlzoo.files import read_json_lines
from rlzoo.model.policy import Policy
from rlzoo.rollout.base import Rollouts
from rlzoo.training.stale_rollouts import PartialRollouts, _check_saved, groups_to_begin
from tests.training.test_ahead import made, run, small

PARTIAL = "rollout.partial_tokens=4"
TOOL = "rlzoo.tasks.calculator:calculate"
NEW = {"staleness", "stale_tokens", "groups_waiting", "sampled/tokens", "sampled/rounds"}


@pytest.mark.slow
def test_a_run_whose_responses_end_within_their_first_part_is_bitwise_the_one_without(tmp_path: Path) -> None:
    words = ("objective=stapo", "train.steps=2", "rollout.max_response_tokens=64", "train.minibatches_per_step=2")
    whole = run(tmp_path / "whole", *words)
    parts = run(tmp_path / "parts", *words, "rollout.partial_tokens=32")
    for without, line in zip(*(read_json_lines(folder.metrics) for folder in (whole, parts)), strict=True):
        assert {name: value for name, value in line.items() if name not in NEW} == without
        assert [line[name] for name in sorted(NEW)] == [0, 1, line["sampled/tokens"], 0, 0]
        assert line["length"] * 12 == pytest.approx(line["sampled/tokens"])
    for name in ("model.safetensors", OPTIMIZER, PROGRESS):
        last = [folder / "checkpoints" / "step-000002" / name for folder in (parts, whole)]
        assert last[0].read_bytes() == last[1].read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_each_token_has_the_log_prob_of_the_policy_that_its_version_names_and_no_problem_gets_lost() -> None:
    config = small("objective=grpo-kl", PARTIAL, "train.minibatches_per_step=1")
    continued, trained = 0, list[int]()
    with made(config) as trainer:
        policies = [trainer.policy.frozen_copy()]
        for step in range(5):
            metrics, collected = trainer.step()
            policies.append(trainer.policy.frozen_copy())
            rollouts = collected.rollouts
            ended = ~rollouts.truncated | (rollouts.lengths == config.rollout.max_response_tokens)
            assert len(ended) == 12 and ended.all()
            _check_log_probs(rollouts, policies)
            version, mask = rollouts.version, rollouts.mask
            assert (version.diff(dim=1)[mask[:, 1:]] >= 0).all() and version.max() <= step
            continued += int((version[:, 0] < version.amax(1)).sum())
            behind = (step - version)[mask].double()
            assert metrics["staleness"] == pytest.approx(behind.mean().item())
            assert metrics["stale_tokens"] == pytest.approx((behind > 0).double().mean().item())
            group = collected.batch.require("group", "test").tolist()
            assert group == sorted(group)
            trained += sorted(set(group))
        assert trainer.waiting is not None and trainer.waiting.problems, "nothing waits"
        assert sorted([*trained, *trainer.waiting.problems]) == [*range(trainer.progress.problems_used)]
    assert continued > 5, "no response was sampled by two policies"


def _check_log_probs(rollouts: Rollouts, policies: Sequence[Policy]) -> None:
    """Those of each token are its policy's, and not the other policies'."""
    width = int(rollouts.lengths.max())
    for version, policy in enumerate(policies):
        with torch.no_grad():
            stats = policy(rollouts.responses(), 1.0, with_entropy=True)
        assert stats.entropy is not None
        chosen, sampled = rollouts.mask[:, :width], rollouts.version[:, :width] == version
        for values, reported in ((stats.logp, rollouts.logp), (stats.entropy, rollouts.entropy)):
            off = (values - reported[:, :width]).abs()
            assert off[chosen & sampled].lt(1e-9).all()
            others = off[chosen & ~sampled]
            assert not len(others) or others.max() > 1e-5, "the policies should differ to say anything"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rollout.partial_tokens=24"], r"24 has no effect with rollout.max_response_tokens=24; leave it out"),
        (["rollout.partial_tokens=7"], r"7 does not divide rollout.max_response_tokens=24; 6 does"),
        ([PARTIAL, "rollout.ahead=1"], r"rollout.ahead=1 .*leave one of them out"),
        ([PARTIAL, "objective=dapo"], r"remove it with -dynamic_sampling, or leave rollout.partial_tokens out"),
        ([PARTIAL, f"task.tools=[{TOOL}]"], r"the environment of task.name=sums .*leave rollout.partial_tokens out"),
        ([PARTIAL, "objective=otb"], r"reads sums of squares at rollout time, which no engine reports"),
    ],
)
def test_what_parts_of_responses_do_not_go_with_is_one_line(words: list[str], told: str) -> None:
    with pytest.raises(UserError, match=rf"rollout.partial_tokens=.*{told}"):
        check(small("objective=grpo", "rollout.max_response_tokens=24", *words))


@pytest.mark.parametrize(
    ("finished", "unfinished", "groups"), [(0, 0, 8), (3, 0, 5), (3, 2, 8), (8, 2, 0), (9, 0, 0), (0, 9, 8)]
)
def test_a_step_begins_what_it_takes_unless_enough_waits_finished(finished: int, unfinished: int, groups: int) -> None:
    begun = PartialRollouts.none(4).with_new_groups(range(finished + unfinished), [[1]] * (finished + unfinished), 2)
    ended = begun.rollouts.prompt >= unfinished
    begun = PartialRollouts(begun.problems, replace(begun.rollouts, truncated=~ended), 4)
    assert begun.unfinished == [*range(unfinished)] and len(begun.finished) == finished
    assert groups_to_begin(begun, 8) == groups


MUTANTS: dict[str, Callable[[dict[str, Tensor]], object]] = {
    "lengths of a billion": lambda it: it["lengths"].fill_(10**9),
    "negative lengths": lambda it: it["lengths"].fill_(-1),
    "a token of no vocabulary": lambda it: it["tokens"].fill_(100),
    "a negative token": lambda it: it["tokens"].fill_(-5),
    "a prompt too many": lambda it: it["prompt"].fill_(2),
    "a mask of numbers": lambda it: it.update(mask=it["mask"].long()),
    "a narrower mask": lambda it: it.update(mask=it["mask"][:, :1]),
    "log-probs in whole numbers": lambda it: it.update(logp=it["logp"].long()),
    "fewer rows": lambda it: it.update({name: tensor[:3] for name, tensor in it.items()}),
    "no tokens": lambda it: it.pop("tokens"),
    "something more": lambda it: it.update(more=it["tokens"]),
}
"""What another person may have written into a checkpoint's rollouts."""


@pytest.mark.parametrize("name", MUTANTS)
def test_saved_rollouts_that_no_run_writes_are_refused(name: str) -> None:
    begun = PartialRollouts.none(4).with_new_groups([0, 1], [[1], [1]], 2)
    wide = begun.rollouts.widened(3).tensors()
    _check_saved(wide, 2, 2, vocabulary=100)
    MUTANTS[name](wide)
    with pytest.raises((ValueError, TypeError)):
        _check_saved(wide, 2, 2, vocabulary=100)
