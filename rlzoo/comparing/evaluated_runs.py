"""Runs with what `rlzoo eval` measured of them: on benchmarks, or on their task with other decodings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlzoo.comparing.finished_runs import FinishedRun, read_runs
from rlzoo.comparing.problem_sets import SetDecoding
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.evaluation.kept import RESULTS, read_results, without_code
from rlzoo.experiment.identity import changed_sources
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.records import reading, text
from rlzoo.tasks.benchmarks import GROUPS

_OF_A_RUN = ("seed", "model.weights")
"""Settings of an evaluation in which those of two runs differ."""

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
