"""Trains the cells that are not done, several at a time, each in a process that has trained others before."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from pebble import ProcessExpired, ProcessPool

from objectives import ObjectiveError
from rlzoo.errors import UserError, one_line
from rlzoo.lab.suite.catalogue import load_experiment
from rlzoo.lab.suite.cell import CellResult, make_start, run_cell
from rlzoo.lab.suite.cells import Cell, CellFile
from rlzoo.model.threads import one_thread
from rlzoo.scripts import WithoutMain
from rlzoo.tasks.outside import described

Work: TypeAlias = Callable[..., Any]
Each: TypeAlias = Callable[[Work, Sequence[tuple[Any, ...]]], Iterator[tuple[tuple[Any, ...], Any]]]
"""Calls a function with every item; yields items with what came of them, a text if that is an error."""


@dataclass(frozen=True)
class Failure:
    """A cell that could not be trained."""

    cell: Cell
    message: str


class RunningView(Protocol):
    """What is told while cells are trained."""

    def training(self, done: int, total: int) -> AbstractContextManager[None]:
        """While they are: of all cells that were asked for, so many were done before."""
        ...

    def starts(self, missing: int) -> None:
        """So many starting policies are made first."""
        ...

    def trained(self, cell: Cell, failure: Failure | None) -> None:
        """One is done, or has failed."""
        ...


def run_cells(cells: Sequence[Cell], file: CellFile, jobs: int, view: RunningView) -> list[Failure]:
    """Trains what is not in the file yet and appends it; returns those that failed. Raises UserError."""
    done = {record.identity for record in file.read()}
    missing = [cell for cell in cells if cell.identity not in done]
    starts = file.path.parent / "starts"
    failures = list[Failure]()
    lacking = {cell.start: (cell.written, starts / cell.start) for cell in missing}
    lacking = {name: start for name, start in lacking.items() if not start[1].is_dir()}
    with view.training(len(cells) - len(missing), len(cells)), _workers(min(jobs, max(1, len(missing)))) as each:
        view.starts(len(lacking))
        for _, made in each(_make_start, list(lacking.values())):
            if isinstance(made, str):
                raise UserError(made)
        for (cell, _), result in each(_train, [(cell, starts / cell.start) for cell in missing]):
            failure = Failure(cell, result) if isinstance(result, str) else None
            if failure:
                failures.append(failure)
            else:
                file.append(cell, result)
            view.trained(cell, failure)
    return failures


def _make_start(written: str, folder: Path) -> None:
    make_start(load_experiment(written), folder)


def _train(cell: Cell, start: Path) -> CellResult:
    return run_cell(load_experiment(cell.written), cell.arm, cell.seed, start)


@contextmanager
def _workers(jobs: int) -> Iterator[Each]:
    """One job is done in this process."""
    if jobs == 1:
        with one_thread():
            yield _here
        return
    context = WithoutMain()
    context.set_forkserver_preload([__name__])  # imported once for all
    pool = ProcessPool(jobs, initializer=_begin, context=context)
    try:
        yield partial(_elsewhere, pool)
    finally:
        pool.stop()
        pool.join()


def _here(function: Work, items: Sequence[tuple[Any, ...]]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for item in items:
        yield item, _attempt(function, item)


def _elsewhere(
    pool: ProcessPool, function: Work, items: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    waiting: dict[Future[Any], tuple[Any, ...]]
    waiting = {pool.schedule(_attempt, (function, item)): item for item in items}
    for future in as_completed(waiting):
        try:
            yield waiting[future], future.result()
        except ProcessExpired as error:
            yield waiting[future], f"its process has ended ({one_line(error)})"


def _begin() -> None:
    torch.set_num_threads(1)


def _attempt(function: Work, item: tuple[Any, ...]) -> Any:
    """What the function gives, or in a line why it gives nothing."""
    try:
        return function(*item)
    except (UserError, ObjectiveError) as error:
        return str(error)
    except Exception as error:  # whatever an experiment of somebody else's may raise
        return described(error)
