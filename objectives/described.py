"""What a page about an objective needs beyond `Objective.describe`: how it pushes, and what goes with it."""

import re
from typing import Any

from objectives.batch import TokenBatch
from objectives.errors import ObjectiveError
from objectives.expression import read_terms
from objectives.kinds import Modifier, Ratio, Surrogate
from objectives.latex import latex
from objectives.lazy import torch
from objectives.objective import Objective, parse
from objectives.part import Stage
from objectives.zoo import PARTS, RECIPES, Recipe, lookup

RATIOS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.28, 1.5, 2.0, 3.0, 4.0)
OLD_PROBABILITY = 0.2


def described(objective: Objective) -> dict[str, Any]:
    """Its description, and: LaTeX, stages, the push by ratio, papers, departures, what goes with it.

    `departures` are what the recipe that its expression starts from says of the paper, of its code and of itself.
    """
    entry = lookup(read_terms(objective.expression)[0].name)
    return objective.describe() | {
        "latex": latex(objective.equation),
        "stages": [stage.name.lower() for stage in Stage if any(part.stage == stage for part in objective.parts)],
        "push": push_by_ratio(objective),
        "papers": list(dict.fromkeys(part.paper for part in objective.parts if part.paper)),
        "recipe": entry.name if isinstance(entry, Recipe) else "",
        "departures": departures(entry.doc) if isinstance(entry, Recipe) else [],
        **company(objective),
    }


def push_by_ratio(objective: Objective) -> dict[str, list[float]]:
    """The factor of a token's log-prob gradient for an advantage of 1 and of -1, before denominators, by its ratio.

    Of responses of one token, of probability 0.2 when sampled, by ratio, surrogate and its bounds alone.
    """
    kept = tuple(part for part in objective.parts if isinstance(part, Ratio | Surrogate | Modifier))
    rest = tuple(part for part in parse("grpo+seq_sum-kl").parts if not isinstance(part, Ratio | Surrogate))
    alone, count = Objective((*rest, *kept)), 2 * len(RATIOS)
    ratio = torch.tensor(RATIOS * 2, dtype=torch.float64)[:, None]
    sign = torch.tensor([1.0] * len(RATIOS) + [-1.0] * len(RATIOS), dtype=torch.float64)
    old = torch.full_like(ratio, OLD_PROBABILITY).log()
    batch = TokenBatch(
        mask=torch.ones_like(ratio, dtype=torch.bool),
        group=torch.zeros(count, dtype=torch.long),
        reward=sign,
        correct=(sign > 0).double(),
        advantage=sign,
        max_length=1,
        logp_old=old,
        logp_sampler=old,
        logp=old + ratio.log(),
        entropy=torch.ones_like(ratio),
        entropy_old=torch.ones_like(ratio),
        micro_batch=torch.zeros(count, dtype=torch.long),
    )
    (push,) = alone.token_gradients(batch)
    good, bad = (push[:, 0] * count).round(decimals=6).add(0.0).split(len(RATIOS))
    return {"ratio": [*RATIOS], "positive": good.tolist(), "negative": bad.tolist()}


def departures(doc: str) -> list[str]:
    """The sentences of a method's docstring that say what the paper leaves open, what is left out or done otherwise."""
    starts = r"(?:Open|Deviations|Left out|Variant\s+\w+)"
    paragraphs = re.findall(rf"^{starts}.*?(?=^{starts}|^\s*$|\Z)", doc + "\n", re.MULTILINE | re.DOTALL)
    return [" ".join(paragraph.split()) for paragraph in paragraphs]


def company(objective: Objective) -> dict[str, Any]:
    """Which parts may be added, whose place each then takes, and which may not, with the reason."""
    adds, replaces, excludes = [], {}, {}
    names = {part.name for part in objective.parts}
    for name, part in sorted(PARTS.items()):
        if name in names or part.origin or (name in RECIPES and name not in RECIPES[name].contribution):
            continue
        asked = [item for item in part.__dataclass_fields__ if str(part.__dataclass_fields__[item].default) == "?"]
        term = name + (f"({','.join(f'{item}=0.1' for item in asked)})" if asked else "")
        try:
            gone = names - {part.name for part in parse(f"{objective.expression}+{term}").parts}
        except ObjectiveError as error:
            excludes[name] = str(error)
            continue
        if gone:
            replaces[name] = sorted(gone)
        else:
            adds.append(name)
    return {"combines_with": adds, "replaces": replaces, "excludes": excludes}
