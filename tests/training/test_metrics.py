"""What the metrics say is what a count by hand says."""

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Prepared, TokenBatch, parse
from rlzoo.config import load_config
from rlzoo.errors import Fault
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.training.rows import StepMetrics, _distance_to_reference, rollout_metrics, sampler_difference
from rlzoo.training.run import _conclude
from tests.training.recording import GROUPS, rollouts, sampled_responses


def test_touched_tokens_their_mass_statistics_and_overlaps_are_those_counted_by_hand() -> None:
    generator = torch.Generator().manual_seed(0)
    n, t = 12, 7
    mask = torch.arange(t) < torch.randint(1, t + 1, (n, 1), generator=generator)
    logp, entropy = (torch.rand(n, t, generator=generator).mul(-6).where(mask, 0.0) * sign for sign in (1, -1))
    tokens, group = torch.zeros(n, t).long(), torch.arange(n) // 4
    rollouts = sampled_responses([[1]] * 3, group, tokens, mask.sum(1), logp, entropy=entropy)
    objective = parse("justrl+s2t(tau_p=0.2,q=1)+top_entropy(fraction=0.5)+dual_clip(cap=1.5)")
    batch = TokenBatch(
        mask=mask, group=rollouts.prompt, reward=(torch.arange(n) % 3 == 0).float(), logp_old=logp, logp=logp,
        entropy=entropy,
    )  # fmt: skip
    plan = objective.plan(objective.prepare(batch))
    current = logp + torch.randn(n, t, generator=generator)
    step, everything = StepMetrics(objective, rollouts, torch.device("cpu")), torch.arange(n)
    step.add_plan(plan, everything, everything)
    for rows in everything.split(5):
        width = int(mask[rows].sum(1).max())
        step.add_rows(plan.rows(rows, width), rows, current[rows][:, :width], loss=torch.tensor(2.0))
    metrics = step.metrics(Accelerator(cpu=True))

    touched = objective.touched(plan, everything, current)
    advantage = plan.batch.advantage
    assert advantage is not None
    assert {"s2t", "top_entropy", "clip", "dual_clip"} <= touched.keys()
    assert metrics["loss"] == pytest.approx(6.0)
    for name, tokens in touched.items():
        assert metrics[f"touched/{name}/tokens"] == pytest.approx(tokens.sum().item() / mask.sum().item())
        mass = advantage.abs()[tokens].sum() / advantage.abs().sum()
        assert metrics[f"touched/{name}/mass"] == pytest.approx(mass.item())
        if not tokens.any():
            assert f"touched/{name}/probability" not in metrics
            continue
        assert metrics[f"touched/{name}/probability"] == pytest.approx(logp[tokens].exp().mean().item())
        assert metrics[f"touched/{name}/entropy"] == pytest.approx(entropy[tokens].mean().item())
        for other in touched.keys() - {name}:
            share = (tokens & touched[other]).sum() / tokens.sum()
            assert metrics[f"touched/{name}/overlap/{other}"] == pytest.approx(share.item())
    assert sum(tokens.any().item() for tokens in touched.values()) >= 4
    assert any(value not in (0.0, 1.0) for key, value in metrics.items() if "/overlap/" in key)


def test_what_selects_or_shapes_touches_a_share_of_the_tokens_that_were_sampled() -> None:
    sampled, batch = rollouts()
    batch = batch.with_fields(truncated=torch.arange(len(batch.mask)) % 4 > 0, max_length=1, logp_old=sampled.logp)
    objective, every = parse("grpo+overlong_filter+soft_overlong-kl"), torch.arange(len(batch.mask))
    metrics = StepMetrics(objective, sampled, torch.device("cpu"))
    metrics.add_plan(objective.plan(objective.prepare(batch)), every, every)
    found = metrics.metrics(Accelerator(cpu=True))
    dropped = batch.mask[every % 4 > 0].sum() / batch.mask.sum()
    assert found["touched/overlong_filter/tokens"] == pytest.approx(dropped.item())
    assert found["touched/soft_overlong/tokens"] == 1


@pytest.mark.parametrize("expression", ["grpo", "stapo", "justrl+top_entropy+dual_clip", "grpo+stare"])
def test_a_process_without_a_row_that_teaches_has_the_sums_of_the_others(expression: str) -> None:
    sampled, batch = rollouts()
    of_policy = {"logp": sampled.logp, "entropy": torch.zeros(batch.mask.shape)}
    before = {"logp_old": sampled.logp, "logp_ref": sampled.logp, "entropy_old": of_policy["entropy"]}
    batch = batch.with_fields(**before, **of_policy)
    objective = parse(expression)
    plan = objective.plan(objective.prepare(batch))
    rows = torch.arange(len(batch.mask))
    teaching, idle = (StepMetrics(objective, sampled, torch.device("cpu")) for _ in range(2))
    for metrics, part in zip((teaching, idle), (rows[::2], rows[1::2]), strict=True):
        metrics.add_plan(plan, part, part)
    there = plan.rows(rows[::2], batch.mask.shape[1])
    teaching.add_rows(there, rows[::2], sampled.logp[rows[::2]], torch.tensor(1.0))
    assert teaching.sums.sums.keys() == idle.sums.sums.keys()  # they are added up by their places


def test_a_group_has_a_signal_where_the_objective_has_an_advantage_though_its_sums_of_rewards_are_equal() -> None:
    sampled, batch = rollouts()
    first = torch.arange(len(batch.mask)) % 2 * (batch.require("group", "test") > 0)
    rewards = torch.stack([first, 2 - 2 * first], 1).float()
    batch = batch.with_fields(rewards=rewards, reward_weights=(2.0, 1.0), reward=2 * rewards[:, 0] + rewards[:, 1])
    shares = {}
    for expression in ("gdpo", "grpo-kl"):
        metrics = metrics_of(sampled, parse(expression).prepare(batch))
        shares[expression] = metrics["groups_without_signal"]
    assert shares == {"gdpo": pytest.approx(1 / GROUPS), "grpo-kl": 1}


def test_rows_that_are_not_scored_are_not_counted_in_the_mean_reward() -> None:
    sampled, batch = rollouts()
    batch = batch.with_fields(reward=torch.arange(len(batch.mask), dtype=torch.float32))
    prepared = parse("grpo").prepare(batch)
    reward = batch.require("reward", "test").clone()
    reward[1:] = torch.nan
    assert metrics_of(sampled, prepared, reward)["reward"] == 0 < metrics_of(sampled, prepared)["reward"]
    reward[0], reward[-1] = torch.nan, 5
    assert metrics_of(sampled, prepared, reward)["reward"] == 5
    assert metrics_of(sampled, prepared, reward * torch.nan)["reward"] == 0


def metrics_of(sampled: Rollouts, prepared: Prepared, reward: Tensor | None = None) -> dict[str, float]:
    reward = prepared.require("reward", "test") if reward is None else reward
    texts = [""] * len(prepared.mask)
    graded = GradedRollouts([], sampled, texts, reward, reward, ["graded"] * len(texts))
    return rollout_metrics(sampled, reward, [graded], prepared, Accelerator(cpu=True))


def test_the_numbers_that_controllers_remember_are_metrics() -> None:
    sampled, batch = rollouts()
    batch = batch.with_fields(entropy_old=torch.zeros(batch.mask.shape))
    prepared = parse("grpo-kl+par(target_entropy=0.3)").prepare(batch, {"positive_reweighting": {"weight": 0.5}})
    metrics = metrics_of(sampled, prepared)
    found = {name: value for name, value in metrics.items() if name.startswith("state/")}
    assert found == {"state/positive_reweighting/weight": pytest.approx(0.45)}


def test_the_difference_of_sampler_and_trainer_is_that_of_the_counted_tokens() -> None:
    trainer = torch.tensor([[-1.0, -2.0, 50.0], [-0.5, 9.0, 9.0]])
    sampler = torch.tensor([[-1.1, -1.7, 0.0], [-0.5, 0.0, 0.0]])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    found = sampler_difference((trainer - sampler)[mask])
    assert found["sampler/difference"] == pytest.approx((0.1 + 0.3) / 3, abs=1e-6)
    assert found["sampler/largest_difference"] == pytest.approx(0.3, abs=1e-6)
    by_hand = [math.exp(0.1) - 1 - 0.1, math.exp(-0.3) - 1 + 0.3]
    assert found["sampler/kl"] == pytest.approx(sum(by_hand) / 3, abs=1e-6)


def test_the_distance_to_the_reference_is_schulmans_estimate_over_the_counted_tokens() -> None:
    mask = torch.tensor([[True, False], [True, True]])
    sampler, reference = -torch.rand(2, 2), -torch.rand(2, 2)
    found = _distance_to_reference(TokenBatch(mask=mask, logp_sampler=sampler, logp_ref=reference))
    ratio = (reference - sampler)[mask].double().exp()
    assert found["reference/kl"] == pytest.approx((ratio - 1 - ratio.log()).mean().item())
    assert _distance_to_reference(TokenBatch(mask=mask, logp_sampler=sampler)) == {}


@pytest.mark.parametrize(
    ("failed", "cut", "keys", "fails"),
    [
        (4.0, 0.0, [], True),
        (3.0, 0.0, [], False),
        (1.0, 0.75, [], False),
        (1.0, 0.75, ["task.environment=shop:Shop"], True),
        (1.0, 0.75, ["task.environment=shop:Shop", "task.grade_truncated=true"], False),
    ],
)
def test_a_run_whose_last_responses_have_no_grade_ends_with_an_error(
    failed: float, cut: float, keys: list[str], fails: bool, tmp_path: Path
) -> None:
    """Where a limit cuts responses, it is the cause; a lost episode may be cut as well."""
    config = load_config(["rollout.prompts_per_step=2", "rollout.responses_per_prompt=2", *keys])
    step = {"updates_skipped": 0, "gradient_norm": 1.0, "accuracy": 0.0, "grading_timed_out": 0.0, "truncated": cut}
    outcome: Any = SimpleNamespace(
        experiment=SimpleNamespace(config=config), metrics=[{**step, "grading_failed": failed}]
    )
    with pytest.raises(Fault, match="no response of the last 1 steps has a grade") if fails else nullcontext():
        _conclude(outcome, RunFolder(tmp_path), Mock())
