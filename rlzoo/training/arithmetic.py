"""What is scored when, and how much arithmetic a run takes for that and to train: the floor of its hours."""

from dataclasses import dataclass, replace

from objectives import Objective
from rlzoo.config import Config
from rlzoo.errors import UserError
from rlzoo.experiment.old_logp import check_old_logp
from rlzoo.model.shape import Shape
from rlzoo.training.scoring import POLICY, step_scoring


@dataclass(frozen=True)
class StepArithmetic:
    """Of one step whose responses are all of full length."""

    tokens: int
    """Tokens of responses."""
    scoring: float
    """Floating-point operations of the forward passes before the updates, those of prompts alone not counted."""
    training: float
    """Those of the updates."""

    @property
    def operations(self) -> float:
        """Of both."""
        return self.scoring + self.training

    def hours(self, steps: int, speed: float) -> float:
        """Of so many steps at so many operations a second, of all GPUs together."""
        return steps * self.operations / speed / 3600


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
    loop, fields, _ = step_scoring(config, objective, moved=rollout.may_be_stale)
    again = sum(loop.is_scored(loop.update(number)) for number in range(len(loop)))
    scorings = bool(fields & POLICY) + ("logp_ref" in fields) + again / train.minibatches_per_step
    scoring = scorings * once + ("logp_teacher" in fields) * taught
    passes = 4 if config.model.gradient_checkpointing else 3
    return StepArithmetic(rows * rollout.max_response_tokens, scoring, objective.pass_count * passes * once)


def saved_by_engine(config: Config, shape: Shape, objective: Objective, teacher: Shape | None = None) -> float | None:
    """The share of a step's operations that `rollout.old_logp=engine` saves, below 0 if it takes more.

    None where it is refused.
    """
    by_policy, by_engine = (
        replace(config, rollout=replace(config.rollout, old_logp=whose)) for whose in ("policy", "engine")
    )
    try:
        check_old_logp(objective, by_engine)
    except UserError:
        return None
    taken = arithmetic(by_engine, shape, objective, teacher).operations
    return 1 - taken / arithmetic(by_policy, shape, objective, teacher).operations
