"""The data that objectives work on: one row per sampled response, one column per response token.

Shapes, here and everywhere: N rows (of all processes, unless said otherwise), T response positions, G responses per
prompt group, V vocabulary; n and t are those of a part of the rows cut to its longest response.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum, IntEnum, StrEnum
from functools import cached_property
from typing import Any, Self, TypeVar

from objectives.errors import ObjectiveError
from objectives.ops import Tensor, torch

Batch = TypeVar("Batch", bound="TokenBatch")
_OF_TURNS = "the rewards and states of turns"


class Source(Enum):
    """Who gives a field of the batch."""

    ROLLOUT = "sampling and grading"
    TURNS = "sampling and grading of responses of several turns"
    OLD = "a forward pass of the policy that sampled"
    CURRENT = "a forward pass of the policy as an update meets it"
    PROMPTS = "a forward pass of the policy that sampled over the prompts"
    REFERENCE = "a forward pass of the frozen reference"
    TEACHER = "a forward pass of the teacher"
    LOOP = "the loop that runs the updates"
    OBJECTIVE = "the objective itself, as it prepares and plans"


@dataclass(frozen=True)
class Field:
    """The declaration of a field: what checks, made-up batches, scoring, costs and adapters know of it."""

    shape: str
    source: Source
    dtype: type = float
    cost: str = ""
    """What it takes to have it, in words; empty: nothing."""
    words: str = ""
    """What it is, in words, where only our own loop fills it."""

    def check(self, name: str, tensor: Tensor, n: int, t: int) -> None:
        """Raises ObjectiveError for a tensor of another shape."""
        row, token = (n,), (n, t)
        if self.shape == "[N, T]" and tensor.shape != token:
            raise ObjectiveError(f"{name} must be [N, T] = [{n}, {t}] as mask is, not {list(tensor.shape)}")
        if self.shape == "[N]" and tensor.shape != row:
            raise ObjectiveError(f"{name} must be [N] = [{n}] as mask has rows, not {list(tensor.shape)}")
        if self.shape == "[N, K]" and (tensor.dim() != 2 or len(tensor) != n):
            raise ObjectiveError(f"{name} must be [N, K] with N = {n}, not {list(tensor.shape)}")
        if self.shape == "[N] or [N, T]" and tensor.shape not in (row, token):
            raise ObjectiveError(f"{name} must be [N] = [{n}] or [N, T] = [{n}, {t}], not {list(tensor.shape)}")


_DECLARED = "declared"


def required(shape: str, source: Source, dtype: type = float) -> Any:
    """A dataclass field that declares a field of the batch which is always there."""
    return field(metadata={_DECLARED: Field(shape, source, dtype)})


def optional(shape: str, source: Source, dtype: type = float, cost: str = "", words: str = "") -> Any:
    """A dataclass field that declares a field of the batch which is None until something needs it."""
    return field(default=None, metadata={_DECLARED: Field(shape, source, dtype, cost, words)})


class Writer(IntEnum):
    """Who wrote a token of a row."""

    NONE = 0
    """No one: it is padding."""
    POLICY = 1
    """The policy chose it, whether the loss sees it or not."""
    ENVIRONMENT = 2
    """An environment or a chat template behind the prompt: it is context."""


def writers(chosen: Tensor, present: Tensor) -> Tensor:
    """[N, T] int8: the policy where tokens are `chosen`, no one where none are `present`, elsewhere the environment."""
    return torch.where(chosen, Writer.POLICY, torch.where(present, Writer.ENVIRONMENT, Writer.NONE)).to(torch.int8)


# ---- the trace: what the parts of an objective did -------------------------------------------------------------------


class Action(StrEnum):
    """What a part can do, and what the value of its entry is."""

    TOKENS = "tokens"
    """[N, T] bool: the tokens that the loss sees from here on; entered by no part."""
    REWARD = "reward"
    """[N] or [N, T]: added to the reward."""
    SELECT = "select"
    """[N] or [N, T] bool: the responses, or their tokens, that are trained on."""
    ADVANTAGE = "advantage"
    """[N] or [N, T]: the advantage before weights."""
    STATE = "state"
    """A number, float64 on the CPU: one of those that the part's controller remembers, by name."""
    ADD = "add"
    """[N, T]: added to the advantage."""
    WEIGH = "weigh"
    """[N, T]: the advantage is multiplied by it."""
    GROUP = "group"
    """[N, T] bool: the tokens that a schedule tells from the others."""
    PASS = "pass"
    """[N, T] bool: tokens whose `policy` term, or whose `penalty` terms, the pass updates, by name."""
    BOUND = "bound"
    """A number or [N, T]: what the part sets `low`, `high` or `cap` to, by name."""
    MASK = "mask"
    """[N, T] bool: tokens that keep their policy gradient."""
    COEFFICIENT = "coefficient"
    """[N, T]: what the surrogate's loss is multiplied by, masks and passes aside."""
    PENALTY = "penalty"
    """[N, T]: what the penalty is multiplied by, passes aside."""
    CHOICE = "choice"
    """The same of a penalty that is on some tokens only."""
    OBSERVATION = "observation"
    """The same of a penalty on what the environment wrote."""


@dataclass(frozen=True)
class Entry:
    """What one part did."""

    part: str
    action: Action
    whole: Tensor | float
    """The value for all rows at the time of the entry, or a number, which `value` turns into a tensor."""
    name: str = ""
    """Which bound, which number of a controller, or which terms."""
    rows: Tensor | None = None
    """[n] the rows that are left; None: all."""
    width: int | None = None
    """The token positions that are left; None: all."""

    @property
    def value(self) -> Tensor:
        """Of the rows and positions that are left; shapes are those of the action."""
        if not isinstance(self.whole, Tensor):
            return torch.tensor(self.whole, dtype=torch.float64)
        value = self.whole if self.rows is None else self.whole[self.rows]
        return value if self.width is None or value.dim() < 2 else value[:, : self.width]


@dataclass(frozen=True)
class Trace:
    """What each part did, in the order in which that was carried out: `prepare` and `plan` enter what they calculate.

    Entries and their values are cut to the rows that are asked for only once they are read.
    """

    entries: tuple[Entry, ...] = ()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def record(self, part: str, action: Action, value: Tensor | float, name: str = "") -> "Trace":
        """The trace with one entry more."""
        return Trace((*self.entries, Entry(part, action, value, name)))

    def of(self, action: Action) -> list[Entry]:
        """The entries of one action."""
        return [entry for entry in self.entries if entry.action is action]

    def rows(self, index: Tensor | slice) -> "Trace":
        """That of some rows: positions or a slice. Entries that were cut alike share their rows."""
        rows: dict[int, Tensor] = {}
        entries = []
        for entry in self.entries:
            whole = entry.whole
            if isinstance(whole, Tensor) and whole.dim():
                if id(entry.rows) not in rows:
                    there = torch.arange(len(whole), device=whole.device) if entry.rows is None else entry.rows
                    rows[id(entry.rows)] = there[index]
                entry = replace(entry, rows=rows[id(entry.rows)])
            entries.append(entry)
        return Trace(tuple(entries))

    def first_tokens(self, width: int) -> "Trace":
        """That of the first `width` token positions."""
        return Trace(tuple(replace(entry, width=width) for entry in self.entries))

    @property
    def state(self) -> dict[str, dict[str, float]]:
        """Part -> the numbers that its controller remembers."""
        state: dict[str, dict[str, float]] = {}
        for entry in self.of(Action.STATE):
            state.setdefault(entry.part, {})[entry.name] = entry.value.item()
        return state

    @property
    def policy_coefficient(self) -> Tensor:
        """[N, T]: what the surrogate's loss is multiplied by, 0 where a mask or the pass leaves a token out."""
        (entry,), kept = self.of(Action.COEFFICIENT), self._in_pass("policy", self.of(Action.TOKENS)[-1].value)
        for mask in self.of(Action.MASK):
            kept = kept & mask.value
        return torch.where(kept, entry.value, 0.0)

    @property
    def penalty_coefficients(self) -> dict[str, Tensor]:
        """Penalty -> [N, T]: what it is multiplied by, 0 where the pass leaves a token out."""
        tokens, coefficients = self.of(Action.TOKENS)[-1].value, {}
        for entry in self.entries:
            if entry.action in (Action.PENALTY, Action.CHOICE, Action.OBSERVATION):
                observed = entry.action is Action.OBSERVATION
                kept = self._in_pass("penalty", torch.ones_like(tokens) if observed else tokens)
                coefficients[entry.part] = torch.where(kept, entry.value, 0.0)
        return coefficients

    def _in_pass(self, name: str, tokens: Tensor) -> Tensor:
        """[N, T] bool: those of `tokens` whose terms of this name the pass updates."""
        for entry in self.of(Action.PASS):
            tokens = tokens & entry.value if entry.name == name else tokens
        return tokens

    @cached_property
    def touched(self) -> dict[str, Tensor]:
        """Part -> [N, T] bool: response tokens that parts of stages 1, 2, 4, 7, 9 and 10 acted on."""
        touched, tokens = {}, torch.zeros(0)
        for entry in self.entries:
            if entry.action is Action.TOKENS:
                tokens = entry.value
            elif (acted := _ACTED.get(entry.action)) is not None:
                touched[entry.part] = tokens & _like_tokens(acted(entry.value), tokens)
        return touched


_ACTED: dict[Action, Callable[[Tensor], Tensor]] = {
    Action.REWARD: lambda summand: summand != 0,
    Action.SELECT: lambda selected: ~selected,
    Action.ADD: lambda summand: summand != 0,
    Action.WEIGH: lambda factor: factor != 1,
    Action.GROUP: lambda group: group,
    Action.MASK: lambda kept: ~kept,
    Action.CHOICE: lambda coefficient: coefficient != 0,
}
"""Action -> where a value of it changes something."""


def _like_tokens(values: Tensor, tokens: Tensor) -> Tensor:
    return values if values.dim() == 2 else values[:, None].expand(tokens.shape)


def joined(traces: Sequence[Trace], pad: Callable[[Tensor], Tensor]) -> Trace:
    """One of the rows of all, which have the same entries; `pad` widens [n, t] values to the widest, others stay."""
    entries = []
    for same in zip(*(trace.entries for trace in traces), strict=True):
        values = [pad(entry.value) for entry in same]
        first = same[0]
        entries.append(Entry(first.part, first.action, torch.cat(values) if values[0].dim() else values[0], first.name))
    return Trace(tuple(entries))


# ---- the batch -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenBatch:
    """N rollouts of up to T tokens: what was sampled, graded and scored, before an objective has done anything to it.

    Log-probs and entropies (nats) are those of the distribution sampled from. Only `mask` is always there; the other
    fields are None until something needs them. Values outside `mask` are ignored, whatever they are.
    """

    mask: Tensor = required("[N, T]", Source.ROLLOUT, bool)
    """[N, T] bool: tokens that the loss sees, up to and including the end of sequence; not those of a tool's output."""
    length: Tensor | None = optional("[N]", Source.ROLLOUT, int)
    """[N] int: tokens that the policy wrote, in the loss or not; None: as `writer` has it, or else up to the last one
    that `mask` has."""
    group: Tensor | None = optional("[N]", Source.ROLLOUT, int)
    """[N] int: prompt group."""
    reward: Tensor | None = optional("[N] or [N, T]", Source.ROLLOUT)
    """[N]: reward, shaped by stage 1; [N, T] where a late part shapes each token."""
    rewards: Tensor | None = optional("[N, K]", Source.ROLLOUT)
    """[N, K]: what each of K reward functions gave, as graded; `reward` is their weighted sum before stage 1."""
    reward_weights: tuple[float, ...] | None = None
    """[K]: with what they are added up; None: all with 1."""
    correct: Tensor | None = optional("[N]", Source.ROLLOUT)
    """[N]: raw correctness in [0, 1]."""
    truncated: Tensor | None = optional("[N]", Source.ROLLOUT, bool)
    """[N] bool: stopped by length."""
    max_length: int | None = None
    """The limit of response tokens under which the responses were sampled."""
    logp_old: Tensor | None = optional(
        "[N, T]",
        Source.OLD,
        cost="a scoring forward per step (none if a step makes one update, or with rollout.old_logp=engine)",
    )
    """[N, T]: the policy at rollout time, log-prob of the sampled token."""
    entropy_old: Tensor | None = optional(
        "[N, T]", Source.OLD, cost="entropies at rollout time, from the scoring forward"
    )
    """[N, T]: its full-vocabulary entropy."""
    sum_pi_squared_old: Tensor | None = optional(
        "[N, T]",
        Source.OLD,
        cost="sums of squared probabilities at rollout time, from the scoring forward",
        words="sums of squares",
    )
    """[N, T]: its probability of sampling one token twice, the sum of the squared probabilities of all tokens."""
    logp: Tensor | None = optional("[N, T]", Source.CURRENT)
    """[N, T]: the current policy, no gradient."""
    entropy: Tensor | None = optional("[N, T]", Source.CURRENT)
    """[N, T]: its full-vocabulary entropy, no gradient."""
    logp_sampler: Tensor | None = optional("[N, T]", Source.ROLLOUT)
    """[N, T]: what the rollout engine reported."""
    logp_ref: Tensor | None = optional(
        "[N, T]", Source.REFERENCE, cost="a frozen reference model, and a forward of it per step"
    )
    """[N, T]: the frozen reference."""
    logp_teacher: Tensor | None = optional(
        "[N, T]", Source.TEACHER, cost="a teacher, and a forward of it per step", words="the log-probs of a teacher"
    )
    """[N, T]: a teacher, log-prob of the sampled token; another model, or one whose prompt knows more."""
    logp_prompt: Tensor | None = optional(
        "[N]", Source.PROMPTS, cost="a forward of the prompts per step", words="the log-probs of prompts"
    )
    """[N]: the policy at rollout time, mean log-prob of the tokens of the response's prompt, but the first."""
    writer: Tensor | None = optional("[N, T]", Source.ROLLOUT, int)
    """[N, T] int: who wrote each token, a `Writer`; `mask` lacks what an environment wrote."""
    turn: Tensor | None = optional("[N, T]", Source.TURNS, int, words=_OF_TURNS)
    """[N, T] int: the policy's turn that a token of `mask` belongs to, from 0."""
    turn_reward: Tensor | None = optional("[N, T]", Source.TURNS, words=_OF_TURNS)
    """[N, T]: what that turn earned, the same on all of its tokens; those of a response add up to its reward."""
    turn_state: Tensor | None = optional("[N, T]", Source.TURNS, int, words=_OF_TURNS)
    """[N, T] int: the environment's state in which that turn began; equal numbers of a group are one state."""
    random_key: Tensor | None = optional("[N, T]", Source.LOOP, int)
    """[N, T] int64: a random key of each token out of all of int64, the same on every process: `random_keys`."""
    on_policy: bool = False
    """Whether the policy that is updated is still the one that sampled, so that `logp_old` may be left out."""
    micro_batch: Tensor | None = optional("[N]", Source.LOOP, int)
    """[N] int: the micro-batch a row is evaluated in, for parts whose scope is the micro-batch."""
    advantage: Tensor | None = optional("[N] or [N, T]", Source.OBJECTIVE)
    """[N] or [N, T]: given by the caller in place of stages 1 and 3."""
    selected: Tensor | None = optional("[N]", Source.OBJECTIVE, bool)
    """[N] bool: rows that are trained on, set by stages 1 and 2, which shape `reward` and leave `mask`."""
    trace: Trace = field(default_factory=Trace)
    """What the objective has done so far."""

    def __post_init__(self) -> None:
        if self.mask.dim() != 2 or self.mask.dtype != torch.bool:
            raise ObjectiveError(f"mask must be a bool tensor [N, T], not {self.mask.dtype} {list(self.mask.shape)}")
        for name, tensor in self.tensors().items():
            FIELDS[name].check(name, tensor, *self.mask.shape)

    @property
    def lengths(self) -> Tensor:
        """[N] int: how many tokens the policy wrote, whatever the loss sees of them."""
        if self.length is not None:
            return self.length
        if self.writer is not None:
            return (self.writer == Writer.POLICY).sum(1)
        position = torch.arange(1, self.mask.shape[1] + 1, device=self.mask.device)
        return (position * self.mask).amax(1) if self.mask.shape[1] else self.mask.sum(1)

    def tensors(self) -> dict[str, Tensor]:
        """The tensor fields that are there, by name."""
        kind = torch.Tensor
        return {name: value for name, value in vars(self).items() if isinstance(value, kind)}

    def token_fields(self) -> dict[str, Tensor]:
        """The fields that are there with a value for each token [N, T], by name."""
        return {name: value for name, value in self.tensors().items() if value.dim() == 2 and name != "rewards"}

    def rows(self, index: Tensor | slice) -> Self:
        """The batch of some rows only: a bool mask [N], positions, or a slice."""
        if isinstance(index, Tensor) and index.dtype == torch.bool:
            index = index.nonzero()[:, 0]  # once, as a GPU has to be waited for
        taken: dict[str, Any] = {name: tensor[index] for name, tensor in self.tensors().items()}
        return replace(self, **taken, trace=self.trace.rows(index))

    def first_tokens(self, width: int) -> Self:
        """The batch of the first `width` token positions only."""
        wide: dict[str, Any] = {name: tensor[:, :width] for name, tensor in self.token_fields().items()}
        return replace(self, **wide, trace=self.trace.first_tokens(width))

    def with_fields(self, **changes: Any) -> Self:
        """A copy with some fields replaced."""
        return replace(self, **changes)

    @classmethod
    def of(cls, batch: "TokenBatch", **changes: Any) -> Self:
        """A batch of this type with the fields that another one has, some of them replaced."""
        values = {item.name: getattr(batch, item.name) for item in fields(cls) if hasattr(batch, item.name)}
        return cls(**values | changes)

    def record(self, part: str, action: Action, value: Tensor, name: str = "") -> Self:
        """A copy whose trace has one entry more."""
        return replace(self, trace=self.trace.record(part, action, value, name))

    entered = record  # its older name

    def require(self, name: str, reader: str) -> Tensor:
        """The field, or an error that names who reads it."""
        self.require_all((name,), reader)
        value = getattr(self, name)
        assert isinstance(value, Tensor)
        return value

    def require_all(self, names: Iterable[str], reader: str) -> None:
        """Raises ObjectiveError for the first of the fields, by name, that is not there."""
        for name in sorted(names):
            if getattr(self, name) is None:
                raise ObjectiveError(f"{reader} reads the field {name}, which this batch lacks: {self._remedy(name)}")

    def _remedy(self, lacking: str) -> str:
        sampled = f"{lacking}_old"
        if getattr(self, sampled, None) is not None:
            return f"batch.with_fields({lacking}=batch.{sampled}) while the policy has not moved"
        return f"TokenBatch(..., {lacking}=...)"

    @property
    def lot(self) -> Tensor | None:
        """The older name of `random_key`."""
        return self.random_key

    def mean(self, name: str, reader: str) -> float:
        """The mean of a field [N, T] over the tokens that the loss sees; nan if there are none."""
        return self.require(name, reader)[self.mask].double().mean().item()

    def right(self, reader: str) -> Tensor:
        """[N] bool: responses that are correct in full."""
        return self.require("correct", reader) == 1

    def observed(self, reader: str) -> Tensor:
        """[N, T] bool: what the environment wrote behind the policy's first token, or an error that names who reads."""
        writer = self.require("writer", reader)
        answers = (writer == Writer.POLICY).cumsum(1) > 0
        return answers & (writer == Writer.ENVIRONMENT)

    def like_tokens(self, row_values: Tensor) -> Tensor:
        """[N] -> [N, T]: a value per response on each of its token positions; [N, T] stays."""
        return row_values if row_values.dim() == 2 else row_values[:, None].expand(self.mask.shape)

    def blank_outside(self) -> Self:
        """Zeroes every token field outside the mask, so that no padding value, not even NaN, can reach a result."""
        values = {name: tensor for name, tensor in self.token_fields().items() if tensor.is_floating_point()}
        return self.with_fields(**{name: torch.where(self.mask, value, 0.0) for name, value in values.items()})


@dataclass(frozen=True, kw_only=True)
class Prepared(TokenBatch):
    """Rollouts after stage 4. A pass updates all tokens or some; `mask` is False in rows that were dropped."""

    advantage: Tensor = required("[N] or [N, T]", Source.OBJECTIVE)
    """[N, T]: weighed by what is settled with the rollouts; in a plan, by the other weights as well."""
    policy_mask: Tensor | None = optional("[N, T]", Source.OBJECTIVE, bool)
    """[N, T] bool, set by a schedule: tokens whose policy term this pass updates; None: all."""
    penalty_mask: Tensor | None = optional("[N, T]", Source.OBJECTIVE, bool)
    """[N, T] bool, set by a schedule: tokens whose penalty terms this pass updates; None: all."""
    clipped: Tensor | None = optional("[N, T]", Source.OBJECTIVE, bool)
    """[N, T] bool, set by the plan for masks that ask: tokens whose gradient the surrogate cuts off at `logp`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.advantage.dim() != 2:
            raise ObjectiveError(f"a prepared advantage must be [N, T], not {list(self.advantage.shape)}")

    @property
    def state(self) -> dict[str, dict[str, float]]:
        """Part -> state of its controller, to be handed to the next step's `prepare`."""
        return self.trace.state

    def state_of(self, part: str) -> dict[str, float]:
        """The state of a part's controller for this rollout step. Raises ObjectiveError if `prepare` set none."""
        if part not in self.state:
            raise ObjectiveError(f"{part} reads the state of its controller, which this batch lacks")
        return self.state[part]


FIELDS: dict[str, Field] = {
    item.name: item.metadata[_DECLARED] for item in fields(Prepared) if _DECLARED in item.metadata
}
"""Field of the batch that holds a tensor -> its declaration."""


def fields_from(*sources: Source) -> frozenset[str]:
    """The fields that come from one of the sources, by name."""
    return frozenset(name for name, declared in FIELDS.items() if declared.source in sources)


SCORED = (Source.OLD, Source.CURRENT, Source.PROMPTS, Source.REFERENCE, Source.TEACHER)
"""Sources that are forward passes over the rollouts."""
OF_TURNS = fields_from(Source.TURNS)
"""Fields of rollouts of several turns."""
UNREPORTED = {name: FIELDS[name].words for name in fields_from(Source.OLD, Source.PROMPTS) if FIELDS[name].words}
"""Field of the policy at rollout time that no engine reports, only a scoring pass -> what it is, in words."""


def concatenated(batches: Sequence[Batch]) -> Batch:
    """The rows of all, padded to the widest; they have the same fields."""
    width = max(batch.mask.shape[1] for batch in batches)

    def widened(values: Tensor) -> Tensor:
        return values if values.dim() < 2 else torch.nn.functional.pad(values, (0, width - values.shape[1]))

    wide = batches[0].token_fields()
    values: dict[str, Any] = {
        name: torch.cat(
            [widened(batch.tensors()[name]) if name in wide else batch.tensors()[name] for batch in batches]
        )
        for name in batches[0].tensors()
    }
    return batches[0].with_fields(**values, trace=joined([batch.trace for batch in batches], widened))


def statistic(name: str, source: str) -> str:
    """The field with a statistic (`logp`, `entropy`) of the `current` policy, the `old` one, the `sampler`, ..."""
    return name if source == "current" else f"{name}_{source}"


def scope_reads(scope: str) -> frozenset[str]:
    """The fields that working within each `microbatch` takes, or within each `prompt`; {} for any other scope."""
    return frozenset({"microbatch": ("micro_batch",), "prompt": ("group",)}.get(scope, ()))


def over_scope(batch: Batch, scope: str, function: Callable[[Batch], Tensor]) -> Tensor:
    """Applies a function of a batch ([n, T] out) to the whole mini-batch, or to each micro-batch by itself."""
    if scope != "microbatch" or len(batch.mask) == 0:
        return function(batch)
    number = batch.require("micro_batch", "scope=microbatch")
    _, order = number.sort(stable=True)
    pools = order.split(torch.unique(number, return_counts=True)[1].tolist())
    return torch.cat([function(batch.rows(pool)) for pool in pools])[order.argsort()]
