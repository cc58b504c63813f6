r"""Any dataset with questions and answers: on the hub, or a local parquet, JSON or CSV file, or a folder.

Rows follow verl's schema (`prompt` with chat messages, `data_source`, `reward_model.ground_truth`) or have a question
and an answer in plain columns. Where the answer is a whole solution, its final `\boxed{}` and those joined to it count,
or what follows the last `####`, read as responses are.

A response must box its answer, which math-verify compares, or give it in the form that `task.answer_form` names, or
that the row asks for: by its `data_source`, the words of its prompt, or those of its gold answer
(rlzoo/tasks/forms.py). One kind of `data_source` differs: `kk_logic...` are Knights and Knaves.
"""

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from marshal import dumps
from pathlib import Path
from typing import Any, cast

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks.base import Grade, Grader, Problem
from rlzoo.tasks.boxed_math import LONGEST_ANSWER, normalised, right
from rlzoo.tasks.forms import AUTO, BOXED, FORM, FORMS, answer_in, asked_for, graded_form, written
from rlzoo.tasks.knights_and_knaves import (
    KNIGHTS_AND_KNAVES,
    gold_roles,
    is_knights_and_knaves,
    knights_and_knaves,
    roles_of,
)
from rlzoo.tasks.reward import ROW
from rlzoo.tasks.rows import (
    TOOLS,
    Columns,
    Rows,
    Split,
    check_text_alone,
    in_order,
    is_given,
    parted,
    plain,
    prompt_of,
    read_rows,
    split_names,
)
from rlzoo.tasks.text import (
    BEGUN,
    Boxes,
    Prompt,
    directed,
    goes_on,
    instructed,
    is_rendered,
    prompt_key,
    question,
    uninstructed,
)

MOST_HELD_OUT = 512
"""Questions that are split off at most, unless `task.held_out_rows` says how many."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class DatasetGrader:
    """Grades by the rule of the module's docstring. A right answer earns 1, except in Knights and Knaves."""

    wrong_reward: float = 0.0
    answer_form: str = AUTO

    def __call__(self, problem: Problem, response: str) -> Grade:
        if is_knights_and_knaves(problem):
            return knights_and_knaves(problem, response)
        answer = answer_of(problem, response, self.answer_form)
        correct = answer is not None and right(problem.answer, answer)
        return Grade(1.0 if correct else self.wrong_reward, float(correct))


def answer_of(problem: Problem, response: str, answer_form: str = AUTO) -> Boxes | None:
    """The answer that the docstring of the module asks for."""
    begun = problem.data.get(BEGUN, "")  # a prompt may have opened the box
    return answer_in(begun + response, graded_form(problem, answer_form))


def extracted(problem: Problem, response: str, answer_form: str = AUTO) -> str | None:
    """The answer as the response writes it; of Knights and Knaves, everybody's role."""
    if is_knights_and_knaves(problem):
        return roles_of(problem, response)
    boxes = answer_of(problem, response, answer_form)
    return None if boxes is None else str(boxes)


def problem_to_grade(gold: Any, data_source: str = "", prompt: Prompt = "", id: str = "") -> Problem:
    """A problem to grade with. Raises ValueError for a gold answer that is none."""
    problem = Problem(id, prompt, gold_of(gold), {"data_source": data_source, **form_of_gold(gold)})
    if is_knights_and_knaves(problem) and not gold_roles(problem.answer):
        raise ValueError("has no roles in its gold answer")
    return problem


class DatasetTask:
    """Train and held-out problems, each split read when it is first asked for.

    Two rows are the same where all that the model reads and the gold answer are; the same prompt with two gold answers
    is two problems. A dataset with one split, as every file has, is cut in two: some of its prompts are held out, by a
    hash of their text, so that they stay the same where rows are added or moved. Of two splits, training problems whose
    prompt is also held out are dropped, with a warning that counts them. Rows that the training split repeats stay
    repeated; held-out ones are taken once. Rows without question or answer are dropped, with a warning. Reading raises
    UserError if there is no such file, dataset, split or column, no usable row, or a prompt that asks for another form
    of the answer than is graded.
    """

    def __init__(self, config: TaskConfig, is_rendered: Callable[[str], bool] = is_rendered) -> None:
        self.name, self.is_rendered = config.name, is_rendered
        self.grader: Grader = DatasetGrader(config.wrong_reward, config.answer_form)
        self.config = config
        self.dropped: list[str] = []
        """The rows that were left out, each with the reason, of what has been read."""

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """The answer in plain notation; of Knights and Knaves, everybody's role."""
        answer = extracted(problem, response, self.config.answer_form)
        return answer if answer is None or is_knights_and_knaves(problem) else normalised(answer)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        rows = self._held_out_rows
        problems = self._split_off() if rows is None else self._problems(rows, self._other)
        those = _distinct(problems)
        return list({problem.id if self.config.environment else _same(problem): problem for problem in those}.values())

    @cached_property
    def train(self) -> Sequence[Problem]:
        problems = self._of_split
        held_out = self._asking(problems, set(map(self._identity, self.held_out)))
        kept = [problem for problem in problems if id(problem) not in held_out]
        if not kept:
            is_file = Path(self._other.source).expanduser().is_file()  # which has one split
            other = "task.held_out to other problems" if is_file else "task.held_out or task.held_out_split"
            raise UserError(f"all of {self._split} is held out as well; set {other}")
        if len(kept) < len(problems) and self._held_out_rows is not None:
            dropped = len(problems) - len(kept)
            _logger.warning(
                "%s: %d of %d problems are held out and not trained on", self._split, dropped, len(problems)
            )
        return kept

    @property
    def _takes_rows(self) -> bool:
        """Whether the user's own code makes the rewards and gets the columns of a row."""
        return bool(self.config.reward or self.config.environment)

    @property
    def _split(self) -> Split:
        return Split("task.name", self.config.name, "task.split", self.config.split)

    @property
    def _other(self) -> Split:
        config = self.config
        key, source = ("task.held_out", config.held_out) if config.held_out else ("task.name", config.name)
        return Split(key, source, "task.held_out_split", config.held_out_split)

    @cached_property
    def _held_out_rows(self) -> Rows | None:
        """The rows of the other split; None if there is none, or if it is not wanted."""
        config = self.config
        if config.held_out is None:
            whole = all(split.isidentifier() for split in (config.split, config.held_out_split))
            if config.held_out_rows or (whole and Path(config.name).expanduser().is_file()):
                return None
        try:
            rows = read_rows(self._other)
        except UserError:
            if config.held_out is None and split_names(self._split) == [config.split]:
                return None
            raise
        if config.held_out_seed:
            message = "task.held_out_seed=%d has no effect: %s is held out as it is; leave it out"
            _logger.warning(message, config.held_out_seed, self._other)
        return rows

    @cached_property
    def _of_split(self) -> list[Problem]:
        return self._problems(read_rows(self._split), self._split)

    def _split_off(self) -> list[Problem]:
        """Problems to hold out of a single split."""
        problems, config = self._of_split, self.config
        texts = {self._identity(problem): problem for problem in _distinct(problems)}
        count = config.held_out_rows or min(MOST_HELD_OUT, max(1, len(texts) // 8))
        if count >= len(texts) > 1 or (len(texts) == 1 and config.held_out_rows):
            raise UserError(
                f"task.held_out_rows={count}: {self._split} has {len(texts)} different questions, and some must be left"
            )
        held_out = self._asking(problems, set(sorted(texts, key=lambda text: self._place(texts[text]))[:count]))
        _logger.warning(
            "%s: %d of its %d questions are held out (task.held_out_rows=%d task.held_out_seed=%d)",
            *(self._split, count, len(texts), count, config.held_out_seed),
        )
        return [problem for problem in problems if id(problem) in held_out]

    def _asking(self, problems: Sequence[Problem], prompts: Set[object]) -> set[int]:
        """The ids of the objects among the problems that ask one of these."""
        return {id(problem) for problem in _distinct(problems) if self._identity(problem) in prompts}

    def _identity(self, problem: Problem) -> object:
        """What no two splits share: all that the model reads; with an environment each row begins an episode."""
        return problem.id if self.config.environment else prompt_key(problem.prompt)

    def _place(self, problem: Problem) -> bytes:
        """Where a problem stands in the order of holding out; `task.system_prompt` and `task.instruction` move none."""
        config, asks = self.config, replace(problem, prompt=uninstructed(problem.prompt, self.config.instruction))
        identity = self._identity(asks)
        messages = identity[bool(config.system_prompt) :] if isinstance(identity, tuple) else (("", identity),)
        text = str(messages[0][1]).strip() if len(messages) == 1 else json.dumps(messages)
        return blake2b(f"{config.held_out_seed} {text}".encode(), digest_size=8).digest()

    def _problems(self, rows: Rows, split: Split) -> list[Problem]:
        result, unusable = self._made(rows, split)
        if not result:
            raise UserError(f"{split} has no usable row: {unusable[0]}")
        rows_read = len(result) + len(unusable)
        self.dropped += unusable
        if unusable:
            _logger.warning("%s: %d of %d rows are dropped: %s ...", split, len(unusable), rows_read, unusable[0])
        if begun := sum(goes_on(problem.prompt) for problem in result):
            _logger.warning(
                "%s: %d of %d prompts end with words of the model's, which it goes on with", split, begun, rows_read
            )
        those = _distinct(result)
        if not self._takes_rows and (several := len({*map(_same, those)}) - len({*map(self._identity, those)})):
            _logger.warning("%s: %d rows ask what others ask, for another gold answer; all are kept", split, several)
        if unanswered := sum(map(has_no_answer, result)):
            _logger.warning(
                "%s: %d of %d rows have no answer; they are kept, and task.reward gets gold='' for them",
                *(split, unanswered, rows_read),
            )
        return result

    def _made(self, rows: Rows, split: Split) -> tuple[list[Problem], list[str]]:
        """The problems, and what is wrong with the rows that make none."""
        takes_rows = self._takes_rows
        columns = Columns.of(rows.column_names, split, self.config.columns, needs_answer=not takes_rows)
        if not takes_rows and (choices := columns.choices(rows.column_names, self.config.columns)):
            _logger.warning(
                "%s: the column %s is not read; write it into the questions, then task.columns.question=%s says so",
                *(split, choices, columns.question),
            )
        # Equal rows share one Problem, and are understood once: some datasets repeat theirs a hundred times.
        problems: dict[tuple[object, ...], Problem] = {}
        understood: dict[object, Problem] = {}
        result = []
        unusable = []
        place = f"{Path(split.source).stem}/{split.split}"
        names = rows.column_names if takes_rows else columns.read(rows.column_names)
        with_tools = 0
        for number, row in in_order(rows, names, split):
            with_tools += is_given(row.get(TOOLS))
            row = row if takes_rows else columns.reduced(row)
            whole = None if takes_rows else _as_key(row)
            if whole in understood:
                result.append(understood[whole])
                continue
            try:
                problem = self._problem(row, columns, f"{place}/{number - 1}")
            except ValueError as error:
                unusable.append(f"row {number} {error}")
                continue
            if not takes_rows:
                self._check_form(problem, f"{split} row {number}")
                problem = problems.setdefault(_same(problem), problem)
                understood[whole] = problem
            result.append(problem)
        if with_tools:
            _logger.warning(
                "%s: %d rows have tools in the column %s, which is not read; task.tools=./tools.py:NAME names tools",
                *(split, with_tools, TOOLS),
            )
        return result, unusable

    def _check_form(self, problem: Problem, row: str) -> None:
        """Raises UserError where a model that obeys its prompt would earn nothing, and no key says that this is so."""
        config = self.config
        is_knights = is_knights_and_knaves(problem)
        if is_knights and config.wrong_reward:
            raise UserError(
                f"task.wrong_reward={config.wrong_reward} has no effect on {row}: Knights and Knaves has rewards of "
                f"its own; leave it out"
            )
        if is_knights and config.answer_form not in (AUTO, "tags"):
            raise UserError(
                f"task.answer_form={config.answer_form} has no effect on {row}: Knights and Knaves is graded "
                f"{FORMS['tags'].said}; leave it out"
            )
        asked = asked_for(problem.prompt)
        graded = graded_form(problem, config.answer_form, asked)
        counted = {graded} if is_knights else {graded, BOXED}
        if asked and config.answer_form == AUTO and not counted.intersection(asked):
            otherwise = "tags" if is_knights else f"{asked[-1]}, or {graded} if that is what counts"
            raise UserError(
                f"task.answer_form=auto: the prompt of {row} asks for the answer {FORMS[asked[-1]].said}, and with "
                f"data_source={problem.data['data_source']} what stands {FORMS[graded].said} is graded; change the "
                f"prompts, or set task.answer_form={otherwise}"
            )

    def _problem(self, row: Mapping[str, Any], columns: Columns, id: str) -> Problem:
        """The problem of a row. Raises ValueError if its question or answer is missing or not understood."""
        config, raw = self.config, row[columns.question]
        raw = _as_text(raw) if isinstance(raw, bytes) else raw
        prompt, solution = parted(prompt_of(raw, self.is_rendered), columns.question)
        check_text_alone(prompt, row)
        answer = solution if columns.answer == columns.question else columns.answer_in(row)
        default = KNIGHTS_AND_KNAVES if (columns.answer or "").lower() == "solution_text_format" else ""
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
            data |= form_of_gold(answer)
        except ValueError:
            if not self._takes_rows:
                raise
            gold = ""  # a reward may make something of what is no text: it has the answer as the row does
        if not self._takes_rows and len(gold) > LONGEST_ANSWER and re.search(r"\s", gold):
            raise ValueError(
                f"has a text of more than {LONGEST_ANSWER} characters for an answer; box what counts of it"
            )
        return Problem(id, instructed(directed(prompt, config.system_prompt), config.instruction), gold, data)


def _as_key(row: Mapping[str, Any]) -> bytes | str:
    """Different for rows that differ in a value or its type. `marshal` is two to four times as fast as `repr`."""
    try:
        return dumps(cast(Any, row), 2)  # this version does not write which values are one object
    except ValueError:  # a subclass of a type, or a date
        return repr(row)


def has_no_answer(problem: Problem) -> bool:
    """Whether neither the problem nor its row has a gold answer, not even one that is no text."""
    truth = problem.data[ROW]["ground_truth"] if ROW in problem.data else None
    return not problem.answer and (truth is None or not str(truth).strip())


def _distinct(problems: Sequence[Problem]) -> Iterable[Problem]:
    """Each object once. Equal rows share an object, and there may be a million of them."""
    return {id(problem): problem for problem in problems}.values()


def _same(problem: Problem) -> tuple[object, ...]:
    """What makes two rows one: all that the model reads, the gold answer, and whose rules it is graded by."""
    truth = repr(problem.data[ROW]["ground_truth"]) if ROW in problem.data else ""
    return prompt_key(problem.prompt), problem.answer, problem.data["data_source"], truth


def gold_of(value: Any) -> str:
    """The gold answer as text, as the file has it, out of a solution if need be."""
    if isinstance(value, Mapping):
        value = value.get("solution_text_format")  # Knights and Knaves
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = ", ".join(map(gold_of, value))  # all of them are asked for, in any order (OlympiadBench)
    _, answer = written(_as_text(value))
    if not answer.strip():
        raise ValueError("has no answer")
    return answer.strip()


def form_of_gold(value: Any) -> dict[str, str]:
    """The form that a gold solution is written in, for a problem's data; boxes are nothing to be said."""
    form = written(value)[0] if isinstance(value, str) else ""
    return {} if form in ("", BOXED) else {FORM: form}


def _as_text(value: Any) -> str:
    """A value as it is spelled in a file; "" for what is missing. Raises ValueError for bytes that are no text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError("has bytes that are no text") from None
    return str(value)
