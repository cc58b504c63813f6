"""Runs that are done, read back from their folders, and what was measured of them; whether they may be compared."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.comparing.eval_history import EvaluatedStep, read_evaluated_steps
from rlzoo.comparing.grid import Grid, GridCell, Identity
from rlzoo.comparing.grid_words import GRID, meant
from rlzoo.comparing.results import SetDecoding
from rlzoo.config import Config, TaskConfig, flat
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.config.recorded import outside_names
from rlzoo.config.schema import GRID_IDENTITY
from rlzoo.config.words import deciding
from rlzoo.errors import UserError, one_line
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.kept import RESULTS, read_results, without_code
from rlzoo.experiment.claim import COMMIT, kept_content
from rlzoo.experiment.identity import RecordedRun, changed_sources, read_objective
from rlzoo.experiment.run_folder import METRICS, STEP, TIMINGS, RunFolder, missing_steps
from rlzoo.files import read_json_file, read_json_lines
from rlzoo.records import reading, text
from rlzoo.tasks.benchmarks import GROUPS
from rlzoo.tasks.regrading import GRADING


@dataclass(frozen=True)
class FinishedRun:
    """One trained model: its settings and what its folder says."""

    folder: RunFolder
    config: Config
    asked: str
    """How the objective was asked for; of an ablation the whole."""
    files: Mapping[Decoding, Path]
    """The responses to held-out problems after the last step."""
    settings: tuple[str, ...] = ()
    """Those that its row alone has."""
    without: str = ""
    """Of an ablation, what was taken out of the whole."""

    @property
    def identity(self) -> Identity:
        """Of its row."""
        return self.objective.key, meant(self.settings)

    def has_own(self, key: str) -> bool:
        """Whether its row has a setting of this key, of one inside it, or of one around it."""
        return any(f"{name}.".startswith(f"{key}.") or f"{key}.".startswith(f"{name}.") for name, _ in self.identity[1])

    @cached_property
    def objective(self) -> RecordedRun:
        """What it was trained with."""
        return read_objective(self.folder.path)

    @cached_property
    def evaluations(self) -> Mapping[Decoding, Evaluation]:
        """After the last step."""
        return {decoding: Evaluation.load(path) for decoding, path in self.files.items()}

    @cached_property
    def problems(self) -> list[tuple[Any, ...]]:
        """The held-out problems: id, prompt and answer. Raises UserError if a response does not say which it is to."""
        found: list[tuple[Any, ...]] = []
        for at, evaluation in self.evaluations.items():
            with reading(self.files[at]):
                asked = evaluation.records[:: evaluation.samples]
                found += [(record["problem"], record["prompt"], record["answer"]) for record in asked]
        return found

    @cached_property
    def grading(self) -> Mapping[tuple[Decoding, str], Sequence[Any]]:
        """By place and key of the task, the values with which the responses were graded; nothing where none is kept."""
        usual, found = asdict(TaskConfig()), dict[tuple[Decoding, str], Sequence[Any]]()
        for at, evaluation in self.evaluations.items():
            kept = [record["task"] for record in evaluation.records if "task" in record]
            tasks = {json.dumps(task, sort_keys=True): task for task in kept}.values()
            for name in GRADING if tasks else ():
                found[at, f"task.{name}"] = [task.get(name, usual[name]) for task in tasks]
        return found

    @cached_property
    def metrics(self) -> list[dict[str, Any]]:
        """One record per step. Raises UserError if some are lost."""
        lines = read_json_lines(self.folder.metrics, METRICS)
        lost = missing_steps(lines, self.config.train.steps)
        if lost:
            raise UserError(f"{self.folder.metrics} is damaged: it has lost {lost}; leave this run out")
        return lines

    @cached_property
    def timings(self) -> list[dict[str, float]]:
        """One record per step."""
        lines = read_json_lines(self.folder.timings, TIMINGS)
        if not sum(line["seconds"] for line in lines) > 0:
            raise UserError(f"{self.folder.timings} is damaged: its steps took no time; leave this run out")
        return lines

    @cached_property
    def environment(self) -> dict[str, str | None]:
        """Versions, commit and machine."""
        path = self.folder / "environment.json"
        with reading(path):
            return {str(name): None if value is None else str(value) for name, value in read_json_file(path).items()}

    @property
    def version(self) -> str:
        """The versions of rlzoo that made it; empty if none is known."""
        if self.objective.versions:
            return ", then ".join(self.objective.versions)
        here = self.environment  # of a run that an earlier version has made
        return " ".join(filter(None, [here.get("rlzoo-llm") or here.get("rlzoo"), here.get("commit")]))

    @property
    def decodings(self) -> Sequence[Decoding]:
        """Those that training evaluated with."""
        return read_decodings(self.config.evaluation.decodings)

    @cached_property
    def held_out(self) -> Mapping[int, float]:
        """Accuracy of every evaluation that training made with its first decoding, by step."""
        return {step: float(evaluated.accuracy.mean()) for step, evaluated in self._evaluated_steps.items()}

    def evaluated_steps(self, decoding: Decoding) -> Mapping[int, EvaluatedStep]:
        """Every evaluation that training made with a decoding, by step."""
        is_first = decoding == self.decodings[0]
        return self._evaluated_steps if is_first else read_evaluated_steps(self.folder, decoding)

    @cached_property
    def _evaluated_steps(self) -> Mapping[int, EvaluatedStep]:
        """Those with the first decoding."""
        return read_evaluated_steps(self.folder, self.decodings[0])

    def curve(self, name: str) -> np.ndarray:
        """[steps] values of a metric."""
        with reading(self.folder.metrics):
            return np.array([line[name] for line in self.metrics], dtype=np.float64)


def read_runs(folders: Iterable[str]) -> tuple[list[FinishedRun], str, list[str]]:
    """The runs in folders of runs and of grids, the baseline that a grid names or "", and what was left out.

    A folder may also hold several runs. Raises UserError for one that holds none, and for a run that is named and not
    done.
    """
    runs: list[FinishedRun] = []
    baseline, notes = "", []
    for name in folders:
        path = Path(name)
        if (path / GRID).exists():
            grid = Grid.load(path)
            baseline = baseline or grid.baseline
            done = [finished_run(cell) for cell in grid.cells if cell.folder.finished(cell.config)]
            runs += done
            notes += _left_out(len(grid.cells) - len(done), len(grid.cells), path)
            notes += [
                f"Runs of {entry.asked} with earlier code, {path / entry.name}-SEED, are left out."
                for entry in grid.earlier
            ]
        elif not RunFolder(path).config.exists() and (inside := sorted(path.glob("*/config.yaml"))):
            configs = {folder: folder.read_config() for folder in (RunFolder(file.parent) for file in inside)}
            done = [_finished(folder, config) for folder, config in configs.items() if folder.finished(config)]
            runs += done
            notes += _left_out(len(configs) - len(done), len(configs), path)
            notes += [
                f"{grid.parent} is a grid and left out; rlzoo leaderboard {grid.parent} shows it."
                for grid in sorted(path.glob(f"*/{GRID}"))
            ]
        else:
            runs.append(read_run(RunFolder(path)))
    if not runs:
        raise UserError("no run is done yet; the same rlzoo compare goes on with them")
    return runs, baseline, notes


def _left_out(missing: int, count: int, path: Path) -> list[str]:
    return [f"{missing} of the {count} runs of {path} are not done and left out."] * (missing > 0)


def finished_run(cell: GridCell) -> FinishedRun:
    """Of a cell that is done."""
    run = _finished(cell.folder, cell.config)
    return replace(run, asked=cell.entry.asked, settings=cell.entry.settings, without=cell.entry.without)


def read_run(folder: RunFolder) -> FinishedRun:
    """The run in a folder. Raises UserError if there is none, or if it is not done."""
    if not folder.config.exists():
        raise UserError(f"{folder.path} holds neither a run (config.yaml) nor a grid ({GRID})")
    config = folder.read_config()
    if not folder.finished(config):
        done = len(read_json_lines(folder.metrics, STEP))
        raise UserError(
            f"the run in {folder.path} is not done (step {done} of {config.train.steps}); "
            f"{folder.resumed} goes on with it"
        )
    cell = _cell_of(folder)
    return finished_run(cell) if cell else _finished(folder, config)


def _cell_of(folder: RunFolder) -> GridCell | None:
    """The cell of the grid around it, which knows how it was asked for."""
    around = folder.path.parent
    cells = Grid.load(around).cells if (around / GRID).exists() else []
    return next((cell for cell in cells if cell.folder.path.resolve() == folder.path.resolve()), None)


def _finished(folder: RunFolder, config: Config) -> FinishedRun:
    decodings = read_decodings(config.evaluation.decodings)
    files = {decoding: folder.evaluation(config.train.steps, decoding) for decoding in decodings}
    return FinishedRun(folder, config, config.objective, files)


def _check_same_code(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs that were trained with different code from outside of one name."""
    of_name: dict[str, FinishedRun] = {}
    for run in runs:
        code = run.objective.code
        if code is None:
            continue
        for other in (of_name.setdefault(name, run) for name in code.sources):
            if change := code.changes(other.objective.code):
                raise UserError(
                    f"{other.folder.path} and {run.folder.path} cannot be compared: {change} is not the same in both; "
                    f"leave one of them out, or train it again with another output="
                )


def _check_same_content(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs that began with different weights or data, where both are known and no row has its own."""
    began: dict[str, tuple[Mapping[str, str], FinishedRun]] = {}
    for run, key, files in _shared_content(runs):
        if COMMIT in files:  # of a hub, where any edit makes a new one: see `different_commits`
            continue
        known, other = began.setdefault(key, (files, run))
        if differing := sorted(name for name in {*known, *files} if known.get(name) != files.get(name)):
            raise UserError(
                f"{other.folder.path} and {run.folder.path} cannot be compared: they began with different files of "
                f"{key}, {one_line(', '.join(differing))}; leave one of them out, or train it again with another "
                f"output="
            )


def _shared_content(runs: Sequence[FinishedRun]) -> Iterator[tuple[FinishedRun, str, Mapping[str, str]]]:
    """(Run, key that names weights or data, digests of the files) where the run's row has no such key of its own."""
    for run in runs:
        for key, files in (kept_content(run.folder) or {}).items():
            if not run.has_own(key) and not (key == "model.name" and run.has_own("model.revision")):
                yield run, key, files


def different_commits(runs: Sequence[FinishedRun]) -> list[str]:
    """Says which models of the hub runs began with at several commits."""
    commits: dict[str, dict[str, None]] = {}
    for _, key, files in _shared_content(runs):
        if COMMIT in files:
            commits.setdefault(key, {})[files[COMMIT][:8]] = None
    return [
        f"Runs began with different commits of {key}: {', '.join(of_key)}; the files may differ."
        for key, of_key in commits.items()
        if len(of_key) > 1
    ]


def unknown_code(runs: Sequence[FinishedRun]) -> list[str]:
    """Says which runs name code from outside and do not say which: rlzoo did not record that when they were trained."""
    named = [run for run in runs if outside_names(flat(asdict(run.config)))]
    unknown = [run.folder.path for run in named if run.objective.code is None]
    more = f" and {len(unknown) - 1} more runs" if len(unknown) > 1 else ""
    return [f"Which version of the code of {unknown[0]}{more} it was is not recorded."] if unknown else []


def different_versions(runs: Sequence[FinishedRun]) -> list[str]:
    """Says which rows are of different versions of rlzoo, and first of all which average runs of several."""
    rows: dict[Identity, dict[str, list[FinishedRun]]] = {}
    for run in runs:
        if run.version:
            rows.setdefault(run.identity, {}).setdefault(run.version, []).append(run)
    averaged = [
        f"The row {next(iter(versions.values()))[0].objective.shortest} averages runs of different versions of rlzoo: "
        + "; ".join(f"{version} (seeds {_seeds(of_version)})" for version, of_version in versions.items())
        + "."
        for versions in rows.values()
        if len(versions) > 1
    ]
    uniform: dict[str, list[str]] = {}
    for versions in rows.values():
        for version, of_version in versions.items() if len(versions) == 1 else ():
            uniform.setdefault(version, []).append(of_version[0].objective.shortest)
    if len(uniform) > 1:
        named = "; ".join(f"{version} ({', '.join(dict.fromkeys(shown))})" for version, shown in uniform.items())
        averaged.append(f"Rows are of different versions of rlzoo: {named}.")
    return averaged


def _seeds(runs: Sequence[FinishedRun]) -> str:
    return ", ".join(str(run.config.seed) for run in runs)


def _check_same_grading(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs whose responses were graded with different settings, but for those that rows have of their own."""
    graded: dict[tuple[Decoding, str], tuple[Sequence[Any], FinishedRun]] = {}
    for run in runs:
        for (at, key), values in run.grading.items():
            if run.has_own(key):
                continue
            known, other = graded.setdefault((at, key), (values, run))
            if known != values:
                one, two = (one_line(", ".join(map(str, each))) for each in (known, values))
                raise UserError(
                    f"{other.folder.path} and {run.folder.path} cannot be compared: their responses at {at} are graded "
                    f"with {key}={one} in one and {two} in the other; leave one of them out, or grade both with one "
                    f"reward (rlzoo grade regrade=true overwrite=true reward=...)"
                )


def check_comparable(runs: Sequence[FinishedRun]) -> None:
    """Refuses runs that differ in more than objective, seed and the settings of their rows. Raises UserError."""
    first, seen = runs[0], dict[object, FinishedRun]()
    _check_same_code(runs)
    _check_same_content(runs)
    decides = [deciding(run.config, GRID_IDENTITY) for run in runs]
    names = dict.fromkeys(name for values in decides for name in values)
    settings: dict[str, tuple[Any, FinishedRun]] = {}
    for run, values in zip(runs, decides, strict=True):
        other = seen.setdefault((run.identity, run.config.seed), run)
        if other is not run:
            raise UserError(
                f"{other.folder.path} and {run.folder.path} are both {run.objective.shortest} with "
                f"seed={run.config.seed}; leave one of them out"
            )
        for key in names:
            value = values.get(key)
            shared, holder = settings.setdefault(key, (value, run)) if not run.has_own(key) else (value, run)
            if shared != value:
                raise UserError(
                    f"{holder.folder.path} and {run.folder.path} cannot be compared: "
                    f"{key} is {shared} in one and {value} in the other"
                )
        if run.problems != first.problems:
            pairs = zip_longest(first.problems, run.problems, fillvalue=("none",))
            problem, differing = next(pair for pair in pairs if pair[0] != pair[1])
            raise UserError(
                f"{first.folder.path} and {run.folder.path} cannot be compared: they were evaluated on different "
                f"problems, {problem[0]} in one and {differing[0]} in the other"
            )
    _check_same_grading(runs)


# ---- what rlzoo eval measured ----------------------------------------------------------------------------------------

_OF_A_RUN = ("seed", "model.weights")
"""Settings of an evaluation in which those of two runs differ."""
_GRADERS = ("rlzoo-llm", "commit", "math-verify", "reasoning-gym")
"""What grades, among the versions that an evaluation records."""

Entries = Mapping[Path, Mapping[str, Any]]
"""By the file of responses."""


def read_folders(names: Sequence[str], benchmarks: Sequence[str]) -> tuple[list[FinishedRun], str, list[str]]:
    """The runs that folders of runs, grids and evaluations name, the grid's baseline ("" if there is none), and notes.

    Where there are evaluations, or benchmarks are asked for, these take the place of what the runs were trained on.
    """
    evaluations = [Path(name) for name in names if is_evaluation(Path(name))]
    others = [name for name in names if Path(name) not in evaluations]
    named, baseline, notes = read_runs([*others, *(str(run.path) for run in runs_evaluated(evaluations))])
    runs = list({run.folder.path.resolve(): run for run in named}.values())
    if evaluations or benchmarks:
        places = evaluations or [run.folder / "evaluation" for run in runs]
        runs, left_out = with_evaluations(runs, places, benchmarks)
        notes = [*notes, *left_out]
    return runs, baseline, notes


def is_evaluation(path: Path) -> bool:
    """Whether it is a folder of `rlzoo eval` or a file in one, and not that of a run."""
    return path.suffix == ".jsonl" or ((path / RESULTS).exists() and not RunFolder(path).config.exists())


def runs_evaluated(paths: Iterable[Path]) -> list[RunFolder]:
    """The runs whose models these evaluations are of. Raises UserError if one is of another model."""
    runs = (_run_of(path, entry) for path, entry in _entries(paths).items())
    return list({run.path.resolve(): run for run in runs}.values())


def with_evaluations(
    runs: Sequence[FinishedRun], paths: Sequence[Path], benchmarks: Sequence[str]
) -> tuple[list[FinishedRun], list[str]]:
    """The runs with what was measured on all of them, in place of their own evaluations; and what was left out.

    `paths` are folders and files of `rlzoo eval`. `benchmarks` are the problem sets that count, all unless some are
    named. Raises UserError if evaluations cannot be compared.
    """
    wanted = [member for name in benchmarks for member in GROUPS.get(name, (name,))]
    entries = _entries(paths)
    of_runs = [_files(run, entries, wanted) for run in runs]
    shared = [condition for condition in of_runs[0] if all(condition in files for files in of_runs)]
    missing = [name for name in wanted if name not in _sets(shared)]
    if missing or not shared:
        lacking = next(
            (run for run, files in zip(runs, of_runs, strict=True) if not _sets(files) & {*missing}), runs[-1]
        )
        raise UserError(
            f"{lacking.folder.path} is not evaluated on {', '.join(missing) or 'what the others are'} as the others "
            f"are; rlzoo eval {lacking.folder.path} benchmarks={','.join(missing) or '...'} makes one"
        )
    for condition in shared:
        _check_same([files[condition] for files in of_runs], entries)
    left_out = dict.fromkeys(str(condition) for files in of_runs for condition in files if condition not in shared)
    notes = [f"Not all runs are evaluated on {name}; left out." for name in left_out]
    measured = [
        replace(run, files={condition: files[condition] for condition in shared})
        for run, files in zip(runs, of_runs, strict=True)
    ]
    return measured, notes


def _sets(conditions: Iterable[SetDecoding]) -> set[str]:
    return {condition.problem_set for condition in conditions}


def _entries(paths: Iterable[Path]) -> dict[Path, Mapping[str, Any]]:
    entries: dict[Path, Mapping[str, Any]] = {}
    for path in paths:
        is_file = path.suffix == ".jsonl"
        folder = path.parent if is_file else path
        results = read_results(folder)
        stems = [path.stem] if is_file else [stem for stem in results if not stem.endswith(".regraded")]
        for stem in stems:
            if stem not in results or not (folder / f"{stem}.jsonl").is_file():
                raise UserError(f"{folder / stem}.jsonl is gone, or not in {RESULTS}; rlzoo eval makes both")
            entries[folder / f"{stem}.jsonl"] = results[stem]
    return entries


def _run_of(path: Path, entry: Mapping[str, Any]) -> RunFolder:
    """The folder around the evaluation, if that is a run's, or else the one that was named when it was made."""
    with reading(path.parent / RESULTS):
        run = entry["run"]
        if run is None:
            raise UserError(
                f"{path} is of {entry['model']}, which is not the model of a run; a leaderboard compares runs"
            )
        around = RunFolder(path.parent.parent)
        return around if path.parent.name == "evaluation" and around.config.exists() else RunFolder(Path(run["folder"]))


def _files(run: FinishedRun, entries: Entries, wanted: Sequence[str]) -> dict[SetDecoding, Path]:
    """What was measured of a run, by problem set and decoding."""
    files: dict[SetDecoding, Path] = {}
    for path, entry in entries.items():
        with reading(path.parent / RESULTS):
            settings, of_run = entry["settings"], entry["run"]
            step, problem_set = of_run and of_run["step"], text(settings["problem_set"])
            decoding = Decoding(**settings["decoding"])
        if of_run is None or _run_of(path, entry).path.resolve() != run.folder.path.resolve():
            continue
        if wanted and problem_set not in wanted:
            continue
        if step != run.config.train.steps:
            raise UserError(f"{path} is of step {step} of {run.config.train.steps}; only last steps are compared")
        condition = SetDecoding.of(problem_set, decoding)
        if condition in files:
            raise UserError(f"{files[condition]} and {path} are both of {condition}; name files instead of folders")
        files[condition] = path
    order = {name: place for place, name in enumerate(wanted)}
    return dict(sorted(files.items(), key=lambda pair: order.get(pair[0].problem_set, 0)))


def _check_same(paths: Sequence[Path], entries: Entries) -> None:
    first, code = without_code(entries[paths[0]]["settings"]), entries[paths[0]]["settings"].get("code", {})
    for path in paths[1:]:
        if change := changed_sources(entries[path]["settings"].get("code", {}), code):
            raise UserError(f"{paths[0]} and {path} cannot be compared: {change} is not the same; evaluate one again")
        other = without_code(entries[path]["settings"])
        for key in dict.fromkeys([*first, *other]):
            if first.get(key) != other.get(key) and key not in _OF_A_RUN:
                raise UserError(
                    f"{paths[0]} and {path} cannot be compared: {key} is {first.get(key)} in one and "
                    f"{other.get(key)} in the other"
                )
        _check_same_graders(paths[0], path, entries)


def _check_same_graders(one: Path, other: Path, entries: Entries) -> None:
    """Refuses responses that were graded again with another version than those of the other file."""
    both = [entries[path] for path in (one, other)]
    with reading(other.parent / RESULTS):
        versions = [entry.get("regraded_with") or entry.get("environment") or {} for entry in both]
        differing = [name for name in _GRADERS if versions[0].get(name) != versions[1].get(name)]
    if differing and any("regraded_with" in entry for entry in both):
        first, second = (version.get(differing[0]) for version in versions)
        raise UserError(
            f"{one} and {other} cannot be compared: they are graded with different versions, {differing[0]} is {first} "
            f"in one and {second} in the other; grade both with rlzoo grade regrade=true overwrite=true"
        )
