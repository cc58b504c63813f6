"""What Python and the commands both call: train, evaluate, compare. Rooms are imported when the words are checked."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from objectives import ObjectiveError, end_reading, parse
from rlzoo.config import Config, load_config
from rlzoo.config.command_keys import InspectConfig, LeaderboardConfig, TrustConfig
from rlzoo.config.reading import own_words
from rlzoo.config.words import native, python_words
from rlzoo.errors import UserError, printable
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import made_folder, read_json_lines
from rlzoo.starting import starting

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from rlzoo.comparing.compare import RunFailure
    from rlzoo.evaluation.evaluate import Evaluations

    Results: TypeAlias = DataFrame | Path | Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]]
    """What anybody's models scored, a row for each response."""


@contextmanager
def user_call() -> Iterator[None]:
    """A call from a script or a command: what is wrong with an expression is the user's mistake as well."""
    end_reading()
    try:
        yield
    except ObjectiveError as error:
        raise UserError(str(error)) from None


@user_call()
def train(*words: str | Path, progress: bool = True, **keys: Any) -> Run:
    """Trains a model with an objective, as `rlzoo train` does, and returns the finished run.

    `words` are files and `key=value` as on the command line. `keys` are the same: `objective="dapo", seed=1`; those
    with a dot as `**{"train.steps": 50}` or `train={"steps": 50}`. `model`, `task` and `reward` are `model.name`,
    `task.name` and `task.reward`; a reward may be a function of a module, or of the script that is running.
    `progress=False` prints nothing. Raises UserError, in one line and before any model loads, for a mistake.
    """
    from rlzoo.experiment.check import check_words, with_modules_named

    config: Config = load_config([*map(str, words), *python_words(keys)])
    check_words(config)
    config = with_modules_named(config)

    with starting():
        from rlzoo.report.terminal import Terminal
        from rlzoo.training.run import train

        return Run(train(config, Terminal(quiet=not progress), _write_reports).path)


def _write_reports(folder: RunFolder, evaluations: Evaluations) -> None:
    from rlzoo.report.run_files import write_reports  # which draws: imported once there is something to draw

    write_reports(folder, evaluations)


@user_call()
def evaluate(target: str | Path, *words: str | Path, progress: bool = True, **keys: Any) -> DataFrame:
    """Evaluates a run's folder or a model, as `rlzoo eval` does; a row for each problem set and decoding.

    Keys are given as to `train`. Raises UserError for a key without effect, and for what cannot be evaluated.
    """
    from rlzoo.evaluation.target import read_target

    resolved = read_target(str(target), [*map(str, words), *python_words(keys)])
    resolved.check()

    with starting():
        from rlzoo.evaluation.evaluate_target import evaluate_target
        from rlzoo.evaluation.kept import read_results
        from rlzoo.report.terminal import Terminal

    files = evaluate_target(resolved, Terminal(quiet=not progress))
    return _table([{"file": str(file), **read_results(file.parent)[file.stem]["figures"]} for file in files])


@user_call()
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
    command's; other keys are given as to `train` and hold for all runs, or in a row for it alone:
    `"grpo train.learning_rate=1e-4"`. Done runs are not run again. Raises UserError for what cannot be compared.
    """
    seeds = native(seeds)
    numbers = list(range(seeds)) if isinstance(seeds, int) else seeds
    chosen = [f"seeds={seeds}"] if isinstance(seeds, str) else python_words({"seeds": list(numbers)})
    settings = [*chosen, *python_words(keys)]
    return compare_words([*_list(objectives), *map(str, words), *settings], _list(ablate), progress)


@user_call()
def compare_words(words: Sequence[str], ablate: Sequence[str], progress: bool = True) -> Comparison:
    """The comparison that a command line asks for."""
    from rlzoo.comparing.grid_words import read_grid_words

    keys = read_grid_words(words).keys

    from rlzoo.comparing.compare import compare
    from rlzoo.comparing.grid import Grid, read_grid
    from rlzoo.comparing.launchers import launching
    from rlzoo.report.grid_view import GridView

    grid, jobs = read_grid(words, ablate)
    with launching(keys) as launcher:
        failures = compare(grid, jobs, GridView(quiet=not progress), launcher, keys.equivalence)
    grid = Grid.load(grid.folder)  # seeds may have been added
    for failure in failures:
        name = f"{failure.cell.row} seed {failure.cell.seed}"
        print(printable(f"rlzoo: {name} failed: {failure.message} ({failure.log})"), file=sys.stderr)
    if failures:
        count = f"{len(failures)} of {len(grid.cells)} runs failed"
        print(f"rlzoo: {count}; the same call tries them again", file=sys.stderr)
    done = [Run(cell.folder.path) for cell in grid.cells if cell.folder.finished(cell.config)]
    try:
        table = leaderboard(grid.folder.absolute(), progress=progress, equivalence=keys.equivalence)
    except UserError as error:  # no run is done, or none of the baseline's
        if not failures:
            raise
        print(printable(f"rlzoo: no leaderboard: {error}"), file=sys.stderr)
        table = _table([])
    return Comparison(grid.folder, table, done, failures)


@user_call()
def leaderboard(*folders: str | Path | Results, progress: bool = True, **keys: Any) -> DataFrame:
    """The leaderboard of runs, folders of runs, grids and evaluations that are done, as `rlzoo leaderboard` shows it.

    In place of folders, one table of any trainer's results: a `.csv` or `.parquet` file, a frame, or a dictionary of
    columns: method, seed, problem, sample and value, a row for each response (`rlzoo.comparing.result_table`). A row of
    the board is an objective and a decoding. Writes a page, a picture, Markdown, CSV, and the
    answers in parquet. Raises UserError for what cannot be compared.
    """
    from rlzoo.comparing.grid_words import is_setting

    tables = [given for given in folders if not isinstance(given, str | Path)]
    words = [*(str(given) for given in folders if isinstance(given, str | Path)), *python_words(keys)]
    names = [word for word in words if not is_setting(word)]
    config: LeaderboardConfig = load_config([word for word in words if is_setting(word)], LeaderboardConfig)
    from rlzoo.comparing.result_table import is_result_table, write_answers

    tables += [Path(name) for name in names if is_result_table(name)]
    if tables:
        return _leaderboard_of_table(tables, names, config, progress)
    if not names:
        raise UserError("name a grid or runs, for example: rlzoo leaderboard runs/compare")

    from rlzoo.comparing.finished_runs import check_comparable, read_folders
    from rlzoo.comparing.grid import Grid
    from rlzoo.comparing.grid_words import GRID, RowWords
    from rlzoo.comparing.leaderboard import analysed_seeds, count_analysis, make_leaderboard
    from rlzoo.report.leaderboard import records, show_leaderboard
    from rlzoo.statistics.interim_analyses import looks

    if config.baseline:
        parse(RowWords.read(config.baseline).expression)  # what is typed is imported; what the folders name is not
    runs, baseline, notes = read_folders(names, config.benchmarks)
    check_comparable(runs)  # before it is counted as an analysis
    grids = [Grid.load(folder) for folder in {run.folder.path.parent for run in runs} if (folder / GRID).exists()]
    counts = []
    for grid in grids:
        seeds_of = analysed_seeds([run for run in runs if run.folder.path.parent == grid.folder], runs)
        planned = looks(grid.up_to) if grid.up_to else ()
        counts.append(len(planned) + count_analysis(grid.folder, seeds_of, planned))
    of_one_grid = len(names) == 1 and (Path(names[0]) / GRID).exists() and not config.benchmarks
    output = made_folder(Path(config.output or (names[0] if of_one_grid else "runs/leaderboard")))
    if loose := [run for run in runs if not (run.folder.path.parent / GRID).exists()]:
        counts.append(count_analysis(output, analysed_seeds(loose, runs, are_of_one_grid=False)))
    looked = max([1, *counts])
    settings = (config.title, notes, config.equivalence, looked, config.primary)
    board = make_leaderboard(runs, config.baseline or baseline, *settings)
    of_row = {str(row.name): [run for run in runs if run.identity == row.identity] for row in board.rows}
    write_answers(output / "answers.parquet", of_row, str(board.baseline.name), looked)
    show_leaderboard(board, output, not progress)
    return _table(records(board))


def _leaderboard_of_table(
    tables: Sequence[Results], names: Sequence[str], config: LeaderboardConfig, progress: bool
) -> DataFrame:
    from rlzoo.comparing.leaderboard import make_table_leaderboard
    from rlzoo.comparing.result_table import as_result_table, is_result_table, read_result_table
    from rlzoo.report.leaderboard import WRITTEN, records, show_leaderboard

    folders = [name for name in names if not is_result_table(name)]
    if folders or len(tables) > 1:
        raise UserError("a table of results is compared by itself; put all methods into one table, and name no folder")
    if config.benchmarks:
        raise UserError("benchmarks= is of runs; a table says in its column set what its problems are of")
    (given,) = tables
    table = read_result_table(given) if isinstance(given, Path) else as_result_table(given)
    output = made_folder(Path(config.output or "runs/leaderboard"))
    replaced = [file for file in map(output.joinpath, WRITTEN) if file.exists()]
    if isinstance(given, Path) and any(file.samefile(given) for file in replaced):
        raise UserError(f"output={output} would replace {given}, the table that is read; choose another output=")
    settings = (config.title, config.equivalence, config.primary, output)
    board = make_table_leaderboard(table, config.baseline, *settings)
    show_leaderboard(board, output, not progress)
    return _table(records(board))


@user_call()
def inspect(folder: str | Path, *words: str, progress: bool = True, **keys: Any) -> Path:
    """Looks at the rollouts of a step of a run token by token, as `rlzoo inspect` does; returns the page.

    `against="grpo"`, `step=0` and the like are the command's keys. Raises UserError for what cannot be looked at.
    """
    trusted, others = own_words([*words, *python_words(keys)], TrustConfig)
    config: InspectConfig = load_config(others, InspectConfig)
    load_run(folder)
    if config.output and Path(config.output).is_dir():
        raise UserError(f"output={config.output} is a folder; write the name of a page in it")
    for expression in filter(None, (config.objective, config.against)):
        parse(expression)

    with starting():
        from rlzoo.inspecting.microscope import inspect_run
        from rlzoo.report.microscope_page import show_microscope

        return show_microscope(inspect_run(str(folder), config, trusted.trust), not progress)


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
    def metrics(self) -> DataFrame:
        """A row for each step: reward, accuracy, entropy, what each part touched, ..."""
        return _table(read_json_lines(RunFolder(self.folder).metrics))

    @property
    def timings(self) -> DataFrame:
        """A row for each step: seconds, tokens and operations by phase."""
        return _table(read_json_lines(RunFolder(self.folder).timings))

    @property
    def evaluations(self) -> DataFrame:
        """A row for each evaluation that training made: decoding, step, accuracy with its interval, ..."""
        from rlzoo.evaluation.evaluate import all_evaluations

        return _table(
            [
                {"decoding": str(decoding), "step": step, **evaluation.summary()}
                for decoding, by_step in all_evaluations(RunFolder(self.folder), self.config).items()
                for step, evaluation in by_step.items()
            ]
        )

    @property
    def checkpoint(self) -> Path | None:
        """The newest one, a model folder that transformers and vLLM load; None if there is none yet."""
        return RunFolder(self.folder).last_checkpoint()

    def evaluate(self, *words: str | Path, progress: bool = True, **keys: Any) -> DataFrame:
        """Evaluates the newest checkpoint: `rlzoo.evaluate`."""
        return evaluate(self.folder, *words, progress=progress, **keys)

    def inspect(self, *words: str, progress: bool = True, **keys: Any) -> Path:
        """Looks at its rollouts token by token: `rlzoo.inspect`."""
        return inspect(self.folder, *words, progress=progress, **keys)

    def curves(self) -> Figure:
        """The learning curves. Raises UserError if no step is done."""
        from rlzoo.report.run_files import curves_of

        return curves_of(RunFolder(self.folder))


@dataclass(frozen=True)
class Comparison:
    """A grid of runs."""

    folder: Path
    table: DataFrame
    """The leaderboard, as leaderboard.csv has it; empty if too many runs failed for one."""
    runs: Sequence[Run]
    """Those that are done."""
    failures: Sequence[RunFailure]
    """Those that are not, each with what it said."""


def _table(rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    import pandas

    return pandas.DataFrame(rows)


def _list(value: Sequence[str] | str) -> list[str]:
    return [value] if isinstance(value, str) else list(value)
