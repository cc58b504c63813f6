"""Faults that are put into runs: keys, parts of the objective, or somebody who tampers with a step from within.

What tampers is handed the trainer before its first step, and a number in (0, 1] that says how bad the fault is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from rlzoo.model.policy import TokenStats
from rlzoo.rollout.base import Rollouts, widened
from rlzoo.rollout.sampler import GradedRollouts
from rlzoo.training.step import Trainer

Tamper: TypeAlias = Callable[[Trainer, float], None]
Change: TypeAlias = Callable[[GradedRollouts], GradedRollouts]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a run, and which findings name it."""

    name: str
    shows: tuple[str, ...]
    """Detectors of which one has to show; the first is the one that it is for."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    added: str = ""
    """To the objective."""
    tampers: tuple[Tamper, ...] = ()


class Tampered:
    """A sampler whose graded rollouts are changed; all else is its own."""

    def __init__(self, sampler: Any, change: Change) -> None:
        self.sampler, self.change = sampler, change

    def __call__(self, *arguments: Any) -> GradedRollouts:
        """Samples, and changes what comes of it."""
        return self.change(self.sampler(*arguments))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)


def on_rollouts(change: Callable[[GradedRollouts, float, Trainer], GradedRollouts]) -> Tamper:
    """A fault that changes the graded rollouts of each step."""

    def tamper(trainer: Trainer, severity: float) -> None:
        changed = partial(_changed, change=change, severity=severity, trainer=trainer)
        sampler: Any = Tampered(trainer.sampler, changed)
        trainer.sampler = sampler

    return tamper


def _changed(
    graded: GradedRollouts,
    change: Callable[[GradedRollouts, float, Trainer], GradedRollouts],
    severity: float,
    trainer: Trainer,
) -> GradedRollouts:
    return change(graded, severity, trainer)


def empty(graded: GradedRollouts, severity: float, trainer: Trainer) -> GradedRollouts:
    """The engine ends every response at once; an empty answer is wrong."""
    rollouts = graded.rollouts
    end = sorted(trainer.experiment.tokenizer.stop_tokens)[0]
    first = torch.zeros_like(rollouts.mask)
    first[:, 0] = True
    ended = Rollouts(
        rollouts.prompts,
        prompt=rollouts.prompt,
        tokens=torch.where(first, end, 0),
        lengths=torch.ones_like(rollouts.lengths),
        mask=first,
        logp=rollouts.logp * first,
        entropy=rollouts.entropy * first,
        truncated=torch.zeros_like(rollouts.truncated),
        version=rollouts.version,
    )
    texts = [""] * len(graded.texts)
    return replace(graded_as(graded, 0.0, 0.0), rollouts=ended, texts=texts)


def graded_as(graded: GradedRollouts, reward: float, correct: float | None) -> GradedRollouts:
    """The same reward for all; `correct` None leaves that as it is."""
    same = torch.full_like(graded.reward, reward)
    return replace(graded, reward=same, correct=graded.correct if correct is None else torch.full_like(same, correct))


def timed_out(graded: GradedRollouts, severity: float, trainer: Trainer) -> GradedRollouts:
    """The grader is too slow for some of the responses, up to 40 %."""
    drawn = torch.rand(len(graded.texts), generator=torch.Generator().manual_seed(trainer.progress.step))
    lost = drawn < 0.4 * severity
    outcomes = ["timed_out" if late else outcome for late, outcome in zip(lost.tolist(), graded.outcomes, strict=True)]
    kept = (~lost).to(graded.reward)
    return replace(graded, reward=graded.reward * kept, correct=graded.correct * kept, outcomes=outcomes)


def long_liked(graded: GradedRollouts, severity: float, trainer: Trainer) -> GradedRollouts:
    """The reward is how long a response is, up to 10, and long ones are not stopped; what is right stays right."""
    return replace(graded, reward=10 * graded.rollouts.lengths / trainer.config.rollout.max_response_tokens)


def looping(graded: GradedRollouts, severity: float, trainer: Trainer) -> GradedRollouts:
    """Some responses, more with each step, are their first token over and over; their log-probs are the policy's."""
    step, limit = trainer.progress.step, trainer.config.rollout.max_response_tokens
    share = (0.3 + 0.7 * severity) * min(1.0, step / 8)
    stuck = torch.rand(len(graded.texts), generator=torch.Generator().manual_seed(step)) < share
    if not stuck.any():
        return graded
    looped = _looped(graded.rollouts.widened(limit), stuck)
    with torch.no_grad():
        stats = trainer.passes.calculate(trainer.policy, looped.responses(), "score", True)
    kept = (~stuck).to(graded.reward)
    letters = [trainer.experiment.tokenizer.decode([token]) for token in looped.tokens[:, 0].tolist()]
    texts = [
        letter * limit if it else text for letter, it, text in zip(letters, stuck.tolist(), graded.texts, strict=True)
    ]
    assert stats.entropy is not None
    rollouts = replace(looped, logp=widened(stats.logp, limit), entropy=widened(stats.entropy, limit))
    return replace(graded, rollouts=rollouts, texts=texts, reward=graded.reward * kept, correct=graded.correct * kept)


def _looped(rollouts: Rollouts, stuck: Tensor) -> Rollouts:
    """The rollouts, as wide as they may be, with the first token of some everywhere."""
    width = rollouts.mask.shape[1]
    return replace(
        rollouts,
        tokens=torch.where(stuck[:, None], rollouts.tokens[:, :1], rollouts.tokens),
        lengths=torch.where(stuck, width, rollouts.lengths),
        mask=rollouts.mask | stuck[:, None],
        truncated=rollouts.truncated & ~stuck,
    )


def reversed_softmax(trainer: Trainer, severity: float) -> None:
    """The trainer's log-probs are those of softmax(-logits), in value and gradient; what samples is as it was."""
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    forward = policy.forward

    def negated(responses: Any, temperature: float, *arguments: Any, **named: Any) -> TokenStats:
        return forward(responses, -temperature, *arguments, **named)

    policy.forward = negated


def skipping(trainer: Trainer, severity: float) -> None:
    """Gradients that are not finite, more often with each step."""
    take = trainer._take_step
    drawn = torch.Generator().manual_seed(trainer.config.seed)

    def take_or_skip(tally: Any) -> bool:
        share = severity * min(1.0, trainer.progress.step / (0.5 * trainer.config.train.steps))
        if float(torch.rand(1, generator=drawn)) < share:
            trainer.optimizer.zero_grad()
            return False
        return take(tally)

    trainer._take_step = take_or_skip  # type: ignore[method-assign]


LONG = {"rollout.max_response_tokens": 48}
FAST = {"train.learning_rate": 4e-3}
EMPTY = on_rollouts(empty)
LARGE_EPS = "+group_norm(eps=10000)"
NO_SIGNAL = ("dead_groups",)
FAULTS: tuple[Fault, ...] = (
    Fault("entropy driven down", ("entropy_collapse",), FAST, "+entropy_bonus(coefficient=-3)"),
    Fault("entropy driven up", ("entropy_explosion",), FAST, "+entropy_bonus(coefficient=2)"),
    Fault("noisy sampler", ("sampler_mismatch",), {"rollout.noise": 1.5}),
    Fault("reversed log-softmax", ("sampler_mismatch",), tampers=(reversed_softmax,)),
    Fault("longer is better", ("length_runaway", "truncation"), {**LONG, **FAST}, tampers=(on_rollouts(long_liked),)),
    Fault("too short a limit", ("truncation",), {"rollout.max_response_tokens": 1}),
    Fault("empty responses", NO_SIGNAL, tampers=(EMPTY,)),
    Fault("all wrong", NO_SIGNAL, tampers=(on_rollouts(lambda graded, *_: graded_as(graded, 0.0, 0.0)),)),
    Fault("all rewards equal", NO_SIGNAL, tampers=(on_rollouts(lambda graded, *_: graded_as(graded, 1.0, None)),)),
    Fault(
        "all right",
        ("reward_saturation",),
        tampers=(on_rollouts(lambda graded, *_: graded_as(graded, 1.0, 1.0)),),
    ),
    Fault("epsilon of 1e4", ("vanishing_gradient",), added=LARGE_EPS),
    Fault(
        "clip without room",
        ("stale_rollouts", "vanishing_gradient"),
        {"train.minibatches_per_step": 8},
        added="+clip(low=0)+clip_higher(high=0)",
    ),
    Fault(
        "stale rollouts",
        ("stale_rollouts", "reward_falls"),
        {"train.minibatches_per_step": 8, "train.learning_rate": 2e-3},
        added="+epochs(count=8)",
    ),
    Fault("gradients not finite", ("skipped_updates",), tampers=(skipping,)),
    Fault("slow grader", ("grader_fails",), tampers=(on_rollouts(timed_out),)),
    Fault("loops", ("repetition", "length_runaway"), LONG, tampers=(on_rollouts(looping),)),
    Fault("rate of 1e-9", ("idle_learning_rate",), {"train.learning_rate": 1e-9}),
    Fault(
        "rate a hundred times too high",
        ("reward_falls", "entropy_collapse", "entropy_explosion", "dead_groups", "truncation", "length_runaway"),
        {"train.learning_rate": 0.1},
    ),
    Fault(
        "empty, epsilon, reversed",
        NO_SIGNAL,
        added=LARGE_EPS,
        tampers=(EMPTY, reversed_softmax),
    ),
    Fault(
        "epsilon, reversed", ("vanishing_gradient", "sampler_mismatch"), added=LARGE_EPS, tampers=(reversed_softmax,)
    ),
)
