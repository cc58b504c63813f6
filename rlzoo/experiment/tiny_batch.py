"""Every part of an objective is tried on eight responses before anything starts, as a run would call it.

What a part from outside forgets would otherwise be found after an evaluation, by a traceback from torch.
"""

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from objectives import (
    Advantage,
    Aggregate,
    Bounds,
    Mask,
    Modifier,
    Objective,
    ObjectiveError,
    Part,
    Penalty,
    Ratio,
    Reward,
    Schedule,
    Select,
    Surrogate,
    TokenBatch,
    Weight,
)
from rlzoo.errors import UserError, one_line

TOKENS = 6
"""T of the tiny batch."""
SCORED = ("logp_old", "entropy_old", "logp", "entropy", "logp_ref", "micro_batch")
"""Fields that a run adds only if a part says that it reads them."""


def check_parts(objective: Objective) -> None:
    """Tries its parts on rollouts of this policy, and on those of an older one. Raises UserError naming the part."""
    for on_policy in (True, False):
        try:
            _Trial(objective, on_policy).run()
        except ObjectiveError as error:
            raise UserError(f"objective={objective}: {error}") from None


class _Trial:
    """Calls the parts stage by stage, each with what the stages before it made of the batch."""

    def __init__(self, objective: Objective, on_policy: bool) -> None:
        self.objective, self.on_policy = objective, on_policy
        self.everything = _tiny_batch(max(4, objective.minimum_group), on_policy)
        self.size = len(self.everything.mask)

    def run(self) -> None:
        """All of them."""
        objective = self.objective
        sampled = self.everything.with_fields(**dict.fromkeys(SCORED))
        for shaper in [it for it in objective.all(Reward) if not it.late]:
            self._tensor(shaper, shaper.shaping, sampled, "[N]")
        for selector in objective.all(Select):
            self._tensor(selector, selector.selects, sampled, "[N] bool")
        needs = objective.requires(self.on_policy)
        scored = objective.select(sampled).with_fields(**self._fields(needs - {"micro_batch"}))
        for shaper in [it for it in objective.all(Reward) if it.late]:
            self._tensor(shaper, shaper.shaping, scored, "[N, T]" if shaper.per_token else "[N]")
        advantage = objective.the(Advantage)
        self._tensor(advantage, advantage.of, scored, "[N]", "[N, T]")
        per_token = scored.like_tokens(objective.advantages(scored))
        self._weights(scored.with_fields(advantage=per_token), planned=False)
        self._update(self._passes(objective.prepare(scored)), needs)

    def _passes(self, prepared: TokenBatch) -> TokenBatch:
        schedule = self.objective.the(Schedule)
        passes = self._called(schedule, schedule.passes, prepared)
        if not passes or len(passes) != schedule.pass_count:
            raise UserError(f"{_name(schedule, schedule.passes)} made {len(passes)} batches, not {schedule.pass_count}")
        return passes[0]

    def _update(self, batch: TokenBatch, needs: frozenset[str]) -> None:
        objective = self.objective
        batch = batch.with_fields(**self._fields(needs & {"micro_batch"}))
        self._weights(batch, planned=True)
        surrogate, aggregate = objective.the(Surrogate), objective.the(Aggregate)
        bounds = self._called(surrogate, surrogate.bounds, batch)
        for modifier in objective.all(Modifier):
            changed = self._called(modifier, partial(modifier.modify, bounds), batch, "modify")
            if not isinstance(changed, Bounds):
                raise UserError(f"{_name(modifier, modifier.modify)} returned {_described(changed)}; it must be Bounds")
        for mask in objective.all(Mask):
            self._tensor(mask, mask.keeps, batch, "[N, T] bool")
        self._tensor(aggregate, _with(aggregate.coefficients, batch.mask), batch, "[N, T]", method="coefficients")
        for penalty in objective.all(Penalty):
            self._tensor(penalty, _with(penalty.coefficients, aggregate), batch, "[N, T]", method="coefficients")
        self._loss(objective.plan(batch))

    def _loss(self, plan: Any) -> None:
        objective, batch = self.objective, plan.batch
        surrogate, ratio = objective.the(Surrogate), objective.the(Ratio)
        logp, entropy = (self._field(name).clone().requires_grad_() for name in ("logp", "entropy"))
        self._tensor(ratio, _with(ratio.ratio, logp), batch, "[N, T]", method="ratio")
        value, advantage = ratio.ratio(batch, logp), batch.require("advantage", "loss")
        arguments = (value, logp, advantage, plan.bounds, plan.extra)
        loss = self._tensor(surrogate, lambda it: surrogate.loss(*arguments), batch, "[N, T]", method="loss")
        if not loss.requires_grad:
            raise UserError(f"{_name(surrogate, surrogate.loss)} has no gradient: it must depend on ratio or logp")
        for penalty in objective.all(Penalty):
            self._tensor(penalty, _with(penalty.penalty, logp, entropy), batch, "[N, T]", method="penalty")
        objective.loss(plan, slice(None), logp, entropy if objective.needs_entropy_gradient else None).backward()

    def _weights(self, batch: TokenBatch, planned: bool) -> None:
        for weight in self.objective.all(Weight):
            if weight.planned == planned:
                control = self._called(weight, _with(weight.control, {}), batch, "control")
                state = {weight.name: dict(control)} if control else {}
                self._tensor(weight, weight.weight, batch.with_fields(state=state), "[N, T]")

    def _tensor(
        self, part: Part, call: Callable[[TokenBatch], Any], batch: TokenBatch, *shapes: str, method: str = ""
    ) -> Tensor:
        """What the part makes of the batch, which must have one of the shapes and be finite where tokens are."""
        value = self._called(part, call, batch, method)
        sizes = {"[N]": [self.size], "[N, T]": [self.size, TOKENS], "[N] bool": [self.size]}
        wanted = {shape: sizes.get(shape, [self.size, TOKENS]) for shape in shapes}
        fits = isinstance(value, Tensor) and list(value.shape) in wanted.values()
        if not fits or shapes[0].endswith("bool") != (value.dtype == torch.bool):
            shown = " or ".join(f"{shape} (here {size})" for shape, size in wanted.items())
            raise UserError(f"{_name(part, call, method)} returned {_described(value)}; it must be a tensor {shown}")
        tokens = batch.mask if value.dim() == 2 else batch.mask.any(1)
        if value[tokens].isnan().any():
            raise UserError(f"{_name(part, call, method)} returned NaN, of finite rewards, log-probs and entropies")
        return value

    def _called(self, part: Part, call: Callable[[TokenBatch], Any], batch: TokenBatch, method: str = "") -> Any:
        """What the call returns; if it fails, whether for a field that the part does not say it reads."""
        try:
            return call(batch)
        except Exception as error:
            name, forgotten = _name(part, call, method), self._forgotten(call, batch)
            if forgotten:
                fields = ", ".join(f'"{it}"' for it in forgotten)
                raise UserError(
                    f"{name} looks at {' and '.join(forgotten)}, which is there only for parts that say so: add "
                    f"reads = frozenset({{{fields}}}) to {type(part).__name__}"
                ) from None
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name} line {place.lineno}"
            raise UserError(f"{name} raised {type(error).__name__}: {one_line(error)} ({where})") from None

    def _forgotten(self, call: Callable[[TokenBatch], Any], batch: TokenBatch) -> list[str]:
        """The fields without which the call fails, if it works with all of them."""
        absent = [name for name in SCORED if getattr(batch, name) is None]
        if not _works(call, batch.with_fields(**self._fields(absent))):
            return []
        without = ({other for other in absent if other != name} for name in absent)
        return [
            name
            for name, rest in zip(absent, without, strict=True)
            if not _works(call, batch.with_fields(**self._fields(rest)))
        ]

    def _fields(self, names: Any) -> dict[str, Any]:
        return {name: getattr(self.everything, name) for name in names}

    def _field(self, name: str) -> Tensor:
        return self.everything.require(name, "the trial")


def _with(method: Callable[..., Any], *others: Any) -> Callable[[TokenBatch], Any]:
    """A method that takes more than the batch."""
    return lambda batch: method(batch, *others)


def _works(call: Callable[[TokenBatch], Any], batch: TokenBatch) -> bool:
    try:
        call(batch)
    except Exception:
        return False
    return True


def _name(part: Part, call: Callable[..., Any], method: str = "") -> str:
    return f"{part.written}: {method or call.__name__}"


def _described(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return one_line(repr(value))


def _tiny_batch(group: int, on_policy: bool) -> TokenBatch:
    """Two groups of responses, with every field: one right and wrong ones, the other all right."""
    size, random = 2 * group, torch.Generator().manual_seed(0)

    def noise(scale: float) -> Tensor:
        return scale * torch.rand((size, TOKENS), generator=random)

    length = torch.arange(size) % (TOKENS - 1) + 2
    old, entropy = -0.05 - noise(3.0), 0.05 + noise(2.0)
    moved = 0.0 if on_policy else 0.1
    reward = torch.where(torch.arange(size) < group, torch.arange(size) % 2, 1).float()
    return TokenBatch(
        mask=torch.arange(TOKENS) < length[:, None],
        length=length,
        group=torch.arange(size) // group,
        reward=reward,
        correct=reward,
        truncated=length == TOKENS,
        max_length=TOKENS,
        logp_sampler=old - noise(0.01),
        logp_old=old,
        entropy_old=entropy,
        logp=old - noise(moved),
        entropy=entropy + noise(moved),
        logp_ref=old - noise(0.1),
        micro_batch=torch.arange(size) // group,
        on_policy=on_policy,
    )
