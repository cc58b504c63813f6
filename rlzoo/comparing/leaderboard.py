"""From finished runs to a table: who is better than the baseline, by how much, and whether that is more than chance.

Rows are objectives, known by their keys. What counts is the model after the last step, never the best on the way.
"""

import fcntl
import json
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from rlzoo.comparing.eval_history import Area, shared_steps
from rlzoo.comparing.finished_runs import (
    FinishedRun,
    check_comparable,
    different_commits,
    different_versions,
    unknown_code,
)
from rlzoo.comparing.grid import Identity, RowName, choose_baseline, command_of
from rlzoo.comparing.grid_words import RowWords
from rlzoo.comparing.result_table import ResultTable, scores_of
from rlzoo.comparing.results import (
    REWARD,
    Alike,
    Answers,
    Place,
    Result,
    RewardRange,
    ScoredRun,
    SetDecoding,
    make_results,
    with_macro_averages,
)
from rlzoo.comparing.token_curves import TokenCurves, token_curves
from rlzoo.config.decoding import Decoding
from rlzoo.config.schema import GRID_IDENTITY
from rlzoo.config.words import deciding
from rlzoo.errors import UserError, nearest
from rlzoo.experiment.identity import digest, unique_labels
from rlzoo.files import read_json, write_json
from rlzoo.statistics.verdicts import Verdicts

FinishedRuns: TypeAlias = Mapping[Identity, Sequence[FinishedRun]]
"""By row."""


@dataclass(frozen=True)
class Touched:
    """What a part did: shares of the tokens and of the advantage mass, means over steps and runs."""

    part: str
    tokens: float
    mass: float


@dataclass(frozen=True)
class Training:
    """How a row's runs were trained. Curves are [seeds, steps]."""

    entropy: float
    drift: float
    """The mean distance of the entropy from its start, in nats."""
    gradient_norm: float
    seconds_per_step: float
    tokens_per_second: float
    touched: Sequence[Touched]
    accuracy_curves: np.ndarray
    entropy_curves: np.ndarray
    held_out: Mapping[int, float]
    """avg@k at the first decoding of training, after those steps that all runs evaluated; the mean of the runs."""
    command: str
    """What trains and compares the row again."""


@dataclass(frozen=True)
class LeaderboardRow:
    """An objective, or a method of another trainer."""

    identity: Identity
    name: RowName
    is_baseline: bool
    seeds: tuple[int, ...]
    results: Mapping[Place, Result]
    training: Training | None = None
    """None where only results are known."""


@dataclass(frozen=True)
class Leaderboard:
    """Everything that the tables and the page show; rows from the best to the worst at the first decoding."""

    title: str
    rows: Sequence[LeaderboardRow]
    decodings: Sequence[Place]
    samples_at: Mapping[Place, int]
    averages: Mapping[Place, Verdicts[Identity]]
    """Verdicts of all rows by avg@k."""
    problems: int
    setting: Mapping[str, str]
    environment: Mapping[str, Sequence[str]]
    """Every value that the runs have."""
    looks: int
    """How often the page is looked at while seeds are added."""
    alike: Sequence[Alike]
    notes: Sequence[str]
    """Remarks on the run folders."""
    token_curves: TokenCurves | None = None
    """Accuracy by tokens; None where it is not known how the rows were trained."""
    primary: Sequence[tuple[str, Place]] = ()
    """The measures and places that were named beforehand; nothing where none was."""
    rewards: RewardRange | None = None
    """Range of the rewards; None where they only say which answers are right."""
    untrained: Mapping[Place, Sequence[float]] = field(default_factory=dict)
    """avg@k before the first step, for each seed of the baseline. Decodings without known values are left out."""

    @property
    def samples(self) -> int:
        """Of the first decoding."""
        return self.samples_at[self.decodings[0]]

    @property
    def baseline(self) -> LeaderboardRow:
        """What differences are taken to."""
        return next(row for row in self.rows if row.is_baseline)

    def start(self, place: Place) -> float:
        """The mean of `untrained` there."""
        return float(np.mean(self.untrained[place]))

    def has_right_answers(self, place: Place) -> bool:
        """Whether some row has one there."""
        return any(row.results[place].accuracy.mean > 0 for row in self.rows)

    @property
    def is_trained(self) -> bool:
        """Whether it is known how the rows were trained."""
        return all(row.training for row in self.rows)

    @property
    def trainings(self) -> Mapping[Identity, Training]:
        """Training of each row for which it is known."""
        return {row.identity: row.training for row in self.rows if row.training}

    @property
    def touched(self) -> Mapping[Identity, Mapping[str, Touched]]:
        """Of each row, by part."""
        return {row: {touched.part: touched for touched in runs.touched} for row, runs in self.trainings.items()}

    @property
    def names(self) -> Mapping[Identity, RowName]:
        """What each row is called."""
        return {row.identity: row.name for row in self.rows}


def make_leaderboard(
    runs: Sequence[FinishedRun],
    baseline: str = "",
    title: str = "",
    notes: Sequence[str] = (),
    equivalence: float = 0.0,
    looks: int = 1,
    primary: str = "",
) -> Leaderboard:
    """Compares runs; a row that is surely less than `equivalence` points from the baseline is called the same.

    It is the last of as many interim analyses (`looks`) of a grid to which seeds are added. `primary` names the measure
    that was chosen before there were results, `pass` or `pass at 0.7/0.9`: its verdicts are corrected for that measure
    alone.

    Raises UserError or ObjectiveError if they cannot be compared, or if the baseline is not among them.
    """
    check_comparable(runs)
    of_row: dict[Identity, list[FinishedRun]] = {}
    for run in sorted(runs, key=lambda run: run.config.seed):
        of_row.setdefault(run.identity, []).append(run)
    decodings: list[Place] = list(runs[0].files)
    steps = {decoding: shared_steps([run.folder for run in runs], decoding) for decoding in runs[0].decodings}
    rewards = RewardRange.of(evaluation for run in runs for evaluation in run.evaluations.values())
    scored = {row: [_scored(run, steps, rewards) for run in of_row[row]] for row in of_row}
    names = _names(of_row)
    shown = {run.identity: str(names[run.identity]) for run in runs}
    base = choose_baseline(baseline, shown, "the runs that are done")
    results = make_results(scored, base, decodings, equivalence / 100, looks, primary)
    rows = best_first(
        [
            LeaderboardRow(
                identity=row,
                name=names[row],
                is_baseline=row == base,
                seeds=tuple(run.config.seed for run in of_row[row]),
                results={at: by_row[row] for at, by_row in results.rows.items()},
                training=_training(of_row[row]),
            )
            for row in of_row
        ]
    )
    return Leaderboard(
        title=title or _title(runs[0]),
        rows=rows,
        decodings=list(results.rows),
        samples_at=results.samples,
        averages=results.averages,
        problems=_problems(scored[base][0]),
        setting=_setting(runs, _own_settings(rows)),
        environment=_environment(runs),
        looks=looks,
        alike=results.alike,
        primary=results.primary,
        notes=[*notes, *unknown_code(runs), *different_versions(runs), *different_commits(runs)],
        token_curves=token_curves(of_row),
        rewards=rewards,
        untrained=_untrained(of_row[base]),
    )


def _untrained(runs: Sequence[FinishedRun]) -> dict[Place, list[float]]:
    """By decoding of training that is a place of the leaderboard, of the runs of a row."""
    shown = [at for at in runs[0].decodings if at in runs[0].files]
    first = {at: [run.evaluated_steps(at).get(0) for run in runs] for at in shown}
    return {at: [float(it.accuracy.mean()) for it in starts if it] for at, starts in first.items() if all(starts)}


def best_first(rows: Sequence[LeaderboardRow]) -> list[LeaderboardRow]:
    """By accuracy at the first place, and where that is equal by reward."""

    def rank(row: LeaderboardRow) -> tuple[float, float]:
        first = next(iter(row.results.values()))
        return -first.accuracy.mean, -first.measured[REWARD].estimate.mean if REWARD in first.measured else 0.0

    return sorted(rows, key=rank)


def _scored(run: FinishedRun, steps: Mapping[Decoding, Sequence[int]], rewards: RewardRange | None) -> ScoredRun:
    """`steps` are those after which all runs were evaluated."""
    answers: dict[Place, Answers] = {
        decoding: Answers.of(evaluation, _area(run, decoding, steps.get(decoding, ())), rewards)
        for decoding, evaluation in run.evaluations.items()
    }
    return ScoredRun(run.config.seed, answers)


def _area(run: FinishedRun, decoding: Decoding, steps: Sequence[int]) -> Area | None:
    return Area.under(run.evaluated_steps(decoding), steps) if steps else None


def _problems(run: ScoredRun) -> int:
    """Problems of all sets, each once."""
    return sum(len(run.answers[part].correct) for part in next(iter(with_macro_averages(list(run.answers)).values())))


def _names(of_row: FinishedRuns) -> dict[Identity, RowName]:
    """An ablation is called so, unless that would be the name of two rows."""
    shown = unique_labels(runs[0].objective for runs in of_row.values())
    names = {}
    for identity, runs in of_row.items():
        run = next((run for run in runs if run.without), runs[0])
        names[identity] = RowName(shown[identity[0]], run.asked, run.without, run.settings)
    times = Counter(map(str, names.values()))
    return {row: name if times[str(name)] == 1 else replace(name, without="") for row, name in names.items()}


def _training(runs: Sequence[FinishedRun]) -> Training:
    steps = min(len(run.metrics) for run in runs)
    entropy = np.stack([run.curve("entropy")[:steps] for run in runs])
    timings = [line for run in runs for line in run.timings]
    seconds = sum(line["seconds"] for line in timings)
    return Training(
        entropy=float(entropy[:, -1].mean()),
        drift=_drift(entropy),
        gradient_norm=float(np.mean([run.curve("gradient_norm").mean() for run in runs])),
        seconds_per_step=seconds / len(timings),
        tokens_per_second=sum(line["tokens"] for line in timings) / seconds,
        touched=_touched([line for run in runs for line in run.metrics]),
        accuracy_curves=np.stack([run.curve("accuracy")[:steps] for run in runs]),
        entropy_curves=entropy,
        held_out=_held_out(runs),
        command=_command(runs),
    )


def _command(runs: Sequence[FinishedRun]) -> str:
    row = RowWords(runs[0].objective.shortest, runs[0].settings)
    return command_of(runs[0].config, row, [run.config.seed for run in runs])


def _drift(entropy: np.ndarray) -> float:
    """How far the [runs, steps] entropies are from the first ones, in the mean; NaN where a first one is infinite."""
    with np.errstate(invalid="ignore"):  # inf less inf
        return float(np.abs(entropy - entropy[:, :1]).mean())


def _held_out(runs: Sequence[FinishedRun]) -> dict[int, float]:
    steps = sorted(set(runs[0].held_out).intersection(*(run.held_out for run in runs[1:])))
    return {step: float(np.mean([run.held_out[step] for run in runs])) for step in steps}


def _touched(metrics: Sequence[Mapping[str, float]]) -> list[Touched]:
    names = [key.split("/")[1] for key in metrics[0] if key.startswith("touched/") and key.endswith("/tokens")]

    def share(name: str, measure: str) -> float:
        return float(np.mean([line.get(f"touched/{name}/{measure}", 0.0) for line in metrics]))

    return [Touched(name, share(name, "tokens"), share(name, "mass")) for name in names]


def _title(run: FinishedRun) -> str:
    config = run.config
    return f"{config.model.name} on {config.task.name}, {config.train.steps} steps"


def _setting(runs: Sequence[FinishedRun], own: Mapping[str, str]) -> dict[str, str]:
    run = runs[0]
    plain = {name: [run for run in runs if name not in dict(run.identity[1])] for name in own}
    own = {
        name: f"{own[name]}; others {_value(asdict(of[0].config), name)}" if of else own[name]
        for name, of in plain.items()
    }
    config, rollout, train = run.config, run.config.rollout, run.config.train
    prompts, group = rollout.prompts_per_step, rollout.responses_per_prompt
    return {
        "model": config.model.name,
        "task": config.task.name,
        "rollouts": f"{prompts} prompts x {group} responses = {prompts * group} a step",
        "steps": str(train.steps),
        "learning rate": own.get("train.learning_rate", f"{train.learning_rate:g}"),
        "schedule": own.get("train.schedule", train.schedule),
        "precision": config.model.precision,
        "evaluation": _evaluation(run),
        **{f"{name} (by row)": values for name, values in own.items()},
    }


def _value(config: Mapping[str, Any], name: str) -> Any:
    """Of a dotted key; None where a mapping of options lacks it."""
    section, _, inside = name.partition(".")
    value = config.get(section)
    return _value(value or {}, inside) if inside else value


def _evaluation(run: FinishedRun) -> str:
    """Problems and samples, of every problem set once."""
    sizes = dict[str, None]()
    for decoding, evaluation in run.evaluations.items():
        name = f"{decoding.problem_set}: " if isinstance(decoding, SetDecoding) else ""
        problems = len(evaluation.records) // evaluation.samples
        sizes[f"{name}{problems} problems x {evaluation.samples} samples"] = None
    return ", ".join(sizes)


def _own_settings(rows: Sequence[LeaderboardRow]) -> dict[str, str]:
    """All values of the settings that rows have of their own."""
    values: dict[str, dict[str, float | str]] = {}
    for row in rows:
        for (name, number), word in zip(row.identity[1], row.name.settings, strict=True):
            values.setdefault(name, {})[word.partition("=")[2]] = number
    return {
        name: ", ".join(sorted(of, key=lambda text: (str(type(of[text])), of[text]))) for name, of in values.items()
    }


def _environment(runs: Sequence[FinishedRun]) -> dict[str, list[str]]:
    """Each value once, of what any run has."""
    values: dict[str, dict[str, None]] = {}
    for run in runs:
        for key, value in run.environment.items():
            if value is not None:
                values.setdefault(key, {})[str(value)] = None
    return {key: list(each) for key, each in values.items()}


# ---- tables of results -----------------------------------------------------------------------------------------------


def make_table_leaderboard(
    table: ResultTable,
    baseline: str = "",
    title: str = "",
    equivalence: float = 0.0,
    primary: str = "",
    folder: Path | None = None,
) -> Leaderboard:
    """Compares the methods of a table with one of them: `baseline`, or `grpo` if it is there, or the first.

    The method `untrained` is a reference and not compared, unless it is the baseline.
    `equivalence` and `primary` are those of `make_leaderboard`. Interim analyses of tables of these problems are
    counted in `folder`. Raises UserError for a table that cannot be compared, and for a baseline that is not in it.
    """
    scores = scores_of(table, baseline)
    if baseline and baseline not in scores.runs:
        methods = ", ".join(scores.runs)
        raise UserError(
            f"baseline={baseline} is no method of {table.name}, which has {methods}{nearest(baseline, scores.runs)}"
        )
    base = baseline or ("grpo" if "grpo" in scores.runs else next(iter(scores.runs)))
    runs = {_identity(method): of_method for method, of_method in scores.runs.items()}
    looks = max(table.analyses, count_analysis(folder, scores.analysed) if folder else 1)
    results = make_results(runs, _identity(base), scores.places, equivalence / 100, looks, primary)
    rows = [
        LeaderboardRow(
            _identity(method),
            RowName(method),
            method == base,
            tuple(run.seed for run in of_method),
            {place: by_row[_identity(method)] for place, by_row in results.rows.items()},
        )
        for method, of_method in scores.runs.items()
    ]
    return Leaderboard(
        title=title or f"Results in {table.name}",
        rows=best_first(rows),
        decodings=list(results.rows),
        samples_at=results.samples,
        averages=results.averages,
        problems=scores.problems,
        setting={"table": table.name, "responses": f"{len(table.frame):,}"},
        environment={},
        looks=looks,
        alike=results.alike,
        primary=results.primary,
        notes=scores.notes,
        untrained={
            place: [float(run.answers[place].correct.mean()) for run in scores.untrained]
            for place in (scores.places if scores.untrained else ())
        },
    )


def _identity(method: str) -> Identity:
    return method, ()


# ---- interim analyses ------------------------------------------------------------------------------------------------

# Analysing again after adding seeds errs more often. The analyses of a row are the different sets of seeds with which a
# leaderboard showed it. They are counted in the grid's folder, or in that of a table's leaderboard, and what is shown
# at the k-th is corrected for k (benchmarks/coverage).

ANALYSES = "looks.json"


def count_analysis(folder: Path, seeds_of: Mapping[str, Sequence[int]], planned: Collection[int] = ()) -> int:
    """Notes in a folder with which seeds rows are shown, and returns the number of analyses so far.

    At each number of seeds at which an analysis was `planned`, one does not count.

    A folder that cannot be written is analysed all the same. Raises UserError if the count is damaged.
    """
    with _alone_in(folder):
        seen = _read(folder / ANALYSES)
        for row, seeds in seeds_of.items():
            if sorted(seeds) not in seen.setdefault(row, []):
                seen[row].append(sorted(seeds))
        with suppress(OSError):
            write_json(folder / ANALYSES, seen)
    sizes = ([*map(len, seen[row])] for row in seeds_of)
    return max((len(of_row) - len({*of_row} & {*planned}) for of_row in sizes), default=0)


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """While no other process counts in the folder, which is made; where it cannot be locked, all the same."""
    with ExitStack() as held:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(folder, os.O_RDONLY)
            held.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def analysed_seeds(
    runs: Sequence[FinishedRun], shown: Sequence[FinishedRun], are_of_one_grid: bool = True
) -> dict[str, list[int]]:
    """The seeds with which the rows of some runs are shown, by a name for the count of analyses.

    Those of all that are `shown` count, wherever they were trained. Runs of no grid may have several settings.
    """
    of_row: dict[Identity, list[int]] = {}
    for run in shown:
        of_row.setdefault(run.identity, []).append(run.config.seed)
    seeds = {}
    for run in runs:
        settings = [] if are_of_one_grid else [digest(json.dumps(deciding(run.config, GRID_IDENTITY), sort_keys=True))]
        seeds[json.dumps([*run.identity, *settings])] = of_row[run.identity]
    return seeds


def _read(path: Path) -> dict[str, list[list[int]]]:
    if not path.exists():
        return {}
    try:
        seen = read_json(path.read_text(encoding="utf-8"))
        return {str(row): [sorted(map(int, seeds)) for seeds in sets] for row, sets in seen.items()}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError):  # int(inf) is the last
        raise UserError(f"{path} is damaged; remove it, and interim analyses are counted from 1") from None
