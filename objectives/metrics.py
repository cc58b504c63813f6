"""What an objective did in numbers: sums over the tokens that its parts touched, for the metrics of any trainer."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from objectives.lazy import Tensor, torch
from objectives.objective import Objective
from objectives.plan import Plan

_NOTHING: Mapping[str, Tensor] = {}


class PartMetrics:
    """Sums over rows of mini-batches, on their device; they add up over micro-batches and processes.

    `tokens` that the loss sees and their `mass`, the size of the advantage; `loss`; `kl` to the reference (k3); for
    each part `touched/PART/tokens`, `touched/PART/mass` and whatever else is measured of the tokens that it touched;
    with `overlaps` how many of them each other part touched too.
    """

    def __init__(self, objective: Objective, device: "torch.device", overlaps: bool = False) -> None:
        self.objective, self.overlaps = objective, overlaps
        self.dtype = torch.float32 if device.type == "mps" else torch.float64
        self.sums: dict[str, Tensor] = defaultdict(lambda: torch.zeros((), dtype=self.dtype, device=device))

    def add_plan(self, part: Plan, measures: Mapping[str, Tensor] = _NOTHING, whole: Plan | None = None) -> None:
        """Counts what is settled in a plan, of some of its rows; tokens and mass are those of `whole`, unless None."""
        batch = (whole or part).batch
        self.sums["tokens"] += batch.mask.sum()
        self.sums["mass"] += batch.advantage.abs().sum()
        self._count(part, part.touched, part.touched, measures)
        # All processes have the same sums, even those none of whose rows have a gradient.
        nothing = part.batch.advantage[:0]
        of_nothing = {name: values[:0] for name, values in measures.items()}
        self.add_rows(part.rows(slice(0), nothing.shape[1]), nothing, nothing.sum(), of_nothing)

    def add_rows(self, part: Plan, logp: Tensor, loss: Tensor, measures: Mapping[str, Tensor] = _NOTHING) -> None:
        """Counts the loss of a micro-batch, and what the clip and its modifiers touched there at `logp` [n, t].

        `measures` [n, t] or wider are summed over touched tokens.
        """
        self.sums["loss"] += loss
        touched = self.objective.touched(part, slice(None), logp)
        late = [name for name in touched if name not in part.touched]
        self._count(part, touched, late, measures)

    def add_kl(self, part: Plan, logp: Tensor) -> None:
        """Counts the KL to the reference of a micro-batch's tokens at `logp` [n, t]; nothing without a reference."""
        if part.batch.logp_ref is not None:
            width = logp.shape[1]
            difference = (part.batch.logp_ref[:, :width] - logp)[part.batch.mask[:, :width]]
            self.sums["kl"] += k3(difference).sum()

    def totals(self, reduce: Callable[[Tensor, str], Tensor]) -> dict[str, float]:
        """The sums of all processes; `reduce` adds up those of each, a tensor and the word "sum"."""
        names = sorted(self.sums)
        return dict(zip(names, reduce(torch.stack([self.sums[name] for name in names]), "sum").tolist(), strict=True))

    def _count(
        self, part: Plan, touched: Mapping[str, Tensor], names: Iterable[str], measures: Mapping[str, Tensor]
    ) -> None:
        measures = {"mass": part.batch.advantage.abs(), **measures}
        counted: set[str] = set()
        for name in names:
            tokens, width = touched[name], touched[name].shape[1]
            self.sums[f"touched/{name}/tokens"] += tokens.sum()
            for measure, values in measures.items():
                self.sums[f"touched/{name}/{measure}"] += (values[:, :width] * tokens).sum(dtype=self.dtype)
            counted.add(name)
            for other in touched.keys() - counted if self.overlaps else ():
                both = (tokens & touched[other]).sum()
                self.sums[f"touched/{name}/overlap/{other}"] += both
                self.sums[f"touched/{other}/overlap/{name}"] += both


def k3(difference: Tensor) -> Tensor:
    """[n] log-ratios -> r - 1 - log r, unbiased of the KL (k3: Schulman, "Approximating KL Divergence", 2020)."""
    return difference.expm1() - difference


def normalise(sums: Mapping[str, float]) -> dict[str, float]:
    """Of summed numbers: each part's share of tokens and of mass, means over what it touched, means per token.

    `loss` is left as it is; what is a mean over nothing is left out.
    """
    rest = dict(sums)
    whole = {"tokens": max(1.0, rest.pop("tokens", 0.0)), "mass": rest.pop("mass", 0.0) or 1.0}
    divided = {}
    for name, value in rest.items():
        divisor = 1.0 if name == "loss" else whole["tokens"]
        if name.startswith("touched/"):
            _, part, measure = name.split("/", 2)
            divisor = whole.get(measure, rest[f"touched/{part}/tokens"])
        if divisor:
            divided[name] = value / divisor
    return divided
