"""What is scored when, and how much arithmetic a run takes for that and to train: the floor of its hours."""

from dataclasses import dataclass, replace

from objectives import Loop, Objective
from rlzoo.config import Config
from rlzoo.errors import UserError
from rlzoo.experiment.old_logp import check_old_logp
from rlzoo.model.shape import Shape
from rlzoo.rollout import engine_class

CURRENT = frozenset({"logp", "entropy"})
"""Fields of the policy as an update meets it."""
POLICY = CURRENT | {"logp_old", "entropy_old", "sum_pi_squared_old"}
"""Fields of a batch that one forward pass of the policy over its rollouts fills."""
OTHERS = frozenset({"logp_ref", "logp_teacher"})
"""Fields that one forward pass of another model, or behind other prompts, fills."""


@dataclass(frozen=True)
class StepScoring:
    """Where the statistics come from that a step's updates read of its rollouts."""

    loop: Loop
    """The updates, whose plans calculate some themselves."""
    scored: frozenset[str]
    """Fields of the batch that forward passes over all rollouts fill before the updates."""
    reported: frozenset[str]
    """Fields that are what the engine reported; until the policy moves they stand for the current ones, too."""

    @property
    def plans_by_report(self) -> bool:
        """Whether the first update is planned with what the engine reported in place of the current statistics."""
        return self.loop.old_of_sampler and not self.loop.scores_first and not self.scored & CURRENT


def step_scoring(config: Config, objective: Objective, moved: bool) -> StepScoring:
    """That of a step whose rollouts are of an older policy if it has `moved`, which nobody can score any more."""
    of_engine = not moved and config.rollout.old_logp == "engine"
    loop = Loop(objective, config.train.minibatches_per_step, moved, of_engine)
    needs, reads_entropy = loop.needs, not loop.needs.isdisjoint({"entropy_old", "entropy"})
    sees_entropy = reads_entropy and engine_class(config.rollout.engine).sees_entropy
    reported = frozenset({"logp_old", "entropy_old"} if sees_entropy else {"logp_old"})
    if moved:
        return StepScoring(loop, needs & OTHERS, reported)
    scored = needs & (POLICY | OTHERS | {"logp_prompt"})
    if not of_engine:
        return StepScoring(loop, scored, frozenset())
    if needs & (POLICY - CURRENT) <= reported:  # else a pass over all rollouts fills the current ones as well
        lacks_entropy = reads_entropy and not sees_entropy
        loop = replace(loop, scores_first=objective.reads_current and (lacks_entropy or _compares_current(objective)))
        scored -= CURRENT
    return StepScoring(loop, scored - reported, reported)


def _compares_current(objective: Objective) -> bool:
    """Whether the plan of a mini-batch compares log-probs of the current policy with old ones or the sampler's."""
    read = [part.needs | part.reads_once_moved for part in objective.parts]
    return any("logp" in fields and not fields.isdisjoint({"logp_old", "logp_sampler"}) for fields in read)


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
    step = step_scoring(config, objective, moved=rollout.may_be_stale)
    loop, fields = step.loop, step.scored
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
