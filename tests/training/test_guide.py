"""The loop that objectives/adapters/README.md shows has the gradients of our own trainer."""

import inspect
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from objectives import TokenBatch, parse
from rlzoo.config import load_config
from rlzoo.experiment.check import check
from rlzoo.model.policy import Policy, load_policy
from rlzoo.training.rows import StepMetrics
from tests.guide import GUIDE, learn
from tests.training.recording import Recording, collected_by, rollouts, with_noise

WORDS = ("objective=grpo", "rollout.responses_per_prompt=4", "task.problems=8", "evaluation.problems=1")
SAMPLE = ["grpo", "dapo", "stapo+clip_higher", "lopti", "stare(adaptive=true)", "entropy20", "icepop"]
"""Something at every stage; what looks at micro-batches depends on how they are cut."""


class Moving(Recording):
    """Moves the policy a little after each update, whatever its gradient."""

    def _take_step(self, metrics: StepMetrics) -> bool:
        super()._take_step(metrics)
        self.policy.load_state_dict(with_noise(self.policy, len(self.gradients)).state_dict())
        return True


class Optimizer:
    """The same for the guide's loop."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.gradients = policy, list[Tensor]()

    def step(self) -> None:
        self.gradients.append(torch.cat([p.grad.flatten() for p in self.policy.parameters() if p.grad is not None]))
        self.policy.load_state_dict(with_noise(self.policy, len(self.gradients)).state_dict())

    def zero_grad(self) -> None:
        self.policy.zero_grad()


def test_the_guide_shows_the_loop_that_is_tested() -> None:
    shown = f"import torch\nfrom objectives import Loop\n\n\n{inspect.getsource(learn)}"
    assert f"```python\n{shown}```" in GUIDE.read_text("utf-8")
    assert len(shown.splitlines()) <= 40


@pytest.mark.parametrize("recipe", SAMPLE)
def test_the_loop_of_the_guide_has_our_gradients(recipe: str, tiny_model: Path, float64: None) -> None:
    experiment = check(load_config([f"model.name={tiny_model}", *WORDS, "train.minibatches_per_step=2"]))
    start = load_policy(experiment.config.model, experiment.tokenizer).double()
    with torch.no_grad():
        start.model.get_output_embeddings().weight *= 30
    reference, sampled_and_batch = with_noise(start, 9), rollouts()
    sampled, batch = sampled_and_batch
    own = Moving(experiment, Accelerator(cpu=True), start.frozen_copy().requires_grad_(), reference, sampler=None)
    own.objective, own.gradients = parse(recipe), []
    collected = collected_by(sampled, batch)
    prepared, _, _ = own.learn(collected)

    policy = start.frozen_copy().requires_grad_()
    optimizer = Optimizer(policy)

    def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
        stats = policy(sampled.rows(rows).responses(), 1.0, True)
        wide = (0, batch.mask.shape[1] - stats.logp.shape[1])
        return torch.nn.functional.pad(stats.logp, wide), torch.nn.functional.pad(stats.entropy, wide)

    given: TokenBatch = own.scored(collected, frozenset({"logp_ref"}))
    state = learn(parse(recipe), given, forward, optimizer, minibatches=2)
    assert state == prepared.state and len(optimizer.gradients) == len(own.gradients)
    for one, other in zip(own.gradients, optimizer.gradients, strict=True):
        assert (one - other).abs().max() <= 1e-9 * one.abs().max()
