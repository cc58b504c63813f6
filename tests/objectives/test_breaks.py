"""Every method, broken in one place, is caught: the comparison with the references fails for each break below.

`pytest -rP tests/objectives/test_breaks.py` (or this file as a script) prints what was broken and what caught it.
"""

import importlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from references import COMPOSITIONS, RECIPES, Method, reference

import objectives
from objectives import Objective
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import error, largest_error

BREAK = 1e-6
"""An error above this is a break; rounding is far below it."""


class Break(NamedTuple):
    """One text in one file of the package, and the text that replaces it."""

    method: str
    kind: str
    what: str
    file: str
    old: str
    new: str


CENTRED = "group_centred(reward, index, groups)"
K3 = "torch.expm1(-difference) + difference"
OLD = 'batch.require("logp_old", self.name).exp()'
ANCHOR = "logp.detach() if rows.logp_old is None"
TOKENS = "group_sum(counted.sum(1), pool, pools)"
SHARE = 'share = responses > 0 if self.scope == "prompt" else responses'
QUANTILE = "(entropy < quantile(entropy[pool], self.q))"
DENOMINATOR = 'return self.denominator == "kept"'
BREAKS = [
    Break("grpo", "sign", "mean minus reward", "grpo.py", CENTRED, f"-({CENTRED})"),
    Break("grpo", "sign", "KL's log-ratio reversed", "grpo.py", K3, "torch.expm1(difference) - difference"),
    Break(
        "grpo",
        "strictness",
        "ratio on the upper bound clipped",
        "ppo.py",
        "(ratio > 1 + bounds.high)",
        "(ratio >= 1 + bounds.high)",
    ),
    Break(
        "grpo",
        "strictness",
        "ratio on the lower bound clipped",
        "ppo.py",
        "(ratio < 1 - bounds.low)",
        "(ratio <= 1 - bounds.low)",
    ),
    Break("grpo", "denominator", "std with ddof 0", "grpo.py", "(size - 1)", "size"),
    Break("grpo", "denominator", "1e-4 added to the std", "grpo.py", "parameter(1e-6,", "parameter(1e-4,"),
    Break(
        "grpo",
        "denominator",
        "divides by the longest response",
        "grpo.py",
        "counted.sum(1, keepdim=True)",
        "counted.sum(1).amax()",
    ),
    Break(
        "grpo",
        "denominator",
        "counts empty responses",
        "grpo.py",
        "batch.mask.any(1).sum()",
        "(batch.mask.sum(1) >= 0).sum()",
    ),
    Break("grpo", "detach", "ratio against itself, not detached", "ppo.py", ANCHOR, "logp if rows.logp_old is None"),
    Break(
        "grpo", "detach", "value of k3, gradient of k1", "grpo.py", K3, "torch.expm1(-difference).detach() + difference"
    ),
    Break(
        "grpo",
        "scope",
        "statistics of the batch, not of the group",
        "groups.py",
        "return index, len(names)",
        "return index * 0, 1",
    ),
    Break(
        "grpo",
        "zero",
        "equal rewards left to rounding",
        "groups.py",
        "centred.where(centred.abs() > rounding[index], 0.0)",
        "centred",
    ),
    Break(
        "dapo",
        "sign",
        "long responses rewarded",
        "dapo.py",
        "(limit - cache - length) / cache",
        "(length - limit + cache) / cache",
    ),
    Break("dapo", "strictness", "a quarter of the limit, not a fifth", "dapo.py", "limit / 5\n", "limit / 4\n"),
    Break(
        "dapo",
        "denominator",
        "padding counted",
        "dapo.py",
        TOKENS,
        "group_sum(torch.ones_like(counted).sum(1), pool, pools)",
    ),
    Break("dapo", "scope", "mean over each prompt", "dapo.py", 'parameter("minibatch", (', 'parameter("prompt", ('),
    Break("dapo", "scope", "micro-batches weigh the same", "dapo.py", SHARE, "share = responses > 0"),
    Break(
        "dapo",
        "scope",
        "groups judged by their rewards",
        "dapo.py",
        'batch.require("correct", self.name)',
        'batch.require("reward", self.name)',
    ),
    Break(
        "dapo",
        "bound",
        "lower bound moved as well",
        "dapo.py",
        "Bounds(bounds.low, self.high,",
        "Bounds(self.high, self.high,",
    ),
    Break(
        "entropy20", "sign", "lowest entropies kept", "entropy20.py", "(entropy >= threshold)", "(entropy <= threshold)"
    ),
    Break("entropy20", "strictness", "ties dropped", "entropy20.py", "(entropy >= threshold)", "(entropy > threshold)"),
    Break("entropy20", "strictness", "share rounded down", "entropy20.py", "math.ceil(", "math.floor("),
    Break("entropy20", "denominator", "silenced tokens counted", "entropy20.py", DENOMINATOR, "return False"),
    Break(
        "entropy20",
        "scope",
        "threshold per micro-batch",
        "entropy20.py",
        "over_scope(batch, self.scope,",
        'over_scope(batch, "microbatch",',
    ),
    Break(
        "entropy20",
        "scope",
        "entropies of the rollouts",
        "entropy20.py",
        'parameter("current", (',
        'parameter("old", (',
    ),
    Break(
        "justrl",
        "sign",
        "lower bound on rewarded tokens",
        "ppo.py",
        "(advantage < 0) & ((ratio < 1",
        "(advantage > 0) & ((ratio < 1",
    ),
    Break(
        "justrl",
        "denominator",
        "divides by the responses",
        "dapo.py",
        TOKENS,
        "group_sum(batch.mask.any(1).long(), pool, pools)",
    ),
    Break("justrl", "bound", "authors' dual clip at 3", "justrl.py", "DualClip(cap=10.0)", "DualClip()"),
    Break("justrl", "bound", "upper bound not raised", "dapo.py", "parameter(0.28,", "parameter(0.2,"),
    Break("justrl", "detach", "anchored to the current policy", "ppo.py", ANCHOR, "logp.detach() if True"),
    Break(
        "advantage_reweighting",
        "sign",
        "probable tokens attenuated",
        "advantage_reweighting.py",
        ".exp() + (1",
        ".exp() * -1 + (1",
    ),
    Break(
        "advantage_reweighting",
        "sign",
        "only rewarded tokens",
        "advantage_reweighting.py",
        OLD,
        f"{OLD} * (batch.advantage > 0)",
    ),
    Break(
        "advantage_reweighting", "denominator", "renormalised", "advantage_reweighting.py", OLD, f"{OLD} / {OLD}.mean()"
    ),
    Break(
        "advantage_reweighting",
        "scope",
        "current probabilities",
        "advantage_reweighting.py",
        '"logp_old", self',
        '"logp", self',
    ),
    Break(
        "advantage_reweighting",
        "bound",
        "authors' KL not clamped",
        "advantage_reweighting.py",
        "clamp=5.0",
        "clamp=none".replace("none", "None"),
    ),
    Break(
        "lopti",
        "sign",
        "high tokens first",
        "lopti.py",
        "batch.mask & self._low(batch)",
        "batch.mask & ~self._low(batch)",
    ),
    Break(
        "lopti",
        "strictness",
        "boundary in the low group",
        "lopti.py",
        "probability < torch.tensor(",
        "probability <= torch.tensor(",
    ),
    Break(
        "lopti",
        "denominator",
        "divides by the pass's tokens",
        "objective.py",
        "(batch, counted)",
        "(batch, _only(counted, batch.policy_mask))",
    ),
    Break(
        "lopti",
        "scope",
        "both passes regularise all tokens",
        "lopti.py",
        "penalty_mask=group",
        "penalty_mask=batch.mask",
    ),
    Break("lopti", "scope", "split by the current policy", "lopti.py", '"logp_old", self', '"logp", self'),
    Break(
        "lopti",
        "detach",
        "old log-probs taken anew for a pass",
        "ppo.py",
        ANCHOR,
        "logp.detach() if rows.policy_mask is not None",
    ),
    Break("stare", "sign", "least surprising tokens", "stare.py", "surprisal = -batch", "surprisal = batch"),
    Break(
        "stare",
        "sign",
        "gate inverted",
        "stare.py",
        "float(entropy < self.target_entropy)",
        "float(entropy > self.target_entropy)",
    ),
    Break(
        "stare",
        "strictness",
        "gate open on its target",
        "stare.py",
        "float(entropy < self.target_entropy)",
        "float(entropy <= self.target_entropy)",
    ),
    Break(
        "stare",
        "strictness",
        "A = 0 is a candidate",
        "stare.py",
        "batch.mask & (advantage > 0)",
        "batch.mask & (advantage >= 0)",
    ),
    Break("stare", "strictness", "share rounded down", "stare.py", "math.ceil(", "math.floor("),
    Break(
        "stare",
        "denominator",
        "weights renormalised",
        "stare.py",
        "        return weight\n",
        "        return weight / weight[batch.mask].mean()\n",
    ),
    Break(
        "stare", "scope", "set within each micro-batch", "stare.py", 'parameter("batch", (', 'parameter("microbatch", ('
    ),
    Break("stare", "scope", "current surprisal", "stare.py", 'parameter("old", (', 'parameter("current", ('),
    Break("stapo", "sign", "punished tokens silenced", "stapo.py", "(advantage > 0)", "(advantage < 0)"),
    Break("stapo", "sign", "high entropies silenced", "stapo.py", QUANTILE, QUANTILE.replace("<", ">")),
    Break("stapo", "strictness", "ties at the quantile silenced", "stapo.py", QUANTILE, QUANTILE.replace("<", "<=")),
    Break("stapo", "denominator", "silenced tokens counted", "stapo.py", DENOMINATOR, "return False"),
    Break("stapo", "scope", "quantile over all tokens", "stapo.py", "entropy[pool]", "entropy[batch.mask]"),
    Break(
        "stapo",
        "scope",
        "quantile per micro-batch",
        "stapo.py",
        "over_scope(batch, self.scope,",
        'over_scope(batch, "microbatch",',
    ),
    Break("stapo", "scope", "statistics of the rollouts", "stapo.py", 'parameter("current", (', 'parameter("old", ('),
]


@contextmanager
def broken(change: Break) -> Iterator[Callable[[str], Objective]]:
    """The `parse` of a copy of the package with one text replaced."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "objectives"
        shutil.copytree(Path(objectives.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        (file,) = package.rglob(change.file)
        source = file.read_text()
        assert source.count(change.old) == 1, f"{change.file} no longer has {change.old!r} once: update this break"
        file.write_text(source.replace(change.old, change.new))
        ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "objectives"}
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        try:
            yield importlib.import_module("objectives").parse
        finally:
            sys.path.remove(folder)
            for name in [name for name in sys.modules if name.split(".")[0] == "objectives"]:
                del sys.modules[name]
            sys.modules.update(ours)


def caught_by(method: str, read: Callable[[str], Objective], seeds: range = range(60)) -> str:
    """The first comparison of the method's variants and compositions that fails; empty if none does."""
    methods = {name: value for name, value in (RECIPES | COMPOSITIONS).items() if name.startswith(method)}
    for seed in seeds:
        for expression, value in methods.items():
            try:
                worst = largest_error(expression, value, [seed], torch.float64, read)
                first = error_of_the_first_update(expression, value, seed, read)
            except Exception as problem:
                return f"{expression}, batch {seed}: {type(problem).__name__}"
            if worst > BREAK:
                return f"{expression}, batch {seed}: error {worst:.0e}"
            if first > BREAK:
                return f"{expression}, first update of batch {seed}: error {first:.0e}"
    return ""


def error_of_the_first_update(expression: str, method: Method, seed: int, read: Callable[[str], Objective]) -> float:
    """The error where the policy has not moved and the old log-probs are not calculated unless something needs them."""
    objective, case = read(expression), random_case(seed, moved=False)
    if "logp_old" in objective.requires(updates=1):
        return 0.0
    batch = token_batch(case)
    batch = batch.with_fields(logp=batch.logp_old, entropy=batch.entropy_old, logp_old=None)
    return error(objective.token_gradients(batch), reference(method, case))


@pytest.mark.parametrize("change", BREAKS, ids=lambda change: f"{change.method}-{change.what}".replace(" ", "_"))
def test_a_broken_method_is_caught(change: Break) -> None:
    with broken(change) as read:
        caught = caught_by(change.method, read)
    print(f"{change.method:22s} {change.kind:12s} {change.what:42s} {caught or 'NOT CAUGHT'}")
    assert caught


@pytest.mark.parametrize("method", sorted({change.method for change in BREAKS}))
def test_an_unbroken_copy_is_not_caught(method: str) -> None:
    with broken(Break(method, "", "", "grpo.py", "torch.expm1(", "torch.expm1(")) as read:
        assert caught_by(method, read, range(5)) == ""


def test_every_method_is_broken_in_several_ways() -> None:
    for method in {name.split("(")[0] for name in RECIPES}:
        assert len({change.kind for change in BREAKS if change.method == method}) >= 3


if __name__ == "__main__":
    for one in BREAKS:
        test_a_broken_method_is_caught(one)
