"""Which rule finds the planted useless token, and which objective feeds it.

    python benchmarks/spurious/spurious.py detect                   prints a table; nothing is trained
    python benchmarks/spurious/spurious.py train GRID OUTPUT.png    prints a table of a finished grid, and draws

The truth is known: `_` in configs/planted_arithmetic.yaml is worth nothing, `*` is worth its reward
(rlzoo/tasks/planted_arithmetic.py).
"""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from scipy import stats
from sklearn.metrics import average_precision_score, precision_recall_fscore_support
from torch import Tensor

from objectives import TokenBatch, parse
from objectives.stapo import S2T
from rlzoo.checkpoint import checkpoints
from rlzoo.config import ModelConfig, load_config
from rlzoo.experiment import check
from rlzoo.finished_runs import FinishedRun, read_runs
from rlzoo.policy import Policy, load_policy
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.statistics import mean_over_runs
from rlzoo.tasks.base import Problem
from rlzoo.tasks.planted_arithmetic import USEFUL, USELESS, PlantedArithmetic
from rlzoo.tokenizer import Tokenizer, load_tokenizer

CONFIG = "configs/planted_arithmetic.yaml"
SEEDS = (0, 1, 2)
MINIBATCHES = 48
TAU_P = S2T().tau_p


# ---- detection -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokens:
    """[M] response tokens with a positive advantage, and the rules' marks on them."""

    useless: np.ndarray
    useful: np.ndarray
    logp: np.ndarray
    entropy: np.ndarray
    marks: dict[str, np.ndarray]


MARKED_BY = {
    "s2t": "justrl+s2t",
    "top_entropy": "justrl+top_entropy",
    "lopti": "justrl+lopti",
    "surprisal_reweighting": "justrl+surprisal_reweighting(target_entropy=none)",
}
"""Rules that mark tokens, as objectives whose real plans do so."""


@dataclass(frozen=True)
class Rule:
    """What it does to the tokens that it marks, its marks [M] if it has a set, and its score [M]."""

    name: str
    effect: str
    marks: Callable[[Tokens], np.ndarray] | None
    score: Callable[[Tokens], np.ndarray]


def _s2t_score(tokens: Tokens) -> np.ndarray:
    """S2T ranks the rare tokens by entropy, and q is how many it takes; all others it never takes."""
    return np.where(tokens.logp < np.log(TAU_P), -tokens.entropy, -np.inf).clip(min=-1e3)


RULES = (
    Rule("S2T, its pool a mini-batch", "silences", lambda it: it.marks["s2t"], _s2t_score),
    Rule("S2T, its pool the whole sample", "silences", lambda it: it.marks["s2t of all"], _s2t_score),
    Rule("p < 0.002 alone", "-", lambda it: it.logp < np.log(TAU_P), lambda it: -it.logp),
    Rule("20-Entropy's lower 80 %", "silences", lambda it: it.marks["top_entropy"], lambda it: -it.entropy),
    Rule("Advantage Reweighting's weight", "damps", None, lambda it: -np.exp(it.logp)),
    Rule(
        "Lopti's low group", "updates first", lambda it: it.marks["lopti"], lambda it: it.marks["lopti"].astype(float)
    ),
    Rule("STARE's 10 %", "amplifies", lambda it: it.marks["surprisal_reweighting"], lambda it: -it.logp),
    Rule("-log p - H, for reference", "-", None, lambda it: -it.logp - it.entropy),
)


def sample(seed: int) -> Tokens:
    """Rollouts of the starting policy, in mini-batches as a training run has them."""
    config = load_config([CONFIG, f"seed={seed}", "objective=justrl"])
    experiment = check(config)
    engine = TransformersEngine(load_policy(config.model, experiment.tokenizer), experiment.tokenizer)
    count, responses = config.rollout.prompts_per_step, config.rollout.responses_per_prompt
    parts = []
    for number in range(MINIBATCHES):
        problems = experiment.problems(number * count, count)
        prompts = [experiment.tokenizer.encode(problem.prompt) for problem in problems]
        sampling = Sampling(config.rollout.max_response_tokens)
        rollouts = engine.generate(prompts, responses, sampling, seed=1000 * seed + number)
        rows = zip(rollouts.tokens.tolist(), rollouts.lengths.tolist(), strict=True)
        texts = [experiment.tokenizer.decode(row[:length]) for row, length in rows]
        grades = [
            experiment.task.grader(problems[i], "" if cut else text)
            for i, text, cut in zip(rollouts.prompt.tolist(), texts, rollouts.truncated.tolist(), strict=True)
        ]
        batch = TokenBatch(
            mask=rollouts.mask,
            group=rollouts.prompt,
            reward=torch.tensor([grade.reward for grade in grades]),
            correct=torch.tensor([grade.correct for grade in grades]),
            truncated=rollouts.truncated,
            max_length=config.rollout.max_response_tokens,
            **dict.fromkeys(("logp", "logp_old"), rollouts.logp),
            **dict.fromkeys(("entropy", "entropy_old"), rollouts.entropy),
        )
        parts.append(_rewarded(batch, rollouts.tokens, experiment.tokenizer))
    return _joined(parts)


def _rewarded(batch: TokenBatch, ids: Tensor, tokenizer: Tokenizer) -> Tokens:
    marks = {}
    for part, expression in MARKED_BY.items():
        objective = parse(expression)
        prepared = objective.prepare(batch)
        marks[part] = objective.plan(objective.passes(prepared)[0]).touched[part]
    advantage = parse("justrl").prepare(batch).require("advantage", "benchmark")
    where = batch.mask & (advantage > 0)
    useless, useful = (ids == _id(tokenizer, token) for token in (USELESS, USEFUL))
    assert batch.logp is not None and batch.entropy is not None
    values = [value[where].numpy() for value in (useless, useful, batch.logp, batch.entropy)]
    return Tokens(*values, {name: mark[where].numpy() for name, mark in marks.items()})


def _id(tokenizer: Tokenizer, token: str) -> int:
    return int(tokenizer.encode(token)[0])


def _joined(parts: Sequence[Tokens]) -> Tokens:
    columns = [
        np.concatenate([getattr(part, name) for part in parts]) for name in ("useless", "useful", "logp", "entropy")
    ]
    marks = {name: np.concatenate([part.marks[name] for part in parts]) for name in parts[0].marks}
    logp, entropy = (torch.from_numpy(column)[None] for column in columns[2:])
    every = torch.ones_like(logp, dtype=torch.bool)
    whole = TokenBatch(mask=every, logp=logp, entropy=entropy, advantage=every.float())
    marks["s2t of all"] = (~S2T().keeps(whole))[0].numpy()
    return Tokens(*columns, marks)


def detect() -> None:
    """Prints what the sample holds, and how each rule does on it."""
    samples = [sample(seed) for seed in SEEDS]
    print("| rewarded tokens | how many | p < 0.002 | mean p | mean H (nats) |\n|---|---|---|---|---|")
    for name, chosen in (
        ("useless `_`", lambda it: it.useless),
        ("useful `*`", lambda it: it.useful),
        ("all others", lambda it: ~(it.useless | it.useful)),
    ):
        probability, entropy = (
            np.concatenate([value(it)[chosen(it)] for it in samples])
            for value in (lambda it: np.exp(it.logp), lambda it: it.entropy)
        )
        rare = (probability < TAU_P).mean()
        print(f"| {name} | {len(probability):,} | {rare:.2%} | {probability.mean():.4f} | {entropy.mean():.3f} |")
    print("\n| rule | what it does | precision | recall | average precision | share of `*` marked |")
    print("|---|---|---|---|---|---|")
    for rule in RULES:
        found = [_found(rule, it) for it in samples]
        print(
            f"| {rule.name} | {rule.effect} | "
            + " | ".join(_interval(values) for values in zip(*found, strict=True))
            + " |"
        )


def _found(rule: Rule, tokens: Tokens) -> tuple[float, float, float, float]:
    """Precision, recall and average precision for the useless token; the share of useful ones marked with it."""
    average = float(average_precision_score(tokens.useless, rule.score(tokens)))
    if rule.marks is None:
        return np.nan, np.nan, average, np.nan
    marks = rule.marks(tokens)
    precision, recall, _, _ = precision_recall_fscore_support(tokens.useless, marks, average="binary", zero_division=0)
    return float(precision), float(recall), average, float(marks[tokens.useful].mean())


def _interval(values: Sequence[float], form: str = ".3f") -> str:
    """Mean and half width of Student's 95 % interval over the seeds."""
    if np.isnan(values).any():
        return "-"
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{np.mean(values):{form}} ± {half:{form}}"


# ---- training --------------------------------------------------------------------------------------------------------


@cache
def places() -> dict[str, list[str]]:
    """Prompts and how far right responses to held-out problems have come where each planted token could stand."""
    task = PlantedArithmetic()
    problems = task.held_out[:512]
    return {
        "useless": [place for problem in problems for place in _behind_numbers(task, problem)],
        "useful": [str(problem.prompt) for problem in problems],
    }


def _behind_numbers(task: PlantedArithmetic, problem: Problem) -> list[str]:
    prompt, right = str(problem.prompt), super(PlantedArithmetic, task).demonstration(problem, random.Random(0))
    ends = [right.index("-"), right.index("="), len(right)]
    return [prompt + right[:end] for end in ends]


def probabilities(model: str) -> dict[str, float]:
    """The mean probability of each planted token at its places."""
    tokenizer = load_tokenizer(ModelConfig(name=model))
    policy = load_policy(ModelConfig(name=model), tokenizer)
    return {
        "useless": _probability(policy, tokenizer, places()["useless"], USELESS),
        "useful": _probability(policy, tokenizer, places()["useful"], USEFUL),
    }


@torch.no_grad()
def _probability(policy: Policy, tokenizer: Tokenizer, texts: Sequence[str], token: str) -> float:
    tokens = torch.full((len(texts), 1), _id(tokenizer, token))
    return policy([tokenizer.encode(text) for text in texts], tokens, tokens >= 0, 1.0).logp.exp().mean().item()


def trajectory(run: FinishedRun) -> list[dict[str, object]]:
    """Probabilities at every checkpoint of a run."""
    saved = {int(path.name.removeprefix("step-")): str(path) for path in checkpoints(run.folder / "checkpoints")}
    models = {0: run.config.model.name, **saved}
    shared = {"objective": run.name, "seed": run.config.seed}
    return [{**shared, "step": step, **probabilities(model)} for step, model in models.items()]


def trained(grid: str, picture: Path) -> None:
    """Prints the table of a grid, and draws the probabilities of both tokens over the steps."""
    runs = read_runs([grid])[0]
    data = pd.DataFrame([row for run in runs for row in trajectory(run)])
    data.to_csv(picture.with_suffix(".csv"), index=False, float_format="%.6g")
    start, last = (data[data.step == step] for step in (0, data.step.max()))
    print(f"before: `_` {start.useless.mean():.5f}, `*` {start.useful.mean():.5f}\n")
    print("| objective | avg@8 | p of useless `_`, times its start | p of useful `*`, times its start |")
    print("|---|---|---|---|")
    for name, rows in last.groupby("objective", sort=False):
        scores = [next(iter(run.evaluations.values())).column("correct") for run in runs if run.name == name]
        accuracy = mean_over_runs(np.stack(scores))
        changes = [_factor(np.log(rows[token] / start[token].mean())) for token in ("useless", "useful")]
        print(f"| `{name}` | {100 * accuracy.mean:.1f} ± {100 * accuracy.half_width:.1f} | {' | '.join(changes)} |")
    _draw(data, picture)


def _factor(logs: Sequence[float]) -> str:
    """A factor with Student's 95 % interval over the seeds, taken of its logarithm."""
    low, high = stats.t.interval(0.95, len(logs) - 1, np.mean(logs), stats.sem(logs))
    return f"{np.exp(np.mean(logs)):.2f} [{np.exp(low):.2f}, {np.exp(high):.2f}]"


def _draw(data: pd.DataFrame, picture: Path) -> None:
    sns.set_theme(style="whitegrid")
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    for axis, token, title in zip(axes, ("useless", "useful"), (f"useless {USELESS}", f"useful {USEFUL}"), strict=True):
        sns.lineplot(
            data,
            x="step",
            y=token,
            hue="objective",
            style="objective",
            markers=True,
            errorbar=None,
            ax=axis,
            legend=token == "useful",
        )
        axis.set(title=f"probability of the {title} at its places", ylabel="", yscale="log")
    axes[1].legend(fontsize=8, title=None, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    if sys.argv[1] == "detect":
        detect()
    else:
        trained(sys.argv[2], Path(sys.argv[3]))
