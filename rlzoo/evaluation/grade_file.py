"""Grades files of responses: JSON lines with gold and response, or those that an evaluation has kept."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rlzoo.config import flat
from rlzoo.config.command_keys import GradeConfig
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation, with_votes
from rlzoo.evaluation.kept import read_results, record_result
from rlzoo.experiment.machine import environment
from rlzoo.files import read_json_lines, text_of, write_json_lines, write_text
from rlzoo.records import COUNT, KEYS, NUMBER, PROMPT, TEXT, TEXT_OR_NOTHING, Fields
from rlzoo.tasks.base import Problem, Task
from rlzoo.tasks.dataset import DatasetGrader, extracted, problem_to_grade
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.regrading import grading_config, grading_task, problem_of
from rlzoo.tasks.rows import NamedTwice, prompt_of, read_line, spelled_line

Line = Mapping[str, Any]
Record = dict[str, Any]


# ---- lines of any origin ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """How many lines were graded, how many are right, and how many of each outcome there are."""

    target: Path
    lines: int
    correct: int
    answered: int
    outcomes: Mapping[str, int]

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in self.outcomes.items())
        share = f"{self.correct:,} of {self.lines:,} correct ({100 * self.correct / self.lines:.1f} %)"
        return f"{share}; {self.lines - self.answered:,} without an answer; {counts}; written to {self.target}"


def grade_file(file: Path, config: GradeConfig) -> Summary:
    """Grades the lines of a file and writes them with `correct`, `answer` and `outcome`, atomically.

    Whatever else a line has is carried along. Raises UserError, before it grades any, for a line that cannot be graded
    and for an output that exists already.
    """
    if config.reward:
        raise UserError(f"reward={config.reward} has no effect on lines with gold and response; add regrade=true")
    target = _target(config)
    lines = _read_lines(file)
    problems = [_problem(line, f"{file} line {number}") for number, line in lines.items()]
    responses = [line["response"] for line in lines.values()]
    with GraderPool(DatasetGrader(), config.workers, config.timeout) as pool:
        graded = pool.grade(problems, responses)
    written = [_graded(*each) for each in zip(lines.values(), problems, graded, strict=True)]
    write_text(target, "".join(f"{spelled_line(line)}\n" for line in written))
    correct = sum(line["correct"] == 1 for line in written)
    answered = sum(line["answer"] is not None for line in written)
    return Summary(target, len(written), correct, answered, Counter(line["outcome"] for line in written))


def _graded(line: Line, problem: Problem, graded: Graded) -> Record:
    answer = extracted(problem, line["response"])
    return {**line, "correct": graded.grade.correct, "answer": answer, "outcome": graded.outcome}


def _target(config: GradeConfig) -> Path:
    if not config.output:
        raise UserError("output= names no file; say where the graded lines go: output=OUT.jsonl")
    target = Path(config.output).expanduser()
    if target.is_dir():
        raise UserError(f"output={config.output} is a folder; name a file: output={target / 'graded.jsonl'}")
    if target.exists() and not config.overwrite:
        raise UserError(f"output={config.output} exists; overwrite=true replaces it")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"output={config.output} cannot be written: {error}") from None
    if not os.access(target.parent, os.W_OK):
        raise UserError(f"output={config.output} cannot be written: its folder is read-only")
    return target


def _read_lines(file: Path) -> dict[int, Line]:
    """The lines by their number, empty ones left out."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; rlzoo grade takes JSON lines with gold and response")
    try:
        text = text_of(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    lines = {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    if not lines:
        raise UserError(f"{file} holds no line")
    return {number: _parsed(line, f"{file} line {number}") for number, line in lines.items()}


def _parsed(text: str, place: str) -> Line:
    try:
        line = read_line(text)
    except NamedTwice as error:
        raise UserError(f"{place} {error}") from None
    except ValueError as error:
        raise UserError(f"{place} is not JSON: {error}") from None
    if not isinstance(line, Mapping):
        raise UserError(f"{place} is not an object with gold and response")
    missing = [key for key in ("gold", "response") if key not in line]
    if missing:
        raise UserError(f"{place} has no {' and no '.join(missing)}")
    for key in ("response", "data_source", "id"):
        if not isinstance(line.get(key, ""), str | int if key == "id" else str):
            raise UserError(f"{place}: {key} must be text, not {json.dumps(line[key])}")
    try:
        spelled_line(line).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place} has half of a character, which no file can hold: {error}") from None
    except RecursionError:
        raise UserError(f"{place} is nested too deep; flatten it") from None
    return line


def _problem(line: Line, place: str) -> Problem:
    prompt = line.get("prompt") or ""
    try:
        messages = prompt if isinstance(prompt, str) else prompt_of(prompt)
        return problem_to_grade(line["gold"], line.get("data_source", ""), messages, str(line.get("id", place)))
    except ValueError as error:
        raise UserError(f"{place} {error}") from None


# ---- the kept responses of an evaluation -----------------------------------------------------------------------------

KEPT = Fields(
    {
        **{"problem": TEXT, "prompt": PROMPT, "answer": TEXT, "response": TEXT, "correct": NUMBER, "reward": NUMBER},
        **{"outcome": TEXT, "task": KEYS, "data": KEYS},
    },
    {"sample": COUNT, "tokens": NUMBER, "final_answer": TEXT_OR_NOTHING, "vote": TEXT_OR_NOTHING},
)
"""What the record of a kept response needs to be graded again."""


@dataclass(frozen=True)
class Regraded:
    """The records of a file before and after they were graded again."""

    file: Path
    target: Path
    before: Sequence[Record]
    after: Sequence[Record]

    @property
    def changes(self) -> list[tuple[Record, Record]]:
        """The records whose grade is another one now."""
        pairs = zip(self.before, self.after, strict=True)
        return [(before, after) for before, after in pairs if before["correct"] != after["correct"]]


def regrade(files: Sequence[Path], config: GradeConfig, trust: Sequence[str] = ()) -> Iterator[Regraded]:
    """Grades files of kept responses again, with the grader as it is now or with `config.reward`, and writes them.

    Raises UserError before it grades any, also for a task or a reward from outside that a file names and `trust` does
    not cover.
    """
    files = _originals(files)
    targets = _targets(files, config)
    read = {file: _read_kept(file, config.reward) for file in files}
    named = [RecordedKeys(file, flat({"task": task})) for file, records in read.items() for task in _tasks(records)]
    check_recorded(named, [{"task.reward": [config.reward]}] if config.reward else (), trust)
    for file, records in read.items():
        _check_grades_text(file, records)
    for file, target in zip(files, targets, strict=True):
        records = regraded(read[file], config.workers, config.timeout, config.allow_unconfined)
        write_json_lines(target, records)
        _write_figures(file, target, records)
        yield Regraded(file, target, read[file], records)


def regraded(
    records: Sequence[Record], workers: int = 1, timeout: float = 10.0, allow_unconfined: bool = False
) -> list[Record]:
    """The records with the grades of today; a truncated response stays wrong unless its run graded such texts."""
    result: list[Record] = []
    for _, group in groupby(records, key=lambda record: json.dumps(record["task"], sort_keys=True)):
        of_task = list(group)
        task, problems = grading_task(of_task[0]["task"]), [problem_of(record) for record in of_task]
        responses = ["" if _counts_as_empty(record) else record["response"] for record in of_task]
        with GraderPool(task.grader, workers, timeout, allow_unconfined) as pool:
            graded = pool.grade(problems, responses)
            changed = [_changed(task, *each) for each in zip(of_task, problems, graded, strict=True)]
            result += with_votes(pool, problems, changed)
    return result


def _changed(task: Task, record: Record, problem: Problem, result: Graded) -> Record:
    grade = {"correct": result.grade.correct, "reward": result.grade.reward}
    outcome = {"outcome": "truncated" if record["outcome"] == "truncated" else result.outcome}
    answer = {"final_answer": None if _counts_as_empty(record) else task.final_answer(problem, record["response"])}
    return {**record, **grade, **outcome, **(answer if "final_answer" in record else {})}


def _counts_as_empty(record: Record) -> bool:
    return record["outcome"] == "truncated" and not record["task"].get("grade_truncated", False)


def _tasks(records: Sequence[Record]) -> Iterable[Record]:
    """What the lines of a file say of their tasks, each once."""
    return {json.dumps(record["task"], sort_keys=True): record["task"] for record in records}.values()


def _check_grades_text(file: Path, records: Sequence[Record]) -> None:
    for task in _tasks(records):
        if grading_config(task).environment:
            raise UserError(
                f"{file} cannot be graded again: the rewards of task.name={task['name']} are those of its environment, "
                f"and do not follow from a response's text; rlzoo eval samples and grades again"
            )


def _read_kept(file: Path, reward: str) -> list[Record]:
    """The records of a file, with another reward if one is named."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; regrade=true takes files of kept responses, FILE.jsonl")
    records = read_json_lines(file)
    if not records:
        raise UserError(f"{file} holds no response")
    for number, record in enumerate(records, 1):
        if wrong := KEPT.wrong(record):
            raise UserError(f"{file} line {number} cannot be graded again: it {wrong}")
    return [{**record, "task": {**record["task"], "reward": [reward]}} for record in records] if reward else records


def _originals(files: Sequence[Path]) -> list[Path]:
    """Without what an earlier call wrote beside another of the files, which a pattern such as *.jsonl finds too."""
    written = [_beside(file) for file in files]
    return [file for file in files if file not in written]


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.stem}.regraded.jsonl")


def _targets(files: Sequence[Path], config: GradeConfig) -> list[Path]:
    """Where the new records go. Raises UserError rather than name a file that is read, unless that is asked for."""
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
        if target.exists() or target.stem in read_results(target.parent):
            raise UserError(
                f"output={config.output} holds {target.name} already, or its figures; choose another output="
            )
    return targets


def _write_figures(file: Path, target: Path, records: Sequence[Record]) -> None:
    """The figures of the new records, if `results.json` has those of the old."""
    entry = read_results(file.parent).get(file.stem)
    if entry is not None:
        figures = Evaluation.of(records).summary()
        record_result(target, {**entry, "figures": figures, "regraded_with": environment()})
