"""Grades the responses that an evaluation has kept once more, with the grader as it is now."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from rlzoo.config import RegradeConfig
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.environment import environment
from rlzoo.files import read_json_lines, write_json, write_json_lines
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.regrading import grading_task, problem_of

Record = dict[str, Any]
Change = tuple[Record, Record]
"""A response's record before and after it was graded again."""
NEEDED = ("problem", "prompt", "answer", "response", "correct", "reward", "outcome", "task", "data")


class RegradingView(Protocol):
    """What regrading tells whoever looks on."""

    def show_regraded(self, file: Path, target: Path, regraded: Sequence[Change], show: int) -> None:
        """A file is done: every record before and after. `show` changes are to be listed."""
        ...


def regrade(files: Sequence[Path], config: RegradeConfig, view: RegradingView) -> list[Path]:
    """Regrades files of responses and writes the new records; returns where. Raises UserError before it grades any."""
    files = _originals(files)
    targets = _targets(files, config)
    read = {file: _read(file) for file in files}
    for file, target in zip(files, targets, strict=True):
        records = regraded(read[file], config.workers, config.timeout)
        write_json_lines(target, records)
        _write_summary(file, target, records)
        view.show_regraded(file, target, list(zip(read[file], records, strict=True)), config.show)
    return targets


def regraded(records: Sequence[Record], workers: int = 1, timeout: float = 10.0) -> list[Record]:
    """The records with the grades of today; a truncated response stays wrong unless its run graded such texts."""
    result: list[Record] = []
    for _, group in groupby(records, key=lambda record: json.dumps(record["task"], sort_keys=True)):
        result += _regraded(list(group), workers, timeout)
    return result


def _regraded(records: Sequence[Record], workers: int, timeout: float) -> Iterator[Record]:
    task = grading_task(records[0]["task"])
    problems = [problem_of(record) for record in records]
    cut = [record["outcome"] == "truncated" for record in records]
    empty = [is_cut and not records[0]["task"].get("grade_truncated", False) for is_cut in cut]
    responses = ["" if is_empty else record["response"] for record, is_empty in zip(records, empty, strict=True)]
    with GraderPool(task.grader, workers, timeout) as pool:
        graded = pool.grade(problems, responses)
    for record, problem, is_cut, is_empty, one in zip(records, problems, cut, empty, graded, strict=True):
        grade = {"correct": one.grade.correct, "reward": one.grade.reward}
        outcome = {"outcome": "truncated" if is_cut else one.outcome}
        answer = {"final_answer": None if is_empty else task.final_answer(problem, record["response"])}
        yield {**record, **grade, **outcome, **(answer if "final_answer" in record else {})}


def _read(file: Path) -> list[Record]:
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; rlzoo regrade takes files of responses, FILE.jsonl")
    try:
        records = read_json_lines(file)
    except OSError as error:
        raise UserError(f"{file} is not readable: {error.strerror}") from None
    if not records:
        raise UserError(f"{file} holds no response")
    for number, record in enumerate(records, 1):
        missing = [key for key in NEEDED if not isinstance(record, Mapping) or key not in record]
        if missing:
            raise UserError(f"{file} line {number} cannot be graded again: it has no {', '.join(missing)}")
    return records


def _originals(files: Sequence[Path]) -> list[Path]:
    """Without what an earlier call wrote beside another of the files, which a pattern such as *.jsonl finds too."""
    written = [_beside(file) for file in files]
    return [file for file in files if file not in written]


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.stem}.regraded.jsonl")


def _targets(files: Sequence[Path], config: RegradeConfig) -> list[Path]:
    """Where the new records go. Raises UserError rather than name a file that is read, unless that is asked for."""
    if not files:
        raise UserError("there is nothing to grade again; name files of responses: rlzoo regrade FILE.jsonl")
    if config.workers < 1 or config.timeout <= 0 or config.show < 0:
        raise UserError(
            f"workers={config.workers} must be at least 1, timeout={config.timeout} greater than 0, "
            f"show={config.show} at least 0"
        )
    if config.overwrite:
        if config.output:
            raise UserError(f"output={config.output} has no effect with overwrite=true; leave one of them out")
        return list(files)
    if not config.output:
        return [_beside(file) for file in files]
    targets = [Path(config.output) / file.name for file in files]
    for target in targets:
        if targets.count(target) > 1:
            raise UserError(f"output={config.output}: two of the files are called {target.name}")
        if target.exists() and target.resolve() in [file.resolve() for file in files]:
            raise UserError(f"output={config.output} would replace {target}; overwrite=true does that")
    return targets


def _write_summary(file: Path, target: Path, records: Sequence[Record]) -> None:
    """The summary beside the new records, if the old have one."""
    old = file.with_suffix(".json")
    if old.is_file() and "sample" in records[0]:
        conditions = json.loads(old.read_text(encoding="utf-8"))
        regraded_with = {"regraded_with": environment()}
        write_json(target.with_suffix(".json"), {**conditions, **Evaluation.of(records).summary(), **regraded_with})
