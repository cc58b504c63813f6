"""The expressions that tests run over: every variant, every part alone, and some pairs of recipes."""

from collections.abc import Iterable
from itertools import permutations

from objectives import ObjectiveError, parse
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
    """Expressions that can learn from `group` responses per prompt, set so that they can."""
    fitted = {
        expression: "+".join(SET_FOR_SMALL_GROUPS.get(term, term) for term in expression.split("+"))
        for expression in expressions
    }
    return [new if parse(old).learning_group > group else old for old, new in fitted.items()]


def _pairs() -> tuple[list[str], list[str]]:
    """Every recipe on every other: those that go together, and those that are refused."""
    together, refused = [], []
    for base, addition in permutations(RECIPES, 2):
        expression = f"{base}+{addition}"
        try:
            parse(expression)
            together.append(expression)
        except ObjectiveError:
            refused.append(expression)
    return together, refused


PAIRS, REFUSED_PAIRS = _pairs()
SAMPLE_PAIRS = PAIRS[::11]
"""Of every base some additions, and of every addition some bases; the night has every pair."""
SAMPLE = [*VARIANTS, *PARTS, *SAMPLE_PAIRS]
