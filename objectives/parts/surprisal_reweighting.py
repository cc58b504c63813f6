"""STARE's weights by surprisal, gated by the entropy (arXiv:2606.19236); see the recipe `stare`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from objectives.batch import Prepared, TokenBatch, over_scope, scope_reads, statistic
from objectives.errors import ObjectiveError
from objectives.kinds import Weight
from objectives.lazy import Tensor, torch
from objectives.order import largest
from objectives.part import parameter
from objectives.zoo import register


@register
@dataclass(frozen=True)
class SurprisalReweighting(Weight):
    """Amplifies the most surprising tokens of good responses while the entropy is below its target."""

    name = "surprisal_reweighting"
    paper = "arXiv:2606.19236"
    troubles = ("entropy_collapse", "exploration")
    amplify: float = parameter(1.1, "[1, inf)", "W, weight of the most surprising tokens with A > 0")
    attenuate: float = parameter(1.0, "(0, 1]", "M, weight of the most surprising tokens with A < 0")
    fraction: float = parameter(0.1, "[0, 1]", "P, share of the tokens of each sign that is weighed")
    target_entropy: float | None = parameter(0.3, "(0, inf)", "H_target in nats; none: the weights are always on")
    adaptive: bool = parameter(False, None, "whether the weights follow the distance to the target")
    scope: str = parameter("batch", ("batch", "microbatch"), "where the share is taken")
    source: str = parameter("old", ("old", "current"), "whose surprisal: the rollouts' or the current policy's")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adaptive and self.target_entropy is None:
            raise ObjectiveError(f"{self.name}: adaptive=true follows target_entropy, which is none")

    @property
    def needs(self) -> frozenset[str]:
        gate = frozenset({"entropy_old"} if self.target_entropy is not None else ())
        return gate | {statistic("logp", self.source)} | scope_reads(self.scope)

    @property
    def planned(self) -> bool:
        return self.source == "current" or self.scope == "microbatch"

    @property
    def _always_on(self) -> dict[str, float]:
        return {"on": 1.0, "amplify": self.amplify, "attenuate": self.attenuate}

    def control(self, batch: TokenBatch, state: Mapping[str, float]) -> Mapping[str, float]:
        if self.target_entropy is None:
            return {}
        last = {**self._always_on, **state}
        entropy = batch.mean("entropy_old", self.name)
        if not math.isfinite(entropy):
            return last
        step = 0.01 * ((self.target_entropy > entropy) - (self.target_entropy < entropy)) if self.adaptive else 0.0
        if step and self.amplify > 1:
            last["amplify"] = min(max(last["amplify"] + step, 1.0), 1.5)
        if step and self.attenuate < 1:
            last["attenuate"] = min(max(last["attenuate"] - step, 0.5), 1.0)
        return {**last, "on": float(entropy < self.target_entropy)}

    def weight(self, batch: Prepared) -> Tensor:
        return over_scope(batch, self.scope, self._weight)

    def _weight(self, batch: Prepared) -> Tensor:
        advantage = batch.advantage
        state = self._always_on if self.target_entropy is None else batch.state_of(self.name)
        surprisal = -batch.require(statistic("logp", self.source), self.name)
        weight = torch.ones_like(advantage)
        if state["on"]:
            weight[self._most_surprising(surprisal, batch.mask & (advantage > 0))] = state["amplify"]
            weight[self._most_surprising(surprisal, batch.mask & (advantage < 0))] = state["attenuate"]
        return weight

    def _most_surprising(self, surprisal: Tensor, candidates: Tensor) -> Tensor:
        share = math.ceil(int(candidates.sum()) * self.fraction - 1e-9)
        return largest(surprisal, candidates, max(1, share) if self.fraction else 0)

    def formula(self) -> str:
        gate = "" if self.target_entropy is None else f" while the mean of H_old < {self.target_entropy:g}"
        moved = ", each moved towards the target by 0.01 a step" if self.adaptive else ""
        low = f", {self.attenuate:g} where A < 0" if self.attenuate < 1 else ""
        p = "p" if self.source == "current" else "p_old"
        where = " of each micro-batch" if self.scope == "microbatch" else ""
        least = f"the {self.fraction:.0%} of the tokens{where} with the least {p}"
        return f"A *= {self.amplify:g} on {least} where A > 0{low}{gate}{moved}"
