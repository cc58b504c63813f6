"""Parts whose every call is looked at: what it is given and gives must be what its kind and its declarations say."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from objectives.batch import Prepared, TokenBatch
from objectives.kinds import Advantage, Modifier, Reward, Schedule
from objectives.lazy import Tensor, torch
from objectives.part import Part

WITH_GRADIENT = frozenset({"ratio", "loss", "penalty"})
PER_TOKEN = frozenset({"weight", "coefficients", "ratio", "penalty", "keeps", "loss", "clips"})
PER_ROW = frozenset({"shaping", "selects", "of"})
BOOLEAN = frozenset({"selects", "keeps", "clips"})
CALCULATES_NOTHING = frozenset({"check", "equation", "formula", "numbers", "term"})
ALWAYS_THERE = frozenset({"mask", "length", "advantage", "selected", "policy_mask", "penalty_mask", "clipped"})
"""Fields that a part may read without a word."""


class BrokenLaw(Exception):
    """What an objective, or one of its parts, does and must not do, with the remedy."""

    def __init__(self, text: str, part: str = "") -> None:
        super().__init__(text)
        self.part = part
        """The part's name, where it is known."""


def watched(part: Part) -> Part:
    """A copy whose methods raise BrokenLaw; each is called several times."""
    twin = copy.copy(part)
    for kind in type(part).__mro__:
        if kind.__module__ == "objectives.kinds":
            for name, function in vars(kind).items():
                if inspect.isfunction(function) and name not in CALCULATES_NOTHING:
                    object.__setattr__(twin, name, _watched_method(part, getattr(part, name)))
    return twin


def _watched_method(part: Part, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        given = list(tensors_in((arguments, named)))
        before = [(tensor._version, tensor.detach().clone()) for _, tensor in given]
        drawn = torch.get_rng_state()
        result = method(*arguments, **named)
        problem = (
            _written(given, before)
            or _drawn(result, method(*arguments, **named), drawn)
            or _undeclared(part, method, arguments, named, result)
            or _misshapen(part, method.__name__, arguments, result)
            or _gradient(method.__name__, given, result)
            or _promised(part, method.__name__, arguments, result)
        )
        if problem:
            raise BrokenLaw(f"{_place(method)} {problem}", part.name)
        return result

    return call


def _written(given: list[tuple[str, Tensor]], before: list[tuple[int, Tensor]]) -> str:
    for (name, tensor), (version, values) in zip(given, before, strict=True):
        if tensor._version != version or not same(tensor, values):
            return f"writes into {name}: calculate a new tensor"
    return ""


def _drawn(result: Any, again: Any, drawn: Tensor) -> str:
    if same_values(result, again) and torch.equal(drawn, torch.get_rng_state()):
        return ""
    return "gives something else when it is called again: keep nothing between calls, and draw by batch.lot"


def _undeclared(part: Part, method: Callable[..., Any], arguments: Any, named: Any, result: Any) -> str:
    """A field of a batch that it reads although the part does not say so."""
    batch = next((value for value in arguments if isinstance(value, TokenBatch)), None)
    if batch is None:
        return ""
    readers = [part, *(value for value in arguments if isinstance(value, Part))]
    allowed = ALWAYS_THERE.union(*(reader.needs | reader.reads_once_moved for reader in readers))
    for name in batch.tensors().keys() - allowed:
        bare = [value.with_fields(**{name: None}) if value is batch else value for value in arguments]
        try:
            is_read = not same_values(_of_passes(result), _of_passes(method(*bare, **named)))
        except Exception:  # whatever it raises without the field
            is_read = True
        if is_read:
            return f"reads {name}, which the part does not declare: reads = frozenset({{..., {name!r}}})"
    return ""


def _of_passes(result: Any) -> Any:
    """The result; of a schedule's batches, what it has set."""
    if isinstance(result, Sequence) and all(isinstance(batch, Prepared) for batch in result):
        return [[batch.policy_mask, batch.penalty_mask] for batch in result]
    return result


def _misshapen(part: Part, name: str, arguments: Any, result: Any) -> str:
    first = next((value for value in arguments if isinstance(value, (TokenBatch, Tensor))), None)
    if first is None or name not in PER_TOKEN | PER_ROW:
        return ""
    tokens = (first.mask if isinstance(first, TokenBatch) else first).shape
    is_wide = name in PER_TOKEN or (isinstance(part, Reward) and part.per_token)
    shapes = [tokens] if is_wide else [tokens[:1], tokens] if isinstance(part, Advantage) else [tokens[:1]]
    wanted = f"{' or '.join(str(list(shape)) for shape in shapes)}{' bool' if name in BOOLEAN else ''}"
    if (
        not isinstance(result, Tensor)
        or result.shape not in shapes
        or (name in BOOLEAN) != (result.dtype == torch.bool)
    ):
        shown = f"{list(result.shape)} {result.dtype}" if isinstance(result, Tensor) else type(result).__name__
        return f"gives {shown} where {wanted} is wanted"
    return ""


def _gradient(name: str, given: list[tuple[str, Tensor]], result: Any) -> str:
    has_gradient = any(tensor.requires_grad for _, tensor in tensors_in(result))
    if name not in WITH_GRADIENT:
        return "gives what requires a gradient: the plan has none" if has_gradient else ""
    if has_gradient or not any(tensor.requires_grad for _, tensor in given):
        return ""
    return "gives what has no gradient: calculate it from the log-probs or the ratio that it is given"


def _promised(part: Part, name: str, arguments: Any, result: Any) -> str:
    """What the part says of itself, and does not do."""
    if isinstance(part, Schedule) and name == "passes" and len(result) != part.pass_count:
        return f"makes {len(result)} passes, and pass_count is {part.pass_count}"
    if isinstance(part, Modifier) and name == "modify":
        changed = {
            item
            for item in ("low", "high", "cap")
            if not same_values(getattr(arguments[0], item), getattr(result, item))
        }
        if changed - part.sets:
            return f"changes {' and '.join(sorted(changed - part.sets))}: name it in sets, or leave it as it is"
    if isinstance(part, Advantage) and name == "of" and part.centred:
        return _not_centred(arguments[0], result, part)
    return ""


def _not_centred(batch: TokenBatch, advantage: Tensor, part: Part) -> str:
    reward = batch.rewards if "rewards" in part.needs else batch.reward
    if reward is None or batch.group is None or (reward is batch.reward and reward.dim() != 1):
        return ""
    for number in batch.group.unique():
        rows = batch.group == number
        if len(reward[rows].unique(dim=0)) == 1 and bool(advantage[rows].any()):
            return "gives equal rewards of a group an advantage: set it to 0 there, or say that centred is False"
    return ""


def tensors_in(value: Any, name: str = "its argument") -> Iterator[tuple[str, Tensor]]:
    """All tensors in a value, each with the name of its field."""
    if isinstance(value, Tensor):
        yield name, value
    elif is_dataclass(value):
        for item in fields(value):
            yield from tensors_in(getattr(value, item.name), item.name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_in(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, name)


def same_values(first: Any, second: Any) -> bool:
    """Whether two results have the same tensors, and are equal where they have none."""
    pairs = [tensor for _, tensor in tensors_in(first)], [tensor for _, tensor in tensors_in(second)]
    return len(pairs[0]) == len(pairs[1]) and all(map(same, *pairs)) and (bool(pairs[0]) or first == second)


def same(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are equal bit by bit; NaN equals NaN."""
    return first.shape == second.shape and bool(torch.equal(first.nan_to_num(), second.nan_to_num()))


def _place(method: Callable[..., Any]) -> str:
    """Where a method is written."""
    code = inspect.unwrap(method).__code__
    return f"{method.__name__} ({Path(code.co_filename).name}, line {code.co_firstlineno})"
