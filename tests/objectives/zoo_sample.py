"""The expressions that tests run over, so that their number does not grow with the square of the recipes.

What a part may do to the others is its signature: its stage and what it says of itself there. `SAMPLE` is every
variant, every part alone, and as few pairs of recipes as have every two signatures beside each other that any has.
"""

from collections.abc import Iterable
from itertools import combinations, permutations

from objectives import Objective, ObjectiveError, Part, parse
from tests.objectives.zoo_names import PARTS, RECIPES, VARIANTS

SETTINGS = [
    "clip(low=0.1)",
    "clip_higher(high=0.3)",
    "dual_clip(cap=4)",
    "group_norm(eps=1e-4)",
    "group_center",
    "seq_mean",
    "token_mean(scope=prompt)",
    "token_mean(scope=microbatch)",
    "kl(beta=0.001,estimator=k2,clamp=5)",
    "kl(clamp=none)",
    "entropy_bonus(coefficient=-0.01)",
    "adaptive_entropy(start=0.003,target_entropy=0.5)",
    "adaptive_entropy(start=0.003,measured=surprisal,delayed=true)",
    "soft_overlong(max_length=20480,cache=4096)",
    "dynamic_sampling",
    "overlong_filter",
    "advantage_reweighting(alpha=0.1)",
    "surprisal_reweighting(adaptive=true,attenuate=0.9,scope=microbatch,source=current)",
    "surprisal_reweighting(target_entropy=none)",
    "top_entropy(fraction=0.1,source=old,denominator=all)",
    "s2t(tau_p=0.005,q=0.8,scope=microbatch)",
    "lopti(portion=0.5,order=high_first)",
    "lopti(eta=0.3)",
    "single_pass",
    "sequence_ratio(norm=sum)",
    "cispo(low=0.2,high=0.2)",
    "unclipped",
    "implicit_negative(eps=0.5)",
    "clip_cov(fraction=0.01,low=0.1)",
    "random_tokens(share=0.4,first=2)",
    "random_tokens(share=0.7,first=1,limit=3)",
    "cov_penalty(beta=0.5,scope=microbatch)",
    "kl_reward(beta=0.01)",
    "global_norm(over=rows)",
    "center_then_global_norm(over=tokens)",
    "constant_length(length=100)",
    "seq_sum",
    "soft_gate(tau_pos=0.5,tau_neg=2)",
    "scaled_center(counts=rewarded,eps=1e-5)",
    "pass_at_k(k=2)",
    "quantile_norm(kind=linear,q=0.6)",
    "entropy_advantage(source=old)",
    "answer_filter(keep=wrong)",
]
"""Parts with other parameters than usual."""

SET_FOR_SMALL_GROUPS = {"passk": "passk(k=2)", "passk(variant=paper)": "passk(k=2)", "pass_at_k": "pass_at_k(k=2)"}


def fitting(group: int, expressions: Iterable[str]) -> list[str]:
    """Those that can learn from so many responses per prompt, set so that they can."""
    fitted = {
        expression: "+".join(SET_FOR_SMALL_GROUPS.get(term, term) for term in expression.split("+"))
        for expression in expressions
    }
    return [new if parse(old).learning_group > group else old for old, new in fitted.items()]


Signature = tuple[str, ...]


def signature(part: Part) -> Signature:
    """The kind of a part, each flag of that kind, which of its optional methods are written, and what its scope is."""
    kind = next(base for base in type(part).__mro__ if base.__module__ == "objectives.kinds")
    said = [f"{name}={_plain(getattr(part, name))}" for name in _flags(kind)]
    written = [name for name, usual in vars(kind).items() if callable(usual) and getattr(type(part), name) is not usual]
    current, cut = bool({"logp", "entropy"} & part.needs), "micro_batch" in part.needs
    return (kind.__name__, *sorted(said), *sorted(written), f"{current=}", f"{cut=}")


def _flags(kind: type[Part]) -> list[str]:
    return [
        name
        for name in {**vars(kind), **kind.__annotations__}
        if not name.startswith("_") and not callable(vars(kind).get(name))
    ]


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, frozenset) else value


def meetings(base: str, addition: str, objective: Objective) -> set[object]:
    """What a pair of recipes has beside each other, and that it has these two."""
    signatures = sorted({signature(part) for part in objective.parts})
    return {*combinations(signatures, 2), ("base", base), ("addition", addition)}


def _pairs() -> tuple[dict[str, set[object]], list[str]]:
    parsed, refused = {}, []
    for base, addition in permutations(RECIPES, 2):
        expression = f"{base}+{addition}"
        try:
            parsed[expression] = meetings(base, addition, parse(expression))
        except ObjectiveError:
            refused.append(expression)
    return parsed, refused


def _cover(parsed: dict[str, set[object]]) -> list[str]:
    """The pairs that each add the most meetings to those before, until there are no others."""
    left, chosen = dict(parsed), []
    while True:
        best = max(left, key=lambda expression: len(left[expression]))
        if not left[best]:
            return sorted(chosen)
        chosen.append(best)
        new = left[best]
        left = {expression: found - new for expression, found in left.items()}


_PARSED, REFUSED_PAIRS = _pairs()
PAIRS = list(_PARSED)
"""Every recipe on every other, where they go together."""
SAMPLE_PAIRS = _cover(_PARSED)
SAMPLE = [*VARIANTS, *PARTS, *SAMPLE_PAIRS]
