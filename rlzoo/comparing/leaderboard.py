"""From finished runs to a table: who is better than the baseline, by how much, and whether that is more than chance.

Rows are objectives, known by their keys. What counts is the model after the last step, never the best on the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from objectives import parse
from rlzoo.comparing.aggregates import area_under_curve, steps_to
from rlzoo.comparing.finished_runs import FinishedRun, check_comparable
from rlzoo.comparing.grid import NO_SWEEP, WITHOUT, command_of, row_name
from rlzoo.comparing.problem_sets import SetDecoding, with_macro_averages
from rlzoo.comparing.results import Result, Results, make_results
from rlzoo.comparing.sweep import Sweep, number
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.experiment.identity import told_apart

EXAMPLES = 3


@dataclass(frozen=True)
class Touched:
    """What a part did: shares of the tokens and of the advantage mass, means over steps and runs."""

    part: str
    tokens: float
    mass: float


@dataclass(frozen=True)
class Row:
    """An objective. Curves are [seeds, steps]; `drift` is the mean distance of the entropy from its start, in nats."""

    objective: str
    """Its shortest expression, told apart from those of the other rows; an ablation says what it is without."""
    name: str
    """How it was asked for, if otherwise; of an ablation the shortest expression."""
    seeds: tuple[int, ...]
    results: Mapping[Decoding, Result]
    entropy: float
    drift: float
    gradient_norm: float
    seconds_per_step: float
    tokens_per_second: float
    touched: Sequence[Touched]
    area: float | None
    """Under the curve of held-out accuracy over the steps, mean over runs; None without evaluations on the way."""
    steps_to_baseline: Sequence[int | None]
    """Of each run, the first evaluated step as good as the baseline's mean after its last."""
    accuracy_curves: np.ndarray
    entropy_curves: np.ndarray
    held_out: Mapping[int, float]
    """avg@k at the first decoding of training, after those steps that all runs evaluated; the mean of the runs."""
    command: str
    sweep: Sweep = NO_SWEEP

    @property
    def without(self) -> str:
        """What was taken out of an ablation."""
        return self.objective.partition(WITHOUT)[2]


@dataclass(frozen=True)
class Response:
    """What one row answered."""

    objective: str
    text: str
    is_correct: bool
    right: int
    samples: int


@dataclass(frozen=True)
class Example:
    """A held-out problem and a response of every row."""

    prompt: str
    answer: str
    responses: Sequence[Response]


@dataclass(frozen=True)
class Leaderboard:
    """Everything that the tables and the page show; rows from the best to the worst at the first decoding."""

    title: str
    baseline: str
    rows: Sequence[Row]
    decodings: Sequence[Decoding]
    samples: int
    """Of the first decoding."""
    samples_at: Mapping[Decoding, int]
    problems: int
    setting: Mapping[str, str]
    environment: Mapping[str, Sequence[str]]
    """Every value that the runs have."""
    planning: Sequence[str]
    """What could have been found, and what more seeds would."""
    notes: Sequence[str]
    examples: Sequence[Example]


def make_leaderboard(
    runs: Sequence[FinishedRun],
    baseline: str = "",
    title: str = "Leaderboard",
    notes: Sequence[str] = (),
    equivalence: float = 0.0,
    looks: int = 1,
) -> Leaderboard:
    """Compares runs; a row that is surely less than `equivalence` points from the baseline is called the same. It is
    one of so many `looks` at a grid to which seeds are added.

    Raises UserError or ObjectiveError if they cannot be compared, or if the baseline is not among them.
    """
    check_comparable(runs)
    shown = told_apart(run.objective for run in runs)
    by_objective: dict[str, list[FinishedRun]] = {}
    for run in sorted(runs, key=lambda run: run.config.seed):
        by_objective.setdefault(row_name(shown[run.objective.key], run.name, run.sweep), []).append(run)
    baseline = _baseline(baseline, shown, runs)
    results = make_results(by_objective, baseline, list(runs[0].files), equivalence / 100, looks)
    decodings = list(results.rows)
    target = _last_accuracy(by_objective[baseline])
    rows = [
        _row(objective, own, {decoding: results.rows[decoding][objective] for decoding in decodings}, target)
        for objective, own in by_objective.items()
    ]
    rows.sort(key=lambda row: -row.results[decodings[0]].accuracy.mean)
    problems = {it: len(own.records) // own.samples for it, own in runs[0].evaluations.items()}
    return Leaderboard(
        title=title,
        baseline=baseline,
        rows=rows,
        decodings=decodings,
        samples=results.samples[decodings[0]],
        samples_at=results.samples,
        problems=sum(problems[it] for it in with_macro_averages(list(problems))[decodings[0]]),
        setting=_setting(runs[0], _swept(rows)),
        environment=_environment(runs),
        planning=results.planning,
        notes=[*notes, *_looks(looks), *_notes(rows, decodings, results)],
        examples=_examples({row.objective: by_objective[row.objective][0] for row in rows}),
    )


def _baseline(asked: str, shown: Mapping[str, str], runs: Sequence[FinishedRun]) -> str:
    """The row of it, the first if it has several; `shown` is that of every key."""
    key = parse(asked or "grpo").key
    if asked and key not in shown:
        raise UserError(f"baseline={asked} is not among the runs that are done: {', '.join(shown.values())}")
    run = next((run for run in runs if run.objective.key == key), runs[0])
    return row_name(shown[run.objective.key], run.name, run.sweep)


def _last_accuracy(runs: Sequence[FinishedRun]) -> float:
    """Mean held-out accuracy after the last step, as training measured it."""
    return float(np.mean([run.held_out[max(run.held_out)] for run in runs]))


def _row(
    objective: str, runs: Sequence[FinishedRun], results: Mapping[Decoding, Result], baseline_accuracy: float
) -> Row:
    steps = min(len(run.metrics) for run in runs)
    entropy = np.stack([run.curve("entropy")[:steps] for run in runs])
    timings = [line for run in runs for line in run.timings]
    seconds = sum(line["seconds"] for line in timings)
    expression, name = runs[0].objective.shortest, runs[0].name
    has_curves = all(len(run.held_out) > 2 for run in runs)
    return Row(
        objective=objective,
        name=expression if WITHOUT in name else "" if name.replace(" ", "") == expression else name,
        seeds=tuple(run.config.seed for run in runs),
        results=results,
        entropy=float(entropy[:, -1].mean()),
        drift=float(np.abs(entropy - entropy[:, :1]).mean()),
        gradient_norm=float(np.mean([run.curve("gradient_norm").mean() for run in runs])),
        seconds_per_step=seconds / len(timings),
        tokens_per_second=sum(line["tokens"] for line in timings) / seconds,
        touched=_touched([line for run in runs for line in run.metrics]),
        area=float(np.mean([area_under_curve(run.held_out) for run in runs])) if has_curves else None,
        steps_to_baseline=[steps_to(run.held_out, baseline_accuracy) for run in runs] if has_curves else [],
        accuracy_curves=np.stack([run.curve("accuracy")[:steps] for run in runs]),
        entropy_curves=entropy,
        held_out=_held_out(runs),
        command=command_of(runs[0].config, expression, [run.config.seed for run in runs]),
        sweep=runs[0].sweep,
    )


def _held_out(runs: Sequence[FinishedRun]) -> dict[int, float]:
    steps = sorted(set(runs[0].held_out).intersection(*(run.held_out for run in runs[1:])))
    return {step: float(np.mean([run.held_out[step] for run in runs])) for step in steps}


def _touched(metrics: Sequence[Mapping[str, float]]) -> list[Touched]:
    names = [key.split("/")[1] for key in metrics[0] if key.startswith("touched/") and key.endswith("/tokens")]

    def share(name: str, measure: str) -> float:
        return float(np.mean([line.get(f"touched/{name}/{measure}", 0.0) for line in metrics]))

    return [Touched(name, share(name, "tokens"), share(name, "mass")) for name in names]


def _setting(run: FinishedRun, swept: Mapping[str, str]) -> dict[str, str]:
    config, rollout, train = run.config, run.config.rollout, run.config.train
    prompts, group = rollout.prompts_per_step, rollout.responses_per_prompt
    return {
        "model": config.model.name,
        "task": config.task.name,
        "rollouts": f"{prompts} prompts x {group} responses = {prompts * group} a step",
        "steps": str(train.steps),
        "learning rate": swept.get("train.learning_rate", f"{train.learning_rate:g}"),
        "precision": config.model.precision,
        "evaluation": _evaluation(run),
        **{f"{name} (swept)": values for name, values in swept.items()},
    }


def _evaluation(run: FinishedRun) -> str:
    """Problems and samples, of every problem set once."""
    found = dict[str, None]()
    for decoding, own in run.evaluations.items():
        name = f"{decoding.problem_set}: " if isinstance(decoding, SetDecoding) else ""
        found[f"{name}{len(own.records) // own.samples} problems x {own.samples} samples"] = None
    return ", ".join(found)


def _swept(rows: Sequence[Row]) -> dict[str, str]:
    """All values of what differs from row to row."""
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.sweep.values:
            values.setdefault(name, set()).add(value)
    return {name: ", ".join(sorted(them, key=_by_number)) for name, them in values.items()}


def _by_number(value: str) -> tuple[float, str]:
    found = number(value)
    return (np.inf if found is None else found, value)


def _environment(runs: Sequence[FinishedRun]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for run in runs:
        for key, value in run.environment.items():
            values = found.setdefault(key, [])
            if value is not None and str(value) not in values:
                values.append(str(value))
    return {key: values for key, values in found.items() if values}


def _looks(looks: int) -> list[str]:
    return [f"Seeds are added where they decide something; verdicts are corrected for {looks} looks."] * (looks > 1)


def _notes(rows: Sequence[Row], decodings: Sequence[Decoding], results: Results) -> list[str]:
    notes = []
    if any(len(row.seeds) == 1 for row in rows):
        notes.append("An interval over one seed speaks of the one trained model, not of the method: no verdict.")
    if len({row.seeds for row in rows}) > 1:
        notes.append("Rows have different seeds; runs are paired as far as they share them.")
    for decoding in decodings:
        unstable = [row.objective for row in rows if row.results[decoding].average.is_unstable]
        if unstable:
            notes.append(
                f"At {decoding}, the seeds of {', '.join(unstable)} lie further apart than those of the other rows: "
                "unstable, and no interval over so few seeds is to be trusted; train more."
            )
    return [*notes, *results.alike]


def _examples(runs: Mapping[str, FinishedRun]) -> list[Example]:
    """The problems that the rows disagree about most, answered by the first seed's first sample."""
    evaluations = [next(iter(run.evaluations.values())) for run in runs.values()]
    right = np.stack([evaluation.column("correct") for evaluation in evaluations])
    spread = np.ptp(right.mean(axis=2), axis=0)
    samples = evaluations[0].samples
    examples = []
    for problem in np.argsort(-spread, kind="stable")[:EXAMPLES]:
        records = [evaluation.records[problem * samples] for evaluation in evaluations]
        prompt = records[0]["prompt"]
        responses = [
            Response(objective, record["response"], record["correct"] == 1, int(right[i, problem].sum()), samples)
            for i, (objective, record) in enumerate(zip(runs, records, strict=True))
        ]
        text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
        examples.append(Example(text, records[0]["answer"], responses))
    return examples
