"""Old log-probs of the engine: what is then learnt, what is no longer scored, and where that is refused."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import Loop, parse, step_scoring
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check, check_old_logp
from rlzoo.experiment.progress import Progress
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy, TokenStats, load_policy
from rlzoo.rollout import engine_class
from rlzoo.rollout.base import Rollouts
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.training.step import StepRollouts
from tests.training.recording import Recording, collected_by, rollouts
from tests.training.test_trainer import by_hand

ENGINE, POLICY = "rollout.old_logp=engine", "rollout.old_logp=policy"
WORDS = ("rollout.responses_per_prompt=4", "task.problems=8", "evaluation.problems=1")
HALVES, WHOLE = "train.minibatches_per_step=2", "train.minibatches_per_step=1"
OBJECTIVES = ["grpo-kl", "dapo", "stapo(tau_p=0.2)", "grpo-kl+stare(adaptive=true)+lopti(portion=0.5)", "grpo-kl+fipo"]
"""Two that read old log-probs, entropies of the policy as it is, those at rollout time, and a comparison of both."""


class Watched(Recording):
    """Counts the tokens that each phase calculates."""

    tokens: Counter[str]

    def watch(self) -> None:
        """From here on."""
        self.tokens, calculate = Counter(), self.passes.calculate

        def counted(policy: Policy, responses: Responses, phase: str, *given: Any) -> TokenStats:
            self.tokens[phase] += int(responses.mask.sum())
            return calculate(policy, responses, phase, *given)

        self.passes.calculate = counted  # type: ignore[method-assign]


def watched(model: Path, *words: str, noise: float = 0.0) -> tuple[Watched, StepRollouts]:
    """A trainer, and rollouts whose engine reports what the policy calculates, each log-prob with `noise`."""
    experiment = check(load_config([f"model.name={model}", *WORDS, *words]))
    policy = load_policy(experiment.config.model, experiment.tokenizer).double()
    trainer = Watched(experiment, Accelerator(cpu=True), policy, None, sampler=None)
    trainer.gradients = []
    trainer.watch()
    sampled, batch = rollouts()
    scored = trainer.scored(collected_by(sampled, batch), frozenset({"logp_old", "entropy_old"}))
    logp, entropy = (scored.require(name, "test") for name in ("logp_old", "entropy_old"))
    logp = logp + noise * torch.randn(logp.shape, generator=torch.Generator().manual_seed(1), dtype=logp.dtype)
    sampled = Rollouts(sampled.prompts, **{**sampled.tensors(), "logp": logp, "entropy": entropy})
    trainer.tokens.clear()
    return trainer, collected_by(sampled, batch.with_fields(logp_sampler=logp))


def learnt(trainer: Watched, collected: StepRollouts, old_logp: str) -> list[Tensor]:
    """The gradient of each update of a step; the policy stays where it is."""
    trainer.config.rollout.old_logp, trainer.gradients = old_logp, []
    trainer.tokens.clear()
    trainer.learn(collected)
    return trainer.gradients


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    """Gradients agree to rounding."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.abs().max() > 0 and (one - other).abs().max() <= 1e-9 * one.abs().max()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("expression", OBJECTIVES)
def test_of_an_engine_that_agrees_is_learnt_what_the_policys_own_log_probs_teach(
    expression: str, tiny_model: Path
) -> None:
    trained = watched(tiny_model, f"objective={expression}", HALVES)
    assert_same(learnt(*trained, "engine"), learnt(*trained, "policy"))


@pytest.mark.usefixtures("float64")
def test_the_ratio_is_to_what_the_engine_reported_and_the_difference_is_measured(tiny_model: Path) -> None:
    trainer, collected = watched(tiny_model, "objective=grpo-kl", WHOLE, noise=0.2)
    assert collected.is_of(trainer.progress.updates)
    expected = by_hand(trainer, collected)
    assert (learnt(trainer, collected, "policy")[0] - expected).abs().max() > 1e-3
    assert_same(learnt(trainer, collected, "engine"), [expected])
    assert trainer.tokens.keys() == {"train"}, "nothing is scored for it"
    _, tally, _ = trainer.learn(collected)
    assert tally.metrics(trainer.accelerator)["sampler/difference"] == pytest.approx(0.2 * 0.8, rel=0.3)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("expression", ["grpo-kl+fipo", "grpo-kl+cov_penalty(fraction=0.5,beta=5)"])
def test_an_engine_that_differs_is_to_every_part_a_policy_that_differs(expression: str, tiny_model: Path) -> None:
    trainer, collected = watched(tiny_model, f"objective={expression}", WHOLE, noise=0.2)
    by_engine = learnt(trainer, collected, "engine")
    trainer.progress = Progress(step=1, updates=1)
    assert not collected.is_of(trainer.progress.updates)
    assert_same(by_engine, learnt(trainer, collected, "policy"))


def test_a_single_update_reads_the_samplers_log_probs_and_not_its_own() -> None:
    sampled, own = (Loop(parse("grpo-kl"), old_of_sampler=whose).needs for whose in (True, False))
    assert sampled - own == {"logp_old"}


@pytest.mark.usefixtures("float64")
def test_entropies_that_the_engine_does_not_see_are_the_policys_own(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TransformersEngine, "sees_entropy", False)
    trainer, collected = watched(tiny_model, "objective=stapo(tau_p=0.2)", HALVES)
    collected.rollouts.entropy.zero_()
    assert_same(learnt(trainer, collected, "policy"), learnt(trainer, collected, "engine"))
    assert trainer.tokens["score"] == int(collected.rollouts.mask.sum()), "each mini-batch once, and no pass before"


@pytest.mark.parametrize(
    ("expression", "engine", "scored", "scores_first"),
    [
        ("grpo", "vllm", {"logp_ref"}, False),
        ("stapo", "transformers", set(), False),
        ("stapo", "vllm", set(), True),
        ("grpo-kl+stare(adaptive=true)", "transformers", set(), False),
        ("grpo-kl+stare(adaptive=true)", "vllm", {"entropy_old"}, False),
        ("stapo+stare(adaptive=true)", "vllm", {"entropy_old", "entropy", "logp"}, False),
        ("stapo(source=old)", "transformers", set(), False),
        ("stapo(source=old)", "vllm", {"entropy_old"}, False),
        ("otb", "transformers", {"sum_pi_squared_old"}, False),
        ("dapo+fipo", "transformers", set(), True),
        ("grpo-kl+off_policy_mask(delta=1,anchor=sampler)", "transformers", set(), True),
    ],
)
def test_scored_is_what_the_engine_does_not_report_or_what_is_compared_with_it(
    expression: str, engine: str, scored: set[str], scores_first: bool
) -> None:
    sees_entropy = engine_class(engine).sees_entropy
    loop, found, _ = step_scoring(parse(expression), 2, moved=False, by_engine=True, sees_entropy=sees_entropy)
    assert (found, loop.scores_first) == (scored, scores_first)


# ---- where it is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["rollout.ahead=1"], r"is for rollouts of the newest policy, and rollout\.ahead=1 .*leave it out"),
        (
            ["rollout.top_p=0.9"],
            r"with rollout\.top_p=0\.9 .*nucleus.*set rollout\.top_p=1, or rollout\.old_logp=policy",
        ),
        (["objective=dapo+sampler_correction"], r"sampler_correction of .*leave rollout\.old_logp=engine out"),
        (["objective=dapo+icepop"], r"compares the policy's log-probs with the engine's"),
        (["objective=grpo-kl+sampler_ratio"], r"has no effect: no part of .*leave it out"),
    ],
)
def test_where_it_has_no_effect_or_no_meaning_a_line_says_so(words: list[str], says: str) -> None:
    config = load_config([*words, ENGINE])
    with pytest.raises(UserError, match=rf"^rollout\.old_logp=engine.*{says}"):
        check_old_logp(parse(config.objective), config.rollout)
    check_old_logp(parse(config.objective), load_config([*words, POLICY]).rollout)
