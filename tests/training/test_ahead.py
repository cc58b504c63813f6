"""Rollouts one step old: which policy sampled them, what is learnt from them, and that nothing gets lost with them."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from rich.console import Console
from torch import Tensor

from objectives import parse
from rlzoo.config import Config, ModelConfig, RolloutConfig, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import step_seed
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy, TokenStats, load_policy
from rlzoo.report.terminal import Terminal
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.memory import shape_of
from rlzoo.rollout.sampler import GradedRollouts, Sampler
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.tasks.grading import GraderPool
from rlzoo.training.fit import arithmetic
from rlzoo.training.rows import ForwardPasses
from rlzoo.training.run import train
from rlzoo.training.step import Trainer
from tests.objectives.zoo_names import taught

SMALL = (
    "rollout.prompts_per_step=3",
    "rollout.responses_per_prompt=4",
    "rollout.max_refills=50",
    "train.learning_rate=1e-4",
    "train.warmup_steps=0",
    "train.steps=3",
    "evaluation.problems=4",
    "evaluation.samples=1",
)
STALE_KEYS = ["rollout.ahead=1", "rollout.partial_tokens=8"]
FRESH, STALE, REPORTED = "rollout.ahead=0", "rollout.ahead=1", "rollout.old_logp=engine"


def small(*words: str) -> Config:
    """A run of seconds on the embedded model."""
    return load_config([*SMALL, *words])


def run(folder: Path, *words: str) -> RunFolder:
    """Trains silently."""
    return train(small(f"output={folder}", *words), Terminal(Console(quiet=True)))


@contextmanager
def made(config: Config, engine: Any = TransformersEngine) -> Iterator[Trainer]:
    """A trainer that calculates in the default dtype."""
    experiment = check(config)
    policy = load_policy(config.model, experiment.tokenizer).to(torch.get_default_dtype())
    with GraderPool(experiment.task.grader) as graders:
        sampler = Sampler(
            engine(policy, experiment.tokenizer, config.rollout, config.model), graders, experiment.tokenizer
        )
        yield Trainer(experiment, Accelerator(cpu=True), policy, None, sampler)


def weights(trainer: Trainer) -> Tensor:
    """All of the policy's."""
    return torch.cat([parameter.detach().flatten() for parameter in trainer.policy.parameters()])


@pytest.mark.slow
@pytest.mark.usefixtures("float64")
def test_each_step_trains_on_what_the_policy_before_the_last_updates_sampled() -> None:
    """Three steps of GRPO by hand: sampling, advantages, ratios, loss, AdamW."""
    config = small("objective=grpo-kl", "rollout.ahead=1", "train.minibatches_per_step=1")
    with made(config) as trainer:
        policy = trainer.policy.frozen_copy()
        policy.requires_grad_(True)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, weight_decay=config.train.weight_decay)
        samplers = [policy.frozen_copy()]  # P(0), P(1), ...
        for step in range(3):
            _, collected = trainer.step()
            by = samplers[max(0, step - 1)]
            graded = sampled_by(by, trainer, step)
            assert torch.equal(collected.rollouts.tokens[:, : graded.rollouts.tokens.shape[1]], graded.rollouts.tokens)
            assert collected.rollouts.version[collected.rollouts.mask].unique().tolist() == [max(0, step - 1)]
            assert 0 < graded.reward.mean() < 1, "without a signal nothing is learnt"
            learn(policy, optimizer, graded, by)
            samplers.append(policy.frozen_copy())
            expected = torch.cat([parameter.detach().flatten() for parameter in policy.parameters()])
            moved = (expected - torch.cat([p.flatten() for p in samplers[-2].parameters()])).abs().max()
            assert moved > 1e-5 and (weights(trainer) - expected).abs().max() < 1e-7 * moved


def sampled_by(policy: Policy, trainer: Trainer, step: int) -> GradedRollouts:
    """What a policy answers to a step's problems."""
    problems = trainer.experiment.problems(3 * step, 3)
    prompts, seed = trainer.sampler.prompts(problems), step_seed(0, step, "rollout 0 of process 0")
    engine = TransformersEngine(policy, trainer.experiment.tokenizer, RolloutConfig(), ModelConfig())
    sampling = Sampling(trainer.config.rollout.max_response_tokens)
    return trainer.sampler.graded(problems, engine.generate(prompts, 4, sampling, seed))


def learn(policy: Policy, optimizer: torch.optim.Optimizer, graded: GradedRollouts, old: Policy) -> None:
    """An update by GRPO's equations, with the ratio to the policy that sampled."""
    responses, mask = graded.rollouts.responses(), graded.rollouts.mask
    reward = graded.reward.double().view(3, 4)
    advantage = ((reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)).view(12, 1)
    with torch.no_grad():
        before = old(responses, 1.0).logp
    ratio = (policy(responses, 1.0).logp - before).exp()
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage) * mask
    loss = -(surrogate.sum(1) / mask.sum(1)).mean()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()


class Apart(TransformersEngine):
    """Samples with a copy of the weights, as a server does, and from the second call on not before it is told to."""

    apart = True

    def __init__(self, policy: Policy, *arguments: Any) -> None:
        super().__init__(policy.sampling_copy(torch.float32, share_head=False), *arguments)
        self.learning, self.calls = threading.Event(), 0

    def generate(self, *arguments: Any) -> Any:
        self.calls += 1
        assert self.calls == 1 or self.learning.wait(60), "training waits for the rollouts of the next step"
        return super().generate(*arguments)


@pytest.mark.slow
def test_an_engine_apart_samples_while_the_policy_trains_and_training_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = small("objective=grpo-kl", "rollout.ahead=1")
    learn = Trainer.learn

    def watched(trainer: Trainer, *arguments: Any) -> Any:
        learnt = learn(trainer, *arguments)
        if isinstance(trainer.engine, Apart):
            trainer.engine.learning.set()  # at the end of the updates the rollouts of the next step are still awaited
        return learnt

    monkeypatch.setattr(Trainer, "learn", watched)
    with made(config) as plain, made(config, Apart) as beside:
        for _ in range(3):
            beside.engine.learning.clear()  # type: ignore[attr-defined]
            assert beside.step()[0] == plain.step()[0]
            assert torch.equal(weights(beside), weights(plain))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "word", "scorings"),
    [
        *(("grpo-kl", STALE, 0), ("grpo-kl", FRESH, 1), ("grpo-kl", REPORTED, 0)),
        *(("stapo", STALE, 1), ("stapo", FRESH, 1 + 2 / 3), ("stapo", REPORTED, 2 / 3)),
        *(("opd", STALE, 1), ("opd", FRESH, 2), ("grpo-kl+fipo", REPORTED, 1)),
    ],
)
def test_what_fit_counts_as_scoring_is_what_training_scores(
    objective: str, word: str, scorings: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, calculate = Counter[str](), ForwardPasses.calculate

    def counted(passes: ForwardPasses, policy: Policy, responses: Responses, phase: str, *given: Any) -> TokenStats:
        tokens[phase] += int(responses.mask.sum())
        return calculate(passes, policy, responses, phase, *given)

    monkeypatch.setattr(ForwardPasses, "calculate", counted)
    words = (f"objective={objective}", word, "train.minibatches_per_step=3")
    config = small(*words, *taught(objective))
    shape = shape_of(config.model)
    counted = arithmetic(config, shape, parse(objective))
    assert counted.scoring * 3 / counted.training == pytest.approx(scorings)
    with made(config) as trainer:
        trainer.step()
        tokens.clear()
        _, collected = trainer.step()
    # Mini-batches differ in tokens: a response with steps is three times as long as one without.
    assert tokens["score"] / int(collected.rollouts.mask.sum()) == pytest.approx(scorings, abs=0.3)


@pytest.mark.parametrize("stale", STALE_KEYS)
def test_an_entropy_that_the_engine_does_not_see_of_an_older_policy_is_missed_before_anything_loads(
    stale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlzoo.experiment.check.check_engine", lambda config: None)
    words = ("rollout.engine=vllm", "objective=stare(adaptive=true)-dynamic_sampling")
    check(small(*words))
    with pytest.raises(UserError, match=rf"{stale}: a part of .*stare.* reads the entropy .*engine=vllm"):
        check(small(*words, stale))


@pytest.mark.parametrize("stale", STALE_KEYS)
def test_log_probs_of_a_nucleus_are_not_those_of_an_older_policy(stale: str) -> None:
    with pytest.raises(UserError, match=rf"{stale}: with rollout\.top_p=0\.9 .* set rollout\.top_p=1"):
        check(small(stale, "rollout.top_p=0.9", "objective=grpo"))
    check(small(stale, "objective=grpo"))


@pytest.mark.slow
def test_a_reward_sees_the_same_step_whole_and_resumed_and_in_evaluations(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text(
        "def later(completions, trainer_state, **columns):\n"
        "    return [trainer_state.global_step / trainer_state.max_steps] * len(completions)\n"
    )
    (tmp_path / "sums.jsonl").write_text(
        '{"question": "1+2=", "answer": "3"}\n{"question": "2+2=", "answer": "4"}\n' * 16
    )
    words = (
        STALE,
        f"task.name={tmp_path}/sums.jsonl",
        f"task.reward={tmp_path}/reward.py:later",
        "train.schedule=constant",
    )
    short = ("rollout.max_response_tokens=4", "evaluation.problems=2", "checkpoint.every=1", *words)
    whole = run(tmp_path / "whole", *short)
    run(tmp_path / "resumed", *short, "train.steps=2")
    resumed = run(tmp_path / "resumed", *short, "resume=true")
    for folder in (whole, resumed):
        assert [line["reward"] for line in read_json_lines(folder.metrics)] == pytest.approx([0, 0, 1 / 3])
        evaluated = [{line["reward"] for line in read_json_lines(path)} for path in (folder / "evaluation").iterdir()]
        assert {0.0} in evaluated and {1.0} in evaluated
