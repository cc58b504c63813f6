"""Grades anybody's responses: JSON lines with a gold answer and a response in, the same with their grades out."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config import GradeConfig
from rlzoo.errors import UserError
from rlzoo.files import read_json, write_json_lines
from rlzoo.tasks.base import Problem
from rlzoo.tasks.dataset import DatasetGrader, extracted, problem_to_grade
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.prompts import prompt_of

Line = Mapping[str, Any]


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
    target = _target(config)
    lines = _read(file)
    problems = [_problem(line, f"{file} line {number}") for number, line in lines.items()]
    responses = [line["response"] for line in lines.values()]
    with GraderPool(DatasetGrader(), config.workers, config.timeout) as pool:
        graded = pool.grade(problems, responses)
    written = [_graded(*each) for each in zip(lines.values(), problems, graded, strict=True)]
    write_json_lines(target, written)
    return _summary(target, written)


def _graded(line: Line, problem: Problem, graded: Graded) -> dict[str, Any]:
    answer = extracted(problem, line["response"])
    return {**line, "correct": graded.grade.correct, "answer": answer, "outcome": graded.outcome}


def _summary(target: Path, written: Sequence[Line]) -> Summary:
    correct = sum(line["correct"] == 1 for line in written)
    answered = sum(line["answer"] is not None for line in written)
    return Summary(target, len(written), correct, answered, Counter(line["outcome"] for line in written))


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


def _read(file: Path) -> dict[int, Line]:
    """The lines by their number, empty ones left out."""
    if not file.is_file():
        raise UserError(f"{file}: there is no such file; rlzoo grade takes JSON lines with gold and response")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    lines = {number: line for number, line in enumerate(text.split("\n"), 1) if line.strip()}
    if not lines:
        raise UserError(f"{file} holds no line")
    return {number: _parsed(line, f"{file} line {number}") for number, line in lines.items()}


def _parsed(text: str, place: str) -> Line:
    try:
        line = read_json(text)
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
        json.dumps(line, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place} has half of a character, which no file can hold: {error}") from None
    return line


def _problem(line: Line, place: str) -> Problem:
    prompt = line.get("prompt") or ""
    try:
        messages = prompt if isinstance(prompt, str) else prompt_of(prompt)
        return problem_to_grade(line["gold"], line.get("data_source", ""), messages, str(line.get("id", place)))
    except ValueError as error:
        raise UserError(f"{place} {error}") from None
