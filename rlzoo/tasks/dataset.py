r"""Any dataset with questions and answers: on the hub, or a local parquet or JSON file or folder.

Rows follow verl's schema (`prompt` with chat messages, `data_source`, `reward_model.ground_truth`) or have a question
and an answer in plain columns. Where the answer is a whole solution, its last `\boxed{}` counts or what follows `####`.

A response must box its answer, which math-verify compares. Two kinds of `data_source` differ: the prompts of
`openai/gsm8k` ask for the answer behind `####`, so there it may stand as well; `kk_logic...` are Knights and Knaves.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks.base import FORMATS, Grade, Grader, Problem
from rlzoo.tasks.boxed_math import normalised, right
from rlzoo.tasks.knights_and_knaves import gold_roles, knights_and_knaves, roles_of
from rlzoo.tasks.text import Boxes, Prompt, final_boxes, instructed, is_rendered, last_boxed

if TYPE_CHECKING:  # a grader's process has no use for it
    from datasets import Dataset

QUESTIONS = ("question", "problem", "prompt", "query", "quiz")
ANSWERS = ("answer", "final_answer", "ground_truth", "expected_answer", "solution_text_format", "solution", "target")
_GSM8K = "openai/gsm8k"
_KNIGHTS_AND_KNAVES = "kk_logic"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetGrader:
    """Grades by the rule of the module's docstring. A right answer earns 1, except in Knights and Knaves."""

    wrong_reward: float = 0.0

    def __call__(self, problem: Problem, response: str) -> Grade:
        data_source = problem.data["data_source"]
        if data_source.startswith(_KNIGHTS_AND_KNAVES):
            return knights_and_knaves(problem, response)
        answer = answer_of(problem, response)
        correct = answer is not None and right(problem.answer, answer)
        return Grade(1.0 if correct else self.wrong_reward, float(correct))


def answer_of(problem: Problem, response: str) -> Boxes | None:
    """The answer that the docstring of the module asks for."""
    boxes = final_boxes(response)
    if boxes is None and problem.data["data_source"] == _GSM8K and (number := after_hashes(response)):
        return Boxes((number,))
    return boxes


def extracted(problem: Problem, response: str) -> str | None:
    """The answer as the response writes it; of Knights and Knaves, everybody's role."""
    if problem.data["data_source"].startswith(_KNIGHTS_AND_KNAVES):
        return roles_of(problem, response)
    boxes = answer_of(problem, response)
    return None if boxes is None else str(boxes)


def problem_to_grade(gold: Any, data_source: str = "", prompt: Prompt = "", id: str = "") -> Problem:
    """A problem to grade with. Raises ValueError for a gold answer that is none."""
    answer = gold_of(gold)
    if data_source.startswith(_KNIGHTS_AND_KNAVES) and not gold_roles(answer):
        raise ValueError("has no roles in its gold answer")
    return Problem(id, prompt, answer, {"data_source": data_source})


@dataclass(frozen=True)
class Split:
    """Where problems come from, and the two keys that say so."""

    key: str
    source: str
    split_key: str
    split: str

    def __str__(self) -> str:
        return f"{self.key}={self.source} ({self.split_key}={self.split})"


class DatasetTask:
    """Train and held-out problems, each split read when it is first asked for.

    Training problems whose question is also held out are dropped, with a warning that counts them. Questions that the
    training split repeats stay repeated; held-out ones are taken once. Rows without question or answer are dropped,
    with a warning. Reading raises UserError if there is no such file, dataset, split or column, or no usable row.
    """

    def __init__(self, config: TaskConfig) -> None:
        self.name = config.name
        self.grader: Grader = DatasetGrader(config.wrong_reward)
        self.config = config

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """The answer in plain notation; of Knights and Knaves, everybody's role."""
        answer = extracted(problem, response)
        is_mathematical = not problem.data["data_source"].startswith(_KNIGHTS_AND_KNAVES)
        return normalised(answer) if answer is not None and is_mathematical else answer

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        config = self.config
        key, source = ("task.held_out", config.held_out) if config.held_out else ("task.name", config.name)
        problems = self._problems(Split(key, source, "task.held_out_split", config.held_out_split))
        return list({question(problem.prompt): problem for problem in problems}.values())

    @cached_property
    def train(self) -> Sequence[Problem]:
        split = Split("task.name", self.config.name, "task.split", self.config.split)
        problems = self._problems(split)
        held_out = {question(problem.prompt) for problem in self.held_out}
        kept = [problem for problem in problems if question(problem.prompt) not in held_out]
        if not kept:
            raise UserError(f"all of {split} is held out as well; set task.held_out or task.held_out_split")
        if len(kept) < len(problems):
            dropped = len(problems) - len(kept)
            _logger.warning("%s: %d of %d problems are held out and not trained on", split, dropped, len(problems))
        return kept

    def _problems(self, split: Split) -> list[Problem]:
        rows = read_rows(split)
        columns = Columns.of(rows.column_names, split)
        # Equal rows share one Problem: some datasets repeat theirs a hundred times.
        problems: dict[tuple[str, str], Problem] = {}
        result = []
        unusable = []
        for number, row in enumerate(rows):
            try:
                problem = columns.problem(row, f"{Path(split.source).stem}/{split.split}/{number}")
            except ValueError as error:
                unusable.append(f"row {number} {error}")
                continue
            if problem.data["data_source"].startswith(_KNIGHTS_AND_KNAVES) and self.config.wrong_reward:
                raise UserError(
                    f"task.wrong_reward={self.config.wrong_reward} has no effect on {split}: Knights and Knaves has "
                    f"rewards of its own; leave it out"
                )
            problem = replace(problem, prompt=instructed(problem.prompt, self.config.instruction))
            result.append(problems.setdefault((question(problem.prompt), problem.answer), problem))
        if not result:
            raise UserError(f"{split} has no usable row: {unusable[0]}")
        if unusable:
            _logger.warning("%s: %d of %d rows are dropped: %s ...", split, len(unusable), len(rows), unusable[0])
        return result


def read_rows(split: Split) -> "Dataset":
    """The rows of a split: of a file (where the split may be a slice such as `train[:100]`), a folder, or a hub id."""
    import datasets

    # One clear error from here instead of a log and a bar from there.
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)
    path = Path(split.source).expanduser()
    try:
        if path.is_file():
            name = re.split(r"\W", split.split)[0]
            rows = datasets.load_dataset(FORMATS[path.suffix], data_files={name: str(path)}, split=split.split)
        elif path.is_dir():
            rows = datasets.load_dataset(str(path.absolute()), split=split.split)
        else:
            name, _, configuration = split.source.partition(":")
            rows = datasets.load_dataset(name, configuration or None, split=split.split)
    except Exception as error:
        reason = one_line(error.__cause__ or error)
        raise UserError(f"{split} cannot be read or is empty: {reason or type(error).__name__}") from error
    if not len(rows):
        raise UserError(f"{split} is empty")
    return rows


@dataclass(frozen=True)
class Columns:
    """Which columns hold the question and the answer of a row."""

    question: str
    answer: str

    @classmethod
    def of(cls, names: Sequence[str], split: Split) -> "Columns":
        """Finds them by name; capitals do not matter. Verl's schema comes first."""
        if "prompt" in names and "reward_model" in names:
            return cls("prompt", "reward_model")
        lower = {name.lower(): name for name in names}
        questions = [lower[name] for name in QUESTIONS if name in lower]
        answers = [lower[name] for name in ANSWERS if name in lower]
        if not questions or not answers:
            raise UserError(
                f"{split} has the columns {', '.join(names)}; it needs prompt and reward_model (verl's schema), or "
                f"a question ({', '.join(QUESTIONS)}) and an answer ({', '.join(ANSWERS)})"
            )
        return cls(questions[0], answers[0])

    def problem(self, row: Mapping[str, Any], id: str) -> Problem:
        """The problem of a row. Raises ValueError if its question or answer is missing or not understood."""
        answer = row[self.answer]
        if self.answer == "reward_model":
            answer = (answer or {}).get("ground_truth")
        own = _KNIGHTS_AND_KNAVES if self.answer.lower() == "solution_text_format" else ""
        return Problem(
            id, prompt_of(row[self.question]), gold_of(answer), {"data_source": row.get("data_source") or own}
        )


def prompt_of(value: Any) -> Prompt:
    """Chat messages; plain text only where a chat template has been applied already."""
    messages = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not messages or not all(message.get("role") and message.get("content") for message in messages):
        raise ValueError("has no question")
    if len(messages) == 1 and is_rendered(messages[0]["content"]):
        return messages[0]["content"]
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def gold_of(value: Any) -> str:
    """The gold answer as text, out of a solution if need be."""
    if isinstance(value, Mapping):
        value = value.get("solution_text_format")  # Knights and Knaves
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(gold_of(one) for one in value)  # all of them are asked for, in any order (OlympiadBench)
    text = "" if value is None else str(value)
    if "\\boxed" in text:
        text = last_boxed(text) or ""
    elif "####" in text:
        text = after_hashes(text) or ""
    if not text.strip():
        raise ValueError("has no answer")
    return text.strip()


def after_hashes(text: str) -> str | None:
    """The number behind the last `####`, as in GSM8K."""
    numbers = re.findall(r"####[ \t]*\$?(-?[\d,]*\.?\d+)", text)
    return numbers[-1] if numbers else None


def question(prompt: Prompt) -> str:
    """What tells problems apart: the last message."""
    return (prompt if isinstance(prompt, str) else prompt[-1]["content"]).strip()
