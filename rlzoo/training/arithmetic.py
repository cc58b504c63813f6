"""What is scored when, and how much arithmetic a run takes for that and to train: the floor of its hours."""

from dataclasses import dataclass

from objectives import Loop, Objective
from rlzoo.config import Config
from rlzoo.model.shape import Shape

POLICY = frozenset({"logp_old", "entropy_old", "sum_pi_squared_old", "logp", "entropy"})
"""Fields of a batch that one forward pass of the policy over its rollouts fills."""
OTHERS = frozenset({"logp_ref", "logp_teacher"})
"""Fields that one forward pass of another model, or behind other prompts, fills."""


def scored_at_first(needs: frozenset[str], moved: bool) -> frozenset[str]:
    """The fields, among those that a step `needs`, that forward passes over its rollouts fill before its updates.

    Of rollouts of an older policy, which has `moved`, the engine has reported what that policy's fields are.
    """
    return needs & (OTHERS if moved else POLICY | OTHERS | {"logp_prompt"})


@dataclass(frozen=True)
class StepArithmetic:
    """Of one step whose responses are all of full length."""

    tokens: int
    """Tokens of responses."""
    scoring: float
    """Floating-point operations of the forward passes before the updates, those of prompts alone not counted."""
    training: float
    """Those of the updates."""

    def hours(self, steps: int, speed: float) -> float:
        """Of so many steps at so many operations a second, of all GPUs together."""
        return steps * (self.scoring + self.training) / speed / 3600


def forward(shape: Shape, rows: int, prompt: int, response: int) -> float:
    """Floating-point operations of a forward pass: two for each weight and token, the head where one is predicted.

    Attention looks back alone, so that a row of length T takes half of T^2.
    """
    length = prompt + response
    weights = shape.linear * length + shape.vocabulary * shape.hidden * response
    attention = shape.layers * shape.heads * shape.head_size * length**2
    return 2.0 * rows * (weights + attention)


def arithmetic(config: Config, shape: Shape, objective: Objective, teacher: Shape | None = None) -> StepArithmetic:
    """That of a step, of older policies' tokens where some may be such; `teacher` is the shape of one of its own.

    A prompt counts for each of its responses; a backward pass is two forward ones.
    """
    rollout, train = config.rollout, config.train
    rows = rollout.prompts_per_step * rollout.responses_per_prompt
    lengths = rollout.max_prompt_tokens, rollout.max_response_tokens
    once, taught = (forward(model, rows, *lengths) for model in (shape, teacher or shape))
    loop = Loop(objective, train.minibatches_per_step, moved=rollout.may_be_stale)
    fields = scored_at_first(loop.needs, loop.moved)
    again = sum(loop.is_scored(loop.update(number)) for number in range(len(loop)))
    scorings = bool(fields & POLICY) + ("logp_ref" in fields) + again / train.minibatches_per_step
    scoring = scorings * once + ("logp_teacher" in fields) * taught
    passes = 4 if config.model.gradient_checkpointing else 3
    return StepArithmetic(rows * rollout.max_response_tokens, scoring, objective.pass_count * passes * once)
