"""What Python and the commands both call: train, evaluate, compare. Rooms are imported when the words are checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from rlzoo.config import Config, InspectConfig, LeaderboardConfig, check_keys, flat, key_and_value, load_config
from rlzoo.config.zoo_names import check_names
from rlzoo.errors import UserError
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.scripts import end_reading, find_modules_here, path_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from rlzoo.comparing.compare import Failure

    Table: TypeAlias = DataFrame | list[dict[str, Any]]
    """A pandas frame where pandas is installed, and otherwise its rows."""

_SHORT = {"model": "model.name", "task": "task.name", "reward": "task.reward"}
"""Arguments with a name of their own -> the keys that they set."""


@contextmanager
def _call() -> Iterator[None]:
    """A call from a script or a command: what is wrong with an expression is the user's mistake as well."""
    end_reading()
    find_modules_here()
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "ObjectiveError":  # importing it imports torch
            raise
        raise UserError(str(error)) from None


@_call()
def train(*words: str | Path, progress: bool = True, **keys: Any) -> Run:
    """Trains a model with an objective, as `rlzoo train` does, and returns the finished run.

    `words` are files and `key=value` as on the command line. `keys` are the same: `objective="dapo", seed=1`; those
    with a dot as `**{"train.steps": 50}` or `train={"steps": 50}`. `model`, `task` and `reward` are `model.name`,
    `task.name` and `task.reward`; a reward may be a function of a module, or of the script that is running.
    `progress=False` prints nothing. Raises UserError, in one line and before any model loads, for a mistake.
    """
    from rlzoo.experiment.first_check import check_words

    config: Config = load_config([*map(str, words), *_words_of(keys)])
    check_words(config)

    from rlzoo.report.terminal import Terminal
    from rlzoo.training.run import train

    return Run(train(config, Terminal(quiet=not progress)).path)


@_call()
def evaluate(target: str | Path, *words: str | Path, progress: bool = True, **keys: Any) -> Table:
    """Evaluates a run's folder or a model, as `rlzoo eval` does; a row for each problem set and decoding.

    Keys are given as to `train`. Raises UserError for a key without effect, and for what cannot be evaluated.
    """
    from rlzoo.evaluation.target import read_target

    found = read_target(str(target), [*map(str, words), *_words_of(keys)])
    found.check()

    from rlzoo.evaluation.evaluate_target import evaluate_target
    from rlzoo.evaluation.kept import read_results
    from rlzoo.report.terminal import Terminal

    files = evaluate_target(found, Terminal(quiet=not progress))
    return _table([{"file": str(file), **read_results(file.parent)[file.stem]["figures"]} for file in files])


@_call()
def compare(
    objectives: Sequence[str] | str = (),
    *words: str | Path,
    seeds: int | Sequence[int] | str = 3,
    ablate: Sequence[str] | str = (),
    progress: bool = True,
    **keys: Any,
) -> Comparison:
    """Trains objectives on seeds and ranks them, as `rlzoo compare` does; every run is a process of its own.

    `seeds=3` are 0, 1 and 2; `seeds="auto(up_to=5)"` adds some where they decide something. `ablate` are expressions
    that are also trained without each of their parts. `jobs`, `launcher`, `output`, `baseline` and the like are the
    command's; other keys are given as to `train` and hold for all runs, or are lists, of which each value makes a row.
    Done runs are not run again. Raises UserError for what cannot be compared.
    """
    seeds = _native(seeds)
    numbers = list(range(seeds)) if isinstance(seeds, int) else seeds
    chosen = [f"seeds={seeds}"] if isinstance(seeds, str) else _words_of({"seeds": list(numbers)})
    settings = [*chosen, *_words_of(keys)]
    return compare_words([*_list(objectives), *map(str, words), *settings], _list(ablate), progress)


@_call()
def compare_words(words: Sequence[str], ablate: Sequence[str], progress: bool = True) -> Comparison:
    """The comparison that a command line asks for."""
    from rlzoo.comparing.words import read_grid_words

    own = read_grid_words(words).own

    from rlzoo.comparing.compare import compare
    from rlzoo.comparing.grid import Grid, read_grid
    from rlzoo.comparing.launchers import launching
    from rlzoo.report.grid_view import GridView

    grid, jobs = read_grid(words, ablate)
    with launching(own) as launcher:
        failures = compare(grid, jobs, GridView(quiet=not progress), launcher)
    grid = Grid.load(grid.folder)  # seeds may have been added
    for failure in failures:
        name = f"{failure.cell.objective} seed {failure.cell.seed}"
        print(f"rlzoo: {name} failed: {failure.message} ({failure.log})", file=sys.stderr)
    if failures:
        count = f"{len(failures)} of {len(grid.cells)} runs failed"
        print(f"rlzoo: {count}; the same call tries them again", file=sys.stderr)
    table = leaderboard(grid.folder, progress=progress)
    done = [Run(cell.folder.path) for cell in grid.cells if cell.folder.finished(cell.config)]
    return Comparison(grid.folder, table, done, failures)


@_call()
def leaderboard(*folders: str | Path, progress: bool = True, **keys: Any) -> Table:
    """The leaderboard of runs, folders of runs, grids and evaluations that are done, as `rlzoo leaderboard` shows it.

    A row is an objective and a decoding. Writes a page, a picture, Markdown and CSV. Raises UserError if the runs
    cannot be compared.
    """
    from rlzoo.comparing.words import is_setting

    words = [*map(str, folders), *_words_of(keys)]
    names = [word for word in words if not is_setting(word)]
    config: LeaderboardConfig = load_config([word for word in words if is_setting(word)], LeaderboardConfig)
    if not names:
        raise UserError("name a grid or runs, for example: rlzoo leaderboard runs/compare")
    check_keys(config)

    from rlzoo.comparing.default_folder import GRID
    from rlzoo.comparing.evaluated_runs import read_folders
    from rlzoo.comparing.grid import Grid
    from rlzoo.comparing.leaderboard import make_leaderboard
    from rlzoo.comparing.sequential import looks
    from rlzoo.report.leaderboard_csv import records
    from rlzoo.report.leaderboard_page import show_leaderboard

    runs, baseline, notes = read_folders(names, config.benchmarks)
    grids = [Grid.load(folder) for folder in {run.folder.path.parent for run in runs} if (folder / GRID).exists()]
    looked = max((len(looks(grid.up_to)) for grid in grids), default=1)
    board = make_leaderboard(runs, config.baseline or baseline, config.title, notes, config.equivalence, looked)
    of_one_grid = len(names) == 1 and (Path(names[0]) / GRID).exists() and not config.benchmarks
    show_leaderboard(board, Path(config.output or (names[0] if of_one_grid else "runs/leaderboard")), not progress)
    return _table(records(board))


@_call()
def inspect(folder: str | Path, *words: str, progress: bool = True, **keys: Any) -> Path:
    """Looks at the rollouts of a step of a run token by token, as `rlzoo inspect` does; returns the page.

    `against="grpo"`, `step=0` and the like are the command's keys. Raises UserError for what cannot be looked at.
    """
    config: InspectConfig = load_config([*words, *_words_of(keys)], InspectConfig)
    load_run(folder)
    check_names(config.objective)
    check_names(config.against)

    from rlzoo.inspecting.microscope import inspect_run
    from rlzoo.report.microscope_page import show_microscope

    return show_microscope(inspect_run(str(folder), config), not progress)


def load_run(folder: str | Path) -> Run:
    """The run in a folder, whether it is finished or not. Raises UserError if there is none."""
    RunFolder(Path(folder)).read_config()
    return Run(Path(folder))


@dataclass(frozen=True)
class Run:
    """A run, as its folder has it now: it may still be going on."""

    folder: Path

    @property
    def config(self) -> Config:
        """Every key, resolved."""
        return RunFolder(self.folder).read_config()

    @property
    def metrics(self) -> Table:
        """A row for each step: reward, accuracy, entropy, what each part touched, ..."""
        return _table(read_json_lines(RunFolder(self.folder).metrics))

    @property
    def timings(self) -> Table:
        """A row for each step: seconds, tokens and operations by phase."""
        return _table(read_json_lines(RunFolder(self.folder).timings))

    @property
    def evaluations(self) -> Table:
        """A row for each evaluation that training made: decoding, step, accuracy with its interval, ..."""
        from rlzoo.config import read_decodings
        from rlzoo.evaluation.evaluate import read_evaluations

        return _table(
            [
                {"decoding": str(decoding), "step": step, **evaluation.summary()}
                for decoding in read_decodings(self.config.evaluation.decodings)
                for step, evaluation in read_evaluations(RunFolder(self.folder), decoding).items()
            ]
        )

    @property
    def checkpoint(self) -> Path | None:
        """The newest one, a model folder that transformers and vLLM load; None if there is none yet."""
        return RunFolder(self.folder).last_checkpoint()

    def evaluate(self, *words: str | Path, progress: bool = True, **keys: Any) -> Table:
        """Evaluates the newest checkpoint: `rlzoo.evaluate`."""
        return evaluate(self.folder, *words, progress=progress, **keys)

    def inspect(self, *words: str, progress: bool = True, **keys: Any) -> Path:
        """Looks at its rollouts token by token: `rlzoo.inspect`."""
        return inspect(self.folder, *words, progress=progress, **keys)

    def curves(self) -> Figure:
        """The learning curves. Raises UserError if no step is done."""
        from rlzoo.report.curves import curves_of

        return curves_of(RunFolder(self.folder))


@dataclass(frozen=True)
class Comparison:
    """A grid of runs."""

    folder: Path
    table: Table
    """The leaderboard, as leaderboard.csv has it."""
    runs: Sequence[Run]
    """Those that are done."""
    failures: Sequence[Failure]
    """Those that are not, each with what it said."""


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    try:
        import pandas
    except ImportError:
        return [dict(row) for row in rows]
    return pandas.DataFrame(rows)


def _words_of(keys: Mapping[str, Any]) -> list[str]:
    """Keys from Python as a command line has them."""
    return [word for key, value in keys.items() for word in _words_of_one(key, value)]


def _words_of_one(key: str, value: Any) -> list[str]:
    if isinstance(value, Mapping) and not key.endswith("options"):
        return [word for name, inner in flat(value).items() for word in _words_of_one(f"{key}.{name}", inner)]
    if value is None and "." not in key:  # an argument that is not given; behind a dot, None is a value as in a file
        return []
    key = _SHORT.get(key, key)
    return [key_and_value(key, _plain(key, value))]


def _plain(key: str, value: Any) -> Any:
    """As JSON has it; a function is the name under which other processes find it."""
    if callable(value):
        return path_of(key, value)
    value = str(value) if isinstance(value, Path) else _native(value)
    if isinstance(value, Mapping):
        return {name: _plain(f"{key}.{name}", it) for name, it in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(key, it) for it in value]
    if value is None or isinstance(value, str | int | float):
        return value
    kind = type(value).__name__
    raise UserError(f"{key}: no key takes a value of type {kind}; give numbers, text, lists, a class or a function")


def _native(value: Any) -> Any:
    """Python's own number or lists instead of numpy's and torch's."""
    return value.tolist() if hasattr(value, "tolist") else value


def _list(value: Sequence[str] | str) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
