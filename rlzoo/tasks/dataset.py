r"""Any dataset with questions and answers: on the hub, or a local parquet or JSON file or folder.

Rows follow verl's schema (`prompt` with chat messages, `data_source`, `reward_model.ground_truth`) or have a question
and an answer in plain columns. Where the answer is a whole solution, its last `\boxed{}` counts or what follows `####`.

A response must box its answer, which math-verify compares. Two kinds of `data_source` differ: the prompts of
`openai/gsm8k` ask for the answer behind `####`, so there it may stand as well; `kk_logic...` are Knights and Knaves.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks.base import Grade, Grader, Problem
from rlzoo.tasks.boxed_math import normalised, right
from rlzoo.tasks.knights_and_knaves import gold_roles, knights_and_knaves, roles_of
from rlzoo.tasks.prompts import parted, prompt_of
from rlzoo.tasks.reward import ROW
from rlzoo.tasks.rows import Columns, Split, in_order, plain, read_rows, split_names
from rlzoo.tasks.text import (
    BEGUN,
    Boxes,
    Prompt,
    directed,
    final_boxes,
    goes_on,
    instructed,
    is_rendered,
    last_boxed,
    question,
)

if TYPE_CHECKING:  # a grader's process has no use for it
    from datasets import Dataset

_GSM8K = "openai/gsm8k"
_KNIGHTS_AND_KNAVES = "kk_logic"
MOST_HELD_OUT = 512
"""Questions that are split off at most, unless `task.held_out_rows` says how many."""

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
    response = problem.data.get(BEGUN, "") + response  # a prompt may have opened the box
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


class DatasetTask:
    """Train and held-out problems, each split read when it is first asked for.

    A dataset with one split, as every file has, is cut in two: some of its questions are held out, by a hash of their
    text, so that they stay the same where rows are added or moved. Of two splits, training problems whose question is
    also held out are dropped, with a warning that counts them. Questions that the training split repeats stay repeated;
    held-out ones are taken once. Rows without question or answer are dropped, with a warning. Reading raises UserError
    if there is no such file, dataset, split or column, or no usable row.
    """

    def __init__(self, config: TaskConfig, is_rendered: Callable[[str], bool] = is_rendered) -> None:
        self.name, self.is_rendered = config.name, is_rendered
        self.grader: Grader = DatasetGrader(config.wrong_reward)
        self.config = config
        self.dropped: list[str] = []
        """The rows that were left out, each with the reason, of what has been read."""

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """The answer in plain notation; of Knights and Knaves, everybody's role."""
        answer = extracted(problem, response)
        is_mathematical = not problem.data["data_source"].startswith(_KNIGHTS_AND_KNAVES)
        return normalised(answer) if answer is not None and is_mathematical else answer

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        rows = self._held_out_rows
        problems = self._split_off() if rows is None else self._problems(rows, self._other)
        return list({self._identity(problem): problem for problem in problems}.values())

    @cached_property
    def train(self) -> Sequence[Problem]:
        problems = self._of_split
        held_out = set(map(self._identity, self.held_out))
        kept = [problem for problem in problems if self._identity(problem) not in held_out]
        if not kept:
            raise UserError(f"all of {self._split} is held out as well; set task.held_out or task.held_out_split")
        if len(kept) < len(problems) and self._held_out_rows is not None:
            dropped = len(problems) - len(kept)
            _logger.warning(
                "%s: %d of %d problems are held out and not trained on", self._split, dropped, len(problems)
            )
        return kept

    @property
    def _takes_rows(self) -> bool:
        """Whether something of the user's makes the rewards, and is told what a row says."""
        return bool(self.config.reward or self.config.episodes)

    @property
    def _split(self) -> Split:
        return Split("task.name", self.config.name, "task.split", self.config.split)

    @property
    def _other(self) -> Split:
        config = self.config
        key, source = ("task.held_out", config.held_out) if config.held_out else ("task.name", config.name)
        return Split(key, source, "task.held_out_split", config.held_out_split)

    @cached_property
    def _held_out_rows(self) -> "Dataset | None":
        """The rows of the other split; None if there is none, or if it is not wanted."""
        config = self.config
        if config.held_out is None:
            whole = all(split.isidentifier() for split in (config.split, config.held_out_split))
            if config.held_out_rows or (whole and Path(config.name).expanduser().is_file()):
                return None
        try:
            return read_rows(self._other)
        except UserError:
            if config.held_out is None and split_names(self._split) == [config.split]:
                return None
            raise

    @cached_property
    def _of_split(self) -> list[Problem]:
        return self._problems(read_rows(self._split), self._split)

    def _split_off(self) -> list[Problem]:
        """Problems to hold out of a single split."""
        problems, config = self._of_split, self.config
        texts = set(map(self._identity, problems))
        count = config.held_out_rows or min(MOST_HELD_OUT, max(1, len(texts) // 8))
        if count >= len(texts) > 1 or (len(texts) == 1 and config.held_out_rows):
            raise UserError(
                f"task.held_out_rows={count}: {self._split} has {len(texts)} different questions, and some must be left"
            )
        held_out = set(sorted(texts, key=lambda text: _place(text, config.held_out_seed))[:count])
        _logger.warning(
            "%s: %d of its %d questions are held out (task.held_out_rows=%d task.held_out_seed=%d)",
            *(self._split, count, len(texts), count, config.held_out_seed),
        )
        return [problem for problem in problems if self._identity(problem) in held_out]

    def _identity(self, problem: Problem) -> str:
        """What makes two rows one: the question; with an environment nothing does, as each row begins an episode."""
        return problem.id if self.config.episodes else question(problem.prompt)

    def _problems(self, rows: "Dataset", split: Split) -> list[Problem]:
        columns = Columns.of(rows.column_names, split, self.config.columns, needs_answer=not self._takes_rows)
        # Equal rows share one Problem, and are understood once: some datasets repeat theirs a hundred times.
        problems: dict[tuple[str, str], Problem] = {}
        understood: dict[str, Problem] = {}
        result = []
        unusable = []
        place = f"{Path(split.source).stem}/{split.split}"
        for number, row in in_order(rows if self._takes_rows else rows.select_columns(columns.read(rows)), split):
            written = "" if self._takes_rows else repr(row)
            if written in understood:
                result.append(understood[written])
                continue
            try:
                problem = self._problem(row, columns, f"{place}/{number - 1}")
            except ValueError as error:
                unusable.append(f"row {number} {error}")
                continue
            if problem.data["data_source"].startswith(_KNIGHTS_AND_KNAVES) and self.config.wrong_reward:
                raise UserError(
                    f"task.wrong_reward={self.config.wrong_reward} has no effect on {split}: Knights and Knaves has "
                    f"rewards of its own; leave it out"
                )
            if not self._takes_rows:
                problem = problems.setdefault((question(problem.prompt), problem.answer), problem)
                understood[written] = problem
            result.append(problem)
        if not result:
            raise UserError(f"{split} has no usable row: {unusable[0]}")
        self.dropped += unusable
        if unusable:
            _logger.warning("%s: %d of %d rows are dropped: %s ...", split, len(unusable), len(rows), unusable[0])
        if begun := sum(goes_on(problem.prompt) for problem in result):
            _logger.warning(
                "%s: %d of %d prompts end with words of the model's, which it goes on with", split, begun, len(rows)
            )
        if unanswered := sum(map(has_no_answer, result)):
            _logger.warning(
                "%s: %d of %d rows have no answer; they are kept, and task.reward gets gold='' for them",
                *(split, unanswered, len(rows)),
            )
        return result

    def _problem(self, row: Mapping[str, Any], columns: Columns, id: str) -> Problem:
        """The problem of a row. Raises ValueError if its question or answer is missing or not understood."""
        config, raw = self.config, row[columns.question]
        prompt, solution = parted(prompt_of(raw, self.is_rendered), columns.question)
        answer = solution if columns.answer == columns.question else columns.answer_in(row)
        default = _KNIGHTS_AND_KNAVES if (columns.answer or "").lower() == "solution_text_format" else ""
        data: dict[str, Any] = {"data_source": str(row.get("data_source") or default)}
        if self._takes_rows:
            data[ROW] = {
                "question": question(prompt),
                "ground_truth": plain(answer),
                "is_chat": not isinstance(raw, str) or bool(config.system_prompt),
                "columns": plain(row),
            }
        try:
            gold = gold_of(answer)
        except ValueError:
            if not self._takes_rows:
                raise
            gold = ""  # a reward may make something of what is no text: it has the answer as the row does
        return Problem(id, instructed(directed(prompt, config.system_prompt), config.instruction), gold, data)


def has_no_answer(problem: Problem) -> bool:
    """Whether neither the problem nor its row has a gold answer, not even one that is no text."""
    truth = problem.data[ROW]["ground_truth"] if ROW in problem.data else None
    return not problem.answer and (truth is None or not str(truth).strip())


def _place(text: str, seed: int) -> bytes:
    """Where a question stands in the order in which they are held out."""
    return blake2b(f"{seed} {text}".encode(), digest_size=8).digest()


def gold_of(value: Any) -> str:
    """The gold answer as text, out of a solution if need be."""
    if isinstance(value, Mapping):
        value = value.get("solution_text_format")  # Knights and Knaves
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = ",".join(gold_of(member) for member in value)  # all of them are asked for, in any order (OlympiadBench)
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
