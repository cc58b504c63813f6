"""The contract of a part, tried on small batches: tests and `rlzoo objectives --check` share it.

A part writes into nothing that it is given, gives the same result for the same input whatever it was given before,
reads what it declares, and gives what its kind says. The gradient of an objective is finite, and that of each of its
terms is zero where the plan says so; it depends neither on what lies outside the mask, nor on the order of the rows and
the numbers of the groups, nor on how a mini-batch is cut into micro-batches.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from objectives.batch import FIELDS, Prepared, Source, TokenBatch, Writer, fields_from
from objectives.loop import Loop, derivatives
from objectives.objective import Objective, Plan
from objectives.ops import Tensor, random_keys, torch
from objectives.part import Advantage, Mask, Modifier, Part, Penalty, Reward, Schedule, Select

WITH_GRADIENT = frozenset({"ratio", "loss", "penalty"})
PER_TOKEN = frozenset({"weight", "coefficients", "ratio", "penalty", "keeps", "loss", "clips"})
PER_ROW = frozenset({"shaping", "selects", "of"})
BOOLEAN = frozenset({"selects", "keeps", "clips"})
CALCULATES_NOTHING = frozenset({"check", "equation", "formula", "notices", "numbers", "term"})
ALWAYS_THERE = fields_from(Source.OBJECTIVE) | {"mask", "length"}
"""Fields that a part may read without a word."""


class BrokenLaw(Exception):
    """What an objective, or one of its parts, does and must not do, with the remedy."""

    def __init__(self, text: str, part: str = "") -> None:
        super().__init__(text)
        self.part = part
        """The part's name, where it is known."""


def with_contract_checks(part: Part) -> Part:
    """A copy whose methods raise BrokenLaw; each is called several times."""
    twin = copy.copy(part)
    for kind in type(part).__mro__:
        if kind.__module__ == Part.__module__ and kind is not Part:
            for name, function in vars(kind).items():
                if inspect.isfunction(function) and name not in CALCULATES_NOTHING:
                    object.__setattr__(twin, name, _checked_method(part, getattr(part, name)))
    return twin


def _checked_method(part: Part, method: Callable[..., Any]) -> Callable[..., Any]:
    tried = False

    def call(*arguments: Any, **named: Any) -> Any:
        nonlocal tried
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
            or ("" if tried else _leaves_device(method, arguments, named))
        )
        tried = True
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
    return "gives something else when it is called again: keep nothing between calls, and draw by batch.random_key"


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


def _leaves_device(method: Callable[..., Any], arguments: Any, named: Any) -> str:
    """A tensor that it makes on the CPU, wherever its arguments are: here on `meta`, a device without values."""
    try:
        result = method(*_on_meta(arguments), **_on_meta(named))
        leaves = any(tensor.dim() and not tensor.is_meta for _, tensor in tensors_in(result))
    except Exception as error:  # what chooses by values fails there and is right
        leaves = "same device" in str(error) or "not on the expected device" in str(error)
    return "makes a tensor on the CPU: give it a device, such as device=batch.mask.device" if leaves else ""


def _on_meta(value: Any) -> Any:
    """A copy of a value with all its tensors on `meta`."""
    if isinstance(value, Tensor):
        return value.detach().to("meta").requires_grad_(value.requires_grad)
    if isinstance(value, Mapping):
        return {key: _on_meta(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_on_meta(item) for item in value)
    if isinstance(value, Part) or not is_dataclass(value):
        return value
    moved = copy.copy(value)
    for item in fields(value):
        object.__setattr__(moved, item.name, _on_meta(getattr(value, item.name)))
    return moved


def _misshapen(part: Part, name: str, arguments: Any, result: Any) -> str:
    first = next((value for value in arguments if isinstance(value, (TokenBatch, Tensor))), None)
    if first is None or name not in PER_TOKEN | PER_ROW:
        return ""
    tokens = (first.mask if isinstance(first, TokenBatch) else first).shape
    is_wide = name in PER_TOKEN or (isinstance(part, Reward) and part.per_token)
    is_wide = is_wide or (isinstance(part, Select) and part.late)
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


# ---- on small batches -----------------------------------------------------------------------------------------------


LAWS = (
    "it writes into nothing that it is given, gives the same twice, reads what it declares, makes its tensors on the "
    "device of the batch, is finite, and heeds neither padding, the order of rows nor the cut into micro-batches"
)
COMMON = frozenset({"group", "reward", "correct", "truncated", "logp_sampler", "random_key", "micro_batch"})
"""Fields that every objective is given."""
DECLARED = FIELDS.keys() - ALWAYS_THERE - COMMON
"""Fields that only an objective which declares them is given."""
HEEDS_PADDING = "its gradient changes with the padding: leave out what batch.mask is False for"
PADDING = 4
COPIES = 8
"""Of a batch, by which a memory of where tensors lay shows: memory that is free is given away again."""
FAR = -30.0
"""The log-prob of a token that is next to never sampled."""
TOLERANCE = 1e-4
"""Of the largest gradient: rounding in float32 comes to less."""


def with_made_up_fields(batch: TokenBatch) -> TokenBatch:
    """The batch, which has `logp_old` and groups from 0, with plain values for every field of rollouts that it lacks.

    In the first group another model is the policy itself.
    """
    logp, group = batch.require("logp_old", "made-up fields"), batch.require("group", "made-up fields")
    place, row = torch.arange(logp.shape[1]).expand_as(logp), torch.arange(len(logp))
    of_tokens = {float: torch.where(group[:, None] == 0, logp, 0.9 * logp), int: place // 2, bool: place % 2 == 0}
    of_rows = {float: logp[:, 0], int: row // 2, bool: row % 2 == 0}
    lacking = (name for name in FIELDS if name not in ALWAYS_THERE and getattr(batch, name) is None)
    made: dict[str, Any] = {
        name: (of_tokens if FIELDS[name].shape == "[N, T]" else of_rows)[FIELDS[name].dtype] for name in lacking
    }
    special = {"rewards": logp[:, :1], "random_key": random_keys(group, logp.shape[1], 0)}
    return batch.with_fields(**made | {name: value for name, value in special.items() if name in made})


def check_laws(objective: Objective, batch: TokenBatch) -> None:
    """Tries the laws on a batch that has all fields, before and after the policy has moved.

    Raises BrokenLaw; what the parts themselves raise passes through.
    """
    parts = Objective(tuple(with_contract_checks(part) for part in objective.parts))
    for moved in (False, True):
        _check_results(parts, objective, batch, moved)
        _check_influences(objective, batch, moved)


def _check_results(parts: Objective, objective: Objective, batch: TokenBatch, moved: bool) -> None:
    """Finite, zero where the plan says so, and the same after other batches."""
    gradients(parts, batch, moved, undeclared=True)  # so that a part finds what it reads and does not declare
    first, other = check_finite(parts, batch, moved), _other(batch)
    after = gradients(parts, other, moved)
    unused = Objective(tuple(replace(part) for part in objective.parts))
    again = torch.equal(gradients(parts, batch, moved), first) and torch.equal(gradients(unused, other, moved), after)
    unseen = _padded(other, 2 * PADDING + 1)  # of a width that no call can remember
    if again and _heeds_padding(objective, (unseen, _full(unseen)), moved):
        raise BrokenLaw(HEEDS_PADDING)
    if not again or not _is_as_if_unseen(objective, batch, first, other, after, moved):
        raise BrokenLaw("its gradient depends on the batches before: keep nothing between calls")
    for unusual in _unusual(batch):
        check_finite(parts, unusual, moved)
    check_finite(Objective((*parts.parts, _Masked())), batch, moved)
    policy = tuple(part for part in objective.parts if not isinstance(part, Penalty))
    masked = gradients(Objective((*policy, _Masked())), batch, moved)
    if bool(gradients(Objective(policy), batch, moved).any()) and not bool(masked.any()):
        raise BrokenLaw("its gradient vanishes where a mask leaves out one whole response: divide by no count of 0")


def _heeds_padding(objective: Objective, batches: Sequence[TokenBatch], moved: bool) -> bool:
    for batch in batches:
        wider = gradients(objective, _padded(batch), moved)[..., : batch.mask.shape[1]]
        if not _close(wider, gradients(objective, batch, moved)):
            return True
    return False


def _is_as_if_unseen(
    objective: Objective, batch: TokenBatch, first: Tensor, other: TokenBatch, after: Tensor, moved: bool
) -> bool:
    """Whether nothing is remembered of an earlier batch by its shape, or by where its tensors lay."""
    width = batch.mask.shape[1]
    unseen = gradients(objective, _padded(other, 2 * PADDING), moved)[..., :width]
    copies = ((batch, first), (other, after)) * COPIES
    return _close(unseen, after) and all(
        _close(gradients(objective, _copied(rows), moved), was) for rows, was in copies
    )


def _check_influences(objective: Objective, batch: TokenBatch, moved: bool) -> None:
    """What must not change the gradient."""
    expected, rows = gradients(objective, batch, moved), len(batch.mask)
    if _heeds_padding(objective, (batch, _full(batch), _with_holes(batch)), moved):
        raise BrokenLaw(HEEDS_PADDING)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
    for after in (order, torch.arange(rows).flip(0)):
        if not _close(gradients(objective, _reordered(batch, after), moved)[:, :, after.argsort()], expected):
            raise BrokenLaw(
                "its gradient changes with the order of the rows or the numbers of the groups: only equal numbers of "
                "batch.group and batch.micro_batch mean something, and equal tokens are treated alike"
            )
    if not _close(gradients(objective, batch, moved, [*order[:4].split(1), *order[4:].tensor_split(2)]), expected):
        raise BrokenLaw(
            "its gradient changes with the cut of a mini-batch into micro-batches: settle what runs over several rows "
            "in the plan, as a mask, a planned weight, coefficients, bounds or extra"
        )


def check_finite(objective: Objective, batch: TokenBatch, moved: bool) -> Tensor:
    """`gradients` of the batch in one piece. Raises BrokenLaw if one is not finite."""
    actual = gradients(objective, batch, moved)
    if not bool(actual.isfinite().all()):
        raise BrokenLaw("its gradient is not finite")
    return actual


def gradients(
    objective: Objective, batch: TokenBatch, moved: bool, cut: Sequence[Tensor] = (), undeclared: bool = False
) -> Tensor:
    """[updates, 2, N, T]: the derivatives of the loss by log-prob and by entropy.

    The batch has all fields, its `micro_batch` among them; the objective is given those that it declares, or all of
    them if `undeclared`. Every update takes all rows, in micro-batches `cut`, each trimmed to its longest response.
    Raises BrokenLaw if a loss is not finite, or if a token has a gradient that the plan leaves out.
    """
    loop = Loop(objective, moved=moved)
    logp, entropy = (batch.logp, batch.entropy) if moved else (batch.logp_old, batch.entropy_old)
    numbers = batch.micro_batch
    assert logp is not None and entropy is not None and numbers is not None
    declared = {name: getattr(batch, name) for name in DECLARED} | {"logp": logp, "entropy": entropy}
    read = DECLARED if undeclared else loop.needs
    given: dict[str, Any] = {name: value if name in read else None for name, value in declared.items()}
    step = loop.begin(batch.with_fields(**given))
    updates = []
    for number in range(len(loop)):
        plan = step.plan(number, lambda: (logp, entropy), lambda: numbers)
        gradient = torch.zeros(2, *batch.mask.shape)
        for rows in cut or [torch.arange(len(batch.mask))]:
            width = int((batch.mask | plan.read)[rows].any(0).nonzero().amax()) + 1
            loss, *parts = derivatives(objective, plan, rows, logp[rows, :width], entropy[rows, :width])
            if not bool(loss.isfinite()):
                raise BrokenLaw("its loss is not finite")
            for place, part in enumerate(parts):
                gradient[place, rows, :width] = part
        _check_silent(objective, plan, logp, entropy)
        objective.touched(plan, slice(None), logp)
        updates.append(gradient)
    return torch.stack(updates)


def _check_silent(objective: Objective, plan: Plan, logp: Tensor, entropy: Tensor) -> None:
    """Raises BrokenLaw if a term of the loss has a gradient where its coefficient is zero."""
    for term, takes_part in _terms(plan):
        _, *parts = derivatives(objective, term, slice(None), logp, entropy)
        if any(bool(part[~takes_part].any()) for part in parts):
            raise BrokenLaw(
                "tokens that are masked, or have no advantage, have a gradient: a token's term is to depend on its "
                "own log-prob, with those of others detached"
            )


def _terms(plan: Plan) -> Iterator[tuple[Plan, Tensor]]:
    """The plan with one term of the loss alone, and [N, T] bool: the tokens that may have a gradient by it."""
    penalties = plan.penalty_coefficients
    none = {name: torch.zeros_like(coefficients) for name, coefficients in penalties.items()}
    policy = plan.policy_coefficient * plan.batch.advantage if plan.follows_advantage else plan.policy_coefficient
    yield replace(plan, penalty_coefficients=none), policy != 0
    without = replace(plan, policy_coefficient=torch.zeros_like(plan.policy_coefficient))
    for name, coefficients in penalties.items():
        yield replace(without, penalty_coefficients={**none, name: coefficients}), coefficients != 0


# ---- other batches ---------------------------------------------------------------------------------------------------


def _other(batch: TokenBatch) -> TokenBatch:
    """A batch of the same shape with other values."""
    halves: dict[str, Any] = {
        name: field / 2 for name, field in batch.token_fields().items() if field.is_floating_point()
    }
    assert batch.reward is not None
    rewards = None if batch.rewards is None else 1 - batch.rewards
    return batch.with_fields(**halves, reward=1 - batch.reward, rewards=rewards, correct=1 - batch.reward)


def _full(batch: TokenBatch) -> TokenBatch:
    """The batch without padding, in which no value is as extreme as that of padding."""
    rows, width = batch.mask.shape
    inner: dict[str, Any] = {
        name: torch.where(field.abs() < 0.1, 0.1 if name.startswith("entropy") else -0.1, field)
        for name, field in batch.token_fields().items()
        if field.is_floating_point()
    }
    return batch.with_fields(**inner, mask=torch.ones_like(batch.mask), length=torch.full((rows,), width))


def _with_holes(batch: TokenBatch) -> TokenBatch:
    """The batch without every third token of its responses."""
    hole = torch.arange(batch.mask.shape[1]) % 3 == 1
    return batch.with_fields(mask=batch.mask & ~hole)


def _padded(batch: TokenBatch, more: int = PADDING) -> TokenBatch:
    """The batch with more positions, and with other values outside the mask."""
    kept = batch.mask if batch.writer is None else batch.mask | (batch.writer == Writer.ENVIRONMENT)

    def changed(field: Tensor) -> Tensor:
        others = torch.where(kept, field, field.flip(0))
        return torch.cat((others, field.flip(0).repeat(1, 2)[:, :more]), 1)

    same = {"mask": batch.mask} if batch.writer is None else {"mask": batch.mask, "writer": batch.writer}
    wide = {name: changed(field) for name, field in batch.token_fields().items() if name not in same}
    padded = {name: torch.nn.functional.pad(field, (0, more)) for name, field in same.items()}
    return batch.with_fields(**wide, **padded)


def _reordered(batch: TokenBatch, order: Tensor) -> TokenBatch:
    """The rows in another order, with other numbers for groups and micro-batches."""
    assert batch.group is not None and batch.micro_batch is not None
    numbers = {"group": (7 * batch.group + 3) % 101, "micro_batch": (5 * batch.micro_batch + 2) % 101}
    if batch.turn_state is not None:
        numbers["turn_state"] = (3 * batch.turn_state + 1) % 101
    return batch.with_fields(**numbers).rows(order)


def _copied(batch: TokenBatch) -> TokenBatch:
    return batch.with_fields(**{name: field.clone() for name, field in batch.tensors().items()})


def _unusual(batch: TokenBatch) -> Iterator[TokenBatch]:
    """All wrong; all right; one token each; far from the policy that sampled, on both sides."""
    assert batch.reward is not None and batch.length is not None
    for reward in (torch.zeros_like(batch.reward), torch.ones_like(batch.reward)):
        rewards = None if batch.rewards is None else reward[:, None].expand_as(batch.rewards)
        yield batch.with_fields(reward=reward, rewards=rewards, correct=reward)
    short: dict[str, Any] = {name: field[:, :1] for name, field in batch.token_fields().items()}
    yield batch.with_fields(**short, length=batch.length.clamp(max=1))
    assert batch.logp is not None and batch.logp_old is not None
    is_even = torch.arange(batch.mask.shape[1]) % 2 == 0
    yield batch.with_fields(
        logp=torch.where(is_even, batch.logp, FAR), logp_old=torch.where(is_even, FAR, batch.logp_old)
    )


@dataclass(frozen=True)
class _Masked(Mask):
    """Leaves out a whole response."""

    name = "masked_response"

    def keeps(self, batch: TokenBatch) -> Tensor:
        kept = batch.mask.clone()
        kept[0] = False
        return kept


def _close(actual: Tensor, expected: Tensor) -> bool:
    return bool(((actual - expected).abs() <= TOLERANCE * expected.abs().amax()).all())
