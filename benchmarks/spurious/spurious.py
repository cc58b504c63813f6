"""Which rule finds the planted useless token, and which objective feeds it.

    python benchmarks/spurious/spurious.py detect                   prints tables; nothing is trained
    python benchmarks/spurious/spurious.py train GRID OUTPUT.png    prints the table of a finished grid, and draws

The truth is known: `_` in configs/planted_arithmetic.yaml is worth nothing, `*` is worth its reward
(rlzoo/lab/planted_arithmetic.py).
"""

import argparse
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
import torch
from scipy import stats
from sklearn.metrics import average_precision_score

from objectives import Loop, TokenBatch, parse
from objectives.methods.tokens import S2T
from rlzoo.comparing.finished_runs import FinishedRun, check_comparable, read_runs
from rlzoo.config import Config, ModelConfig, load_config
from rlzoo.config.decoding import Decoding
from rlzoo.experiment.check import check
from rlzoo.experiment.machine import environment
from rlzoo.experiment.progress import checkpoints
from rlzoo.lab.planted_arithmetic import USEFUL, USELESS, PlantedArithmetic
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts, Sampler
from rlzoo.rollout.transformers_engine import TransformersEngine
from rlzoo.statistics.intervals import mean_over_runs
from rlzoo.tasks.arithmetic import Arithmetic
from rlzoo.tasks.base import Problem
from rlzoo.tasks.grading import GraderPool

CONFIG = Path(__file__).parents[2] / "configs" / "planted_arithmetic.yaml"
MINIBATCHES = 144
RESAMPLES = 200
TAU_P = S2T().tau_p


# ---- detection -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tokens:
    """[M] response tokens with a positive advantage, the mini-batch of each, and the rules' marks on them."""

    minibatch: np.ndarray
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
    """What it does to the tokens that it marks, its marks [M] if it has a set, and its score [M] if it has one."""

    name: str
    effect: str
    marks: Callable[[Tokens], np.ndarray] | None
    score: Callable[[Tokens], np.ndarray] | None


def _s2t_score(tokens: Tokens) -> np.ndarray:
    """S2T ranks the rare tokens by entropy, and q is how many it takes; all others it never takes."""
    return np.where(tokens.logp < np.log(TAU_P), -tokens.entropy, -1e3)


RULES = (
    Rule("S2T, its pool a mini-batch", "masks", lambda it: it.marks["s2t"], None),
    Rule("S2T, its pool the whole sample", "masks", lambda it: it.marks["s2t of all"], _s2t_score),
    Rule("p < 0.002 alone", "-", lambda it: it.logp < np.log(TAU_P), lambda it: -it.logp),
    Rule("20-Entropy's lower 80 %", "masks", lambda it: it.marks["top_entropy"], lambda it: -it.entropy),
    Rule("Advantage Reweighting's weight", "damps", None, lambda it: -it.logp),
    Rule("Lopti's low group", "updates first", lambda it: it.marks["lopti"], None),
    Rule("STARE's 10 %, gate held open", "amplifies", lambda it: it.marks["surprisal_reweighting"], None),
    Rule("-log p - H, for reference", "-", None, lambda it: -it.logp - it.entropy),
)


def rollouts(config: Config, problems: Sequence[Sequence[Problem]]) -> Iterator[GradedRollouts]:
    """Responses of the starting policy to lists of problems, a mini-batch for each list."""
    tokenizer = load_tokenizer(config.model)
    engine = TransformersEngine(load_policy(config.model, tokenizer), tokenizer, config.rollout, config.model)
    with GraderPool(PlantedArithmetic().grader) as graders:
        sampler = Sampler(engine, graders, tokenizer)
        for number, asked in enumerate(problems):
            sampling = Sampling(config.rollout.max_response_tokens)
            yield sampler(asked, config.rollout.responses_per_prompt, sampling, seed=number)


def sample(config: Config) -> Tokens:
    """The rewarded tokens of rollouts in mini-batches as a training run has them."""
    experiment, count = check(config), config.rollout.prompts_per_step
    problems = [experiment.problems(number * count, count) for number in range(MINIBATCHES)]
    parts = [rewarded(it, number, experiment.tokenizer) for number, it in enumerate(rollouts(config, problems))]
    return _with_one_pool(_joined(parts))


def rewarded(graded: GradedRollouts, number: int, tokenizer: Tokenizer) -> Tokens:
    """The tokens of a mini-batch with a positive advantage."""
    found = graded.rollouts
    batch = TokenBatch(
        mask=found.mask,
        group=found.prompt,
        reward=graded.reward,
        correct=graded.correct,
        truncated=found.truncated,
        max_length=found.mask.shape[1],
        **dict.fromkeys(("logp", "logp_old"), found.logp),
        **dict.fromkeys(("entropy", "entropy_old"), found.entropy),
    )
    marks = {}
    for part, expression in MARKED_BY.items():
        step = Loop(parse(expression)).begin(batch)
        marks[part] = step.plan(0).touched[part]
    where = batch.mask & (parse("justrl").prepare(batch).require("advantage", "benchmark") > 0)
    first = torch.arange(where.shape[1]) == 0
    useless, useful = (found.tokens == _id(tokenizer, token) for token in (USELESS, USEFUL))
    values = [value[where].numpy() for value in (useless, useful & first, found.logp, found.entropy)]
    return Tokens(np.full(len(values[0]), number), *values, {name: mark[where].numpy() for name, mark in marks.items()})


def _id(tokenizer: Tokenizer, token: str) -> int:
    return int(tokenizer.encode(token)[0])


def _joined(parts: Sequence[Tokens]) -> Tokens:
    names = ("minibatch", "useless", "useful", "logp", "entropy")
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
    return Tokens(*columns, {name: np.concatenate([part.marks[name] for part in parts]) for name in MARKED_BY})


def _with_one_pool(tokens: Tokens) -> Tokens:
    """With S2T's marks as if the sample were one mini-batch."""
    logp, entropy = (torch.from_numpy(column)[None] for column in (tokens.logp, tokens.entropy))
    every = torch.ones_like(logp, dtype=torch.bool)
    batch = TokenBatch(mask=every, logp=logp, entropy=entropy, advantage=every.float())
    return replace(tokens, marks={**tokens.marks, "s2t of all": (~S2T().keeps(batch))[0].numpy()})


def detect() -> None:
    """Prints what the planted tokens are worth, what the sample holds, and how each rule does on it."""
    config = load_config([str(CONFIG), "objective=justrl"])
    print(f"Commit {environment()['commit']}.\n\n| held-out problems | avg@8 at T=1 |\n|---|---|")
    problems = PlantedArithmetic().held_out[: config.evaluation.problems]
    for name, given in (("as they are", ""), (f"behind `{USEFUL}`", USEFUL)):
        asked = [replace(problem, prompt=f"{problem.prompt}{given}") for problem in problems]
        (graded,) = rollouts(config, [asked])
        print(f"| {name} | {100 * graded.correct.mean():.1f} |")
    _print_endings(config.model.name)
    tokens = sample(config)
    _print_kinds(tokens)
    print("\n| rule | what it does | precision | recall | average precision | share of `*` marked |")
    print("|---|---|---|---|---|---|")
    for rule in RULES:
        print(f"| {rule.name} | {rule.effect} | {' | '.join(_found(rule, tokens))} |")


def _print_endings(model: str) -> None:
    tokenizer = load_tokenizer(ModelConfig(name=model))
    policy, right = load_policy(ModelConfig(name=model), tokenizer), places()["useless"]
    end = tokenizer.backend.eos_token
    ends = [_probability(policy, tokenizer, [text + it for text in right], end) for it in ("", USELESS)]
    print(f"\nBehind a right answer it ends with probability {ends[0]:.4f}, behind that and `_` with {ends[1]:.4f}.")


def _print_kinds(tokens: Tokens) -> None:
    rare = tokens.logp < np.log(TAU_P)
    print(f"\n{len(rare):,} rewarded tokens, {rare.sum() / MINIBATCHES:.1f} rare ones in a mini-batch on average.\n")
    print("| rewarded tokens | how many | p < 0.002 | mean p | mean H (nats) |\n|---|---|---|---|---|")
    others = ~(tokens.useless | tokens.useful)
    for name, it in (("useless `_`", tokens.useless), ("useful `*`", tokens.useful), ("all others", others)):
        probability, entropy = np.exp(tokens.logp[it]).mean(), tokens.entropy[it].mean()
        print(f"| {name} | {it.sum():,} | {rare[it].mean():.2%} | {probability:.4f} | {entropy:.3f} |")


def _found(rule: Rule, tokens: Tokens) -> list[str]:
    """Precision, recall and average precision for the useless token; the share of useful ones marked with it."""
    average = "-" if rule.score is None else _average_precision(tokens, rule.score(tokens))
    if rule.marks is None:
        return ["-", "-", average, "-"]
    marks = rule.marks(tokens)
    found = int((marks & tokens.useless).sum())
    precision, recall = _share(found, int(marks.sum())), _share(found, int(tokens.useless.sum()))
    return [precision, recall, average, _share(int((marks & tokens.useful).sum()), int(tokens.useful.sum()))]


def _share(part: int, whole: int) -> str:
    """A share with Wilson's 95 % interval."""
    if not whole:
        return "-"
    low, high = stats.binomtest(part, whole).proportion_ci(method="wilson")
    return f"{part / whole:.2f} [{low:.2f}, {high:.2f}]"


def _average_precision(tokens: Tokens, score: np.ndarray) -> str:
    """With the percentile interval of a bootstrap over mini-batches."""
    rng = np.random.default_rng(0)
    draws = rng.multinomial(MINIBATCHES, np.full(MINIBATCHES, 1 / MINIBATCHES), size=RESAMPLES)
    values = [average_precision_score(tokens.useless, score, sample_weight=draw[tokens.minibatch]) for draw in draws]
    low, high = np.percentile(values, [2.5, 97.5])
    return f"{average_precision_score(tokens.useless, score):.2f} [{low:.2f}, {high:.2f}]"


# ---- training --------------------------------------------------------------------------------------------------------


@cache
def places() -> dict[str, list[str]]:
    """Held-out problems and what is right so far, where each planted token could stand."""
    problems = PlantedArithmetic().held_out[:512]
    return {
        "useless": [f"{it.prompt}{Arithmetic().demonstration(it, random.Random(0))}" for it in problems],
        "useful": [str(it.prompt) for it in problems],
    }


def probabilities(model: str) -> dict[str, float]:
    """The mean probability of each planted token at its places."""
    tokenizer = load_tokenizer(ModelConfig(name=model))
    policy = load_policy(ModelConfig(name=model), tokenizer)
    planted = {"useless": USELESS, "useful": USEFUL}
    return {name: _probability(policy, tokenizer, places()[name], token) for name, token in planted.items()}


@torch.no_grad()
def _probability(policy: Policy, tokenizer: Tokenizer, texts: Sequence[str], token: str) -> float:
    tokens = torch.full((len(texts), 1), _id(tokenizer, token))
    prompts, lengths = [tokenizer.encode(text) for text in texts], torch.ones(len(texts), dtype=torch.long)
    return policy(Responses(prompts, tokens, lengths, tokens >= 0), 1.0).logp.exp().mean().item()


def trajectory(run: FinishedRun) -> list[dict[str, object]]:
    """Probabilities at every checkpoint of a run."""
    saved = {int(path.name.removeprefix("step-")): str(path) for path in checkpoints(run.folder / "checkpoints")}
    models = {0: run.config.model.name, **saved}
    shared = {"objective": run.name, "seed": run.config.seed}
    return [{**shared, "step": step, **probabilities(model)} for step, model in models.items()]


def trained(grid: str, picture: Path) -> None:
    """Prints the table of a grid, and draws the probabilities of both tokens over the steps."""
    runs, baseline, notes = read_runs([grid])
    check_comparable(runs)
    data = pd.DataFrame([row for run in runs for row in trajectory(run)])
    data.to_csv(picture.with_suffix(".csv"), index=False, float_format="%.6g")
    table = data.set_index(["objective", "seed"])
    start, last = (table[table.step == step] for step in (0, data.step.max()))
    key = parse(baseline).key if baseline else runs[0].objective.key
    base = next(run.name for run in runs if run.objective.key == key)
    print(*notes, f"before: p of `_` {start.useless.mean():.5f}, of `*` {start.useful.mean():.5f}\n", sep="\n")
    print(f"| objective | avg@k at T=1 | `_` over its start | over `{base}`'s | `*` over its start | over `{base}`'s |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(run.name for run in runs):
        accuracy = mean_over_runs(np.stack([_correct(run) for run in runs if run.name == name]))
        changes = [
            "-" if at is last and name == base else _factor(np.log(last.loc[name][token] / at.loc[other][token]))
            for token in ("useless", "useful")
            for at, other in ((start, name), (last, base))
        ]
        print(f"| `{name}` | {100 * accuracy.mean:.1f} ± {100 * accuracy.half_width:.1f} | {' | '.join(changes)} |")
    _draw(data, picture)


def _correct(run: FinishedRun) -> np.ndarray:
    return run.evaluations[Decoding(1.0, 1.0)].column("correct")


def _factor(logs: Sequence[float]) -> str:
    """A factor with Student's 95 % interval over the seeds, taken of its logarithm."""
    low, high = stats.t.interval(0.95, len(logs) - 1, np.mean(logs), stats.sem(logs))
    return f"{np.exp(np.mean(logs)):.2f} [{np.exp(low):.2f}, {np.exp(high):.2f}]"


def _draw(data: pd.DataFrame, picture: Path) -> None:
    """Means over the seeds, in a band from the lowest to the highest of them."""
    sns.set_theme(style="whitegrid")
    figure, axes = plt.subplots(1, 2, figsize=(8, 4.4), layout="constrained")
    shown = {"x": "step", "hue": "objective", "style": "objective", "markers": True, "dashes": False}
    for axis, token, title in zip(axes, ("useless", "useful"), (f"useless {USELESS}", f"useful {USEFUL}"), strict=True):
        sns.lineplot(data, y=token, errorbar=lambda it: (it.min(), it.max()), ax=axis, **shown)
        axis.set(ylabel="", yscale="log")
        axis.set_title(f"probability of the {title} at its places", fontsize=10)
        axis.legend().remove()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(picture, dpi=120)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("detect")
    train = commands.add_parser("train")
    train.add_argument("grid")
    train.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "detect":
        detect()
    else:
        trained(arguments.grid, arguments.picture)


if __name__ == "__main__":
    main()
