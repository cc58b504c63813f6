"""The account of an objective: what each part did to a batch, in the order in which that was carried out.

`prepare` and `plan` enter what they calculate anyway; views and metrics of what an objective did read it here.
Entries and their values are cut to the rows that are asked for only once they are read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from objectives.ops import Tensor, torch


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
    """Entries in the order in which they were carried out."""

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
