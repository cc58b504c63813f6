"""Runs other people's functions on the batches of this package and writes what they give into `vectors.json`.

    python -m tests.objectives.sources.make FOLDER [EXPRESSION ...]

All, or those of these expressions. FOLDER has a git directory `OWNER+NAME/repo` for each repository in
`functions.json`, or, of one that is too large, the file `OWNER+NAME/COMMIT/PATH`.
Functions are taken as they stand at the commit, without decorators and annotations; what they call is either from the
same file or stands in here. Of a method that needs its whole trainer, lines are taken: `106-142`.
"""

import ast
import asyncio
import json
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import CodeType, SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from tests.objectives.sources import authors, frameworks, losses, papers, verl_losses
from tests.objectives.sources.batches import SEEDS, projected, source_case
from tests.objectives.sources.losses import Loss, masked_mean

MODULES = (losses, verl_losses, frameworks, papers, authors)
CHECKS: dict[str, Loss] = {name: loss for module in MODULES for name, loss in module.CHECKS.items()}
"""Variant -> how the functions that it is held against are called."""
FUNCTIONS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("functions.json").read_text())
"""Variant -> the functions, and their repository, commit and path; of a whole trainer lines."""
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Lines:
    """Statements out of a method, called with what their names stand for; gives what these are afterwards."""

    code: CodeType

    def __call__(self, /, **given: Any) -> SimpleNamespace:
        names = {"torch": torch, "F": torch.nn.functional, **given}
        exec(self.code, names)
        return SimpleNamespace(**names)


def source(folder: Path, repository: str, commit: str, path: str, names: list[str]) -> SimpleNamespace:
    """Functions, classes and methods of a file at a commit, by name; `lines_106_142` of `106-142`."""
    text = _text(folder / repository.replace("/", "+"), commit, path)
    found: dict[str, Any] = {
        "torch": torch,
        "np": np,
        "nn": torch.nn,
        "F": torch.nn.functional,
        "defaultdict": defaultdict,
        "round": round,
        "masked_mean": masked_mean,
        "verl_F": SimpleNamespace(masked_mean=masked_mean, masked_sum=lambda v, m, axis=None: (v * m).sum()),
        "get_ratio_stats": lambda *given: {},
        "AlgoConfig": int,
        "AbstractRewardManager": NoModelScores,
        "PolicyLossFn": OfTrinity,
        "aggregate_loss": lambda values, mask, loss_agg_mode: masked_mean(values, mask),
        **LIBRARIES,
        "LossCalculator": SimpleNamespace(OTM="only-token-mean", TM="", SMTS="", SMTM="", SMTSN=""),
        "print": lambda *given: None,
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Definition) and node.name in names:
            _plain(node)
            exec(compile(ast.Module([node], []), path, "exec"), found)
    for first, last in re.findall(r"\b(\d+)-(\d+)\b", " ".join(names)):
        statements = dedent("\n".join(text.splitlines()[int(first) - 1 : int(last)]))
        found[f"lines_{first}_{last}"] = Lines(compile(statements, path, "exec"))
    wanted = [re.sub(r"^(\d+)-(\d+)$", r"lines_\1_\2", name) for name in names]
    return SimpleNamespace(**{name: found[name] for name in wanted})


def _text(folder: Path, commit: str, path: str) -> str:
    if (alone := folder / commit / path).exists():
        return alone.read_text()
    words = ["git", "--git-dir", str(folder / "repo"), "show", f"{commit}:{path}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class NoModelScores:
    """What a reward manager of verl is made of, where no model has scored the answers."""

    def _extract_reward_from_rm_scores(self, data: Any, return_dict: bool) -> None:
        return None


class OfTrinity:
    """What a loss of Trinity-RFT is made of."""

    def __init__(self, backend: str) -> None:
        self.backend = backend


LIBRARIES = {
    "asyncio": asyncio,
    "cast": cast,
    "safezip": zip,
    "tinker": SimpleNamespace(TensorData=SimpleNamespace(from_torch=lambda values: values)),
    "jnp": SimpleNamespace(asarray=lambda values: values, where=lambda *given: torch.from_numpy(np.where(*given))),
    "jax": SimpleNamespace(
        nn=SimpleNamespace(
            sigmoid=torch.sigmoid,
            softmax=lambda values, axis: values.softmax(axis),
            log_softmax=lambda values, axis: values.log_softmax(axis),
        ),
        lax=SimpleNamespace(stop_gradient=lambda values: values.detach()),
    ),
}
"""Of these, what the functions call. Tensors are torch's, but scores are numpy's: its std has ddof 0, as jax's."""


def _plain(node: Definition) -> None:
    node.decorator_list = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            inner.returns, arguments = None, inner.args
            for argument in [*arguments.args, *arguments.kwonlyargs, *arguments.posonlyargs]:
                argument.annotation = None


def vectors(folder: Path, expression: str) -> list[list[float]]:
    """The projections of the source's push on every batch, those of one optimiser step behind those of another."""
    loss, its = CHECKS[expression], _together([source(folder, **file) for file in FUNCTIONS[expression]])
    rows: list[list[float]] = []
    for seed in SEEDS:
        case = source_case(seed, expression)
        logp = torch.from_numpy(case.current.copy()).requires_grad_()
        entropy = torch.from_numpy(case.current_entropy.copy()).requires_grad_()
        steps = loss(its, case, logp, entropy)
        rows.append([])
        for step in steps if isinstance(steps, list) else [steps]:
            gradients = torch.autograd.grad(step, (logp, entropy), allow_unused=True)
            by_logp, by_entropy = (np.zeros(case.mask.shape) if it is None else -it.numpy() for it in gradients)
            rows[-1] += projected(case, seed, by_logp, by_entropy)
    return rows


def _together(parts: list[SimpleNamespace]) -> SimpleNamespace:
    names: dict[str, Any] = {}
    for part in parts:
        names |= vars(part)
    for function in names.values():
        getattr(function, "__globals__", {}).update(names)
    return SimpleNamespace(**names)


def main() -> None:
    """Writes `vectors.json`."""
    torch.set_default_dtype(torch.float64)
    folder = Path(sys.argv[1])
    where, wanted = Path(__file__).with_name("vectors.json"), sys.argv[2:] or CHECKS
    kept = json.loads(where.read_text()) if sys.argv[2:] else {}
    made = kept | {expression: vectors(folder, expression) for expression in wanted}
    made = {expression: made[expression] for expression in CHECKS if expression in made}
    where.write_text(json.dumps(made, indent=None, separators=(",", ":")).replace("]],", "]],\n") + "\n")


if __name__ == "__main__":
    main()
