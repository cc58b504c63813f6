r"""Rewards in one function, from outside: `task.reward=my_module:reward` or `task.reward=./reward.py:reward`.

Four forms run as they are, told apart by the names of their parameters.

    def reward(response, gold, **columns):                            # ours: a number, or (reward, correctness)
    def reward(prompts, completions, **columns):                      # TRL's: a list of numbers
    def compute_score(data_source, solution_str, ground_truth, extra_info=None):     # verl's: a number, or a dict
    def reward_func(queries, prompts, labels):                        # OpenRLHF's: a dict with rewards and scores

**Ours** is called with `response` (its text), `gold` (the gold answer, out of a solution if need be), `question`,
`prompt` (what the model reads, text or chat messages) and each column of the row under its name; a function takes those
that it names, or all with `**columns`. A first parameter of another name is the response too. Where it names them it
gets `begun` as well (what the prompt has begun of the response, such as `<think>`), `raw` (the response with special
tokens) and `completion_ids` (the ids of its tokens).

**TRL's** names `prompts`, `completions`, `completion_ids`, `trainer_state` or `environments`, or has `**kwargs` alone.
It is called with one completion at a time, and each column as a list of one. Completions are chat messages where the
row's prompt is, or a system prompt makes it so, and text otherwise. It may be `async`. `trainer_state` knows
`global_step` and `max_steps`; what `log_extra` and `log_metric` are given goes nowhere. With `task.environment` it may
ask for `environments`: a list of one, the episode's.

**verl's** gets the ground truth as the row has it, and the row's `extra_info` with the turns that verl adds. It may be
`async`; a function for batches (`data_sources, solution_strs, ground_truths, extra_infos`) gets a batch of one.

**OpenRLHF's** gets lists of one as well: the prompt as the chat template has made it with the response behind it, both
with special tokens, that prompt alone, and the ground truth as the row has it. Its `scores` are the correctness where
they lie between 0 and 1.

**None** from a function of the first two forms says that it has no say in the row, as in TRL: the reward is the sum of
the others. Where no function has a say, the row's group is left out of training.

**Correctness**, which evaluations report, is what the function says: the second of its two values, or verl's `acc`.
Where it says nothing, a response is correct if its reward is at least 1. Of several functions the rewards are added up
with `task.reward_weights`; the correctness is that of the first that says it, or else comes of the reward of the first
that has a say.

An empty response, and so a truncated one unless `task.grade_truncated` is set, gets what the function gives to "".
"""

import asyncio
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks.base import Grade, Grader, Problem, Response, Task
from rlzoo.tasks.environment_class import environment_named
from rlzoo.tasks.grading import REMEDY, ForbiddenCall
from rlzoo.tasks.outside import described, load_outside
from rlzoo.tasks.text import BEGUN, Prompt, asked, question

Function = Callable[..., Any]
_ENVIRONMENTS = "environments"
ROW = "row"
"""The key of a problem's data under which a dataset keeps the columns of its row for rewards."""
ENOUGH = 1.0
"""The reward from which on a response is correct, where nothing else says it."""

_TRLS = frozenset(
    {_ENVIRONMENTS, "completions", "prompts", "completion_ids", "trainer_state", "log_extra", "log_metric"}
)
"""Parameters by which a function of TRL's form is known."""
_BATCHED = {
    "data_sources": "data_source",
    "solution_strs": "solution_str",
    "ground_truths": "ground_truth",
    "extra_infos": "extra_info",
}
"""What verl calls the parameters of a function for whole batches."""
_NONE_THERE = (float("nan"), None)
"""What a function gives that has no say in a row."""

_RETURNS = {
    "ours": "a number, (reward, correctness from 0 to 1), or None where it has no say",
    "trl": "a list with one number for each completion, or None where it has no say",
    "verl": "a number, or a dict with score",
    "openrlhf": "a dict with rewards, one number for each query",
}


@dataclass(frozen=True)
class TrainerState:
    """What rewards in TRL's form may read of the training, by the names that it has there."""

    global_step: int
    max_steps: int


@dataclass(frozen=True)
class Row:
    """Data of a dataset's row that reward functions get besides its problem."""

    question: str
    ground_truth: Any
    """As the row has it."""
    is_chat: bool
    """Whether the prompt is chat messages in the row already, or is made so by a system prompt."""
    columns: Mapping[str, Any]

    @classmethod
    def of(cls, problem: Problem) -> "Row":
        """That of a dataset's problem; for another task, the problem's own data are the columns."""
        if ROW in problem.data:
            return cls(**problem.data[ROW])
        columns = {name: value for name, value in problem.data.items() if name not in (BEGUN, "data_source")}
        return cls(question(problem.prompt), problem.answer, not isinstance(problem.prompt, str), columns)


@dataclass(frozen=True)
class RewardFunction:
    """A function from outside, in one of the four forms. Calling it gives a reward, and a correctness if it says one.

    Pickled by its name if it has been loaded by that, and as Python pickles functions otherwise.
    """

    written: str
    function: Function
    is_named: bool = True

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            (load_reward, (self.written,)) if self.is_named else (RewardFunction, (self.written, self.function, False))
        )

    def __call__(
        self, problem: Problem, response: str, environments: Sequence[Any] | None = None
    ) -> tuple[float, float | None]:
        """Raises UserError, with the question, for whatever the function raises or returns wrongly."""
        lacking = {"completion_ids", "raw"} - _of_tokens(response).keys()
        lacking -= Row.of(problem).columns.keys() - ({"completion_ids"} if self.form == "trl" else set())
        lacking |= {"queries"} if "raw" in lacking else set()
        if asked := sorted(self.parameters.keys() & lacking):
            raise UserError(f"{self} asks for {asked[0]}, and of a kept response only the text is known")
        try:
            positional, named = self._arguments(problem, response, environments)
            value = self.function(*positional, **named)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
        except (Exception, SystemExit) as error:
            remedy = f". {REMEDY}" if isinstance(error, ForbiddenCall) else ""
            raise UserError(f"{self} raised {described(error)} {_asked(problem, response)}{remedy}") from None
        try:
            return self._understood(value)
        except (TypeError, ValueError, LookupError, OverflowError):
            raise UserError(
                f"{self} returned {shown(value)} {_asked(problem, response)}; it must return {_RETURNS[self.form]}"
            ) from None

    def __str__(self) -> str:
        return f"task.reward={self.written}"

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Those of the function."""
        return inspect.signature(self.function).parameters

    @property
    def form(self) -> str:
        """`trl`, `verl`, `openrlhf` or `ours`, by the names of the parameters."""
        names = self.parameters.keys()
        if "queries" in names:
            return "openrlhf"
        if names & {"solution_str", "solution_strs"}:
            return "verl"
        if "response" in names and "completions" not in names:
            return "ours"
        has_only_kwargs = all(parameter.kind is parameter.VAR_KEYWORD for parameter in self.parameters.values())
        return "trl" if names & _TRLS or has_only_kwargs else "ours"

    @property
    def reads_tokens(self) -> bool:
        """Whether it asks for the tokens of a response."""
        return (self._takes_all and self.form == "trl") or bool(
            self.parameters.keys() & {"completion_ids", "raw", "trainer_state", "queries"}
        )

    @property
    def _takes_all(self) -> bool:
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in self.parameters.values())

    def check(self, problem: Problem, environments: Sequence[Any] | None = None) -> None:
        """Raises UserError for a parameter that neither the row of this problem nor rlzoo has, or that has no name."""
        positional, named = self._arguments(problem, "", environments)
        asked = [
            parameter
            for parameter in self.parameters.values()
            if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        ]
        for parameter in asked[len(positional) :]:
            if parameter.default is parameter.empty and parameter.name not in named:
                if parameter.name == _ENVIRONMENTS:
                    raise UserError(f"{self} asks for environments; set task.environment=./my_file.py:MyEnvironment")
                columns = ", ".join(Row.of(problem).columns) or "none"
                raise UserError(f"{self} asks for {parameter.name}, which no row has; the columns are {columns}")
        try:
            inspect.signature(self.function).bind(*positional, **named)
        except TypeError as error:
            raise UserError(f"{self} cannot be called with a response: {error}") from None

    def _arguments(
        self, problem: Problem, response: str, environments: Sequence[Any] | None
    ) -> tuple[list[Any], dict[str, Any]]:
        row, names = Row.of(problem), self.parameters
        known = {"begun": problem.data.get(BEGUN, ""), **_of_tokens(response)}
        if self.form == "openrlhf":
            read = response.prompt if isinstance(response, Response) else _prompt_text(problem.prompt)
            return [[read + known.get("raw", response)], [read], [row.ground_truth]], {}
        if self.form == "verl":
            given = _in_verls_words(problem, row, response)
            if "solution_strs" in names:
                given = {name: [given[one]] for name, one in _BATCHED.items()}
            return [], given if self._takes_all else _known({**known, **given}, names)
        if self.form == "trl":
            left_out = ("prompt", "completion", "completion_ids")
            columns = {name: [value] for name, value in row.columns.items() if name not in left_out}
            prompt, completion = _in_trls_words(problem.prompt, response, row.is_chat)
            given = {**columns, "prompts": [prompt], "completions": [completion]}
            given |= {"log_extra": _ignore, "log_metric": _ignore, "trainer_state": TrainerState(*_steps(response))}
            given |= {} if environments is None else {_ENVIRONMENTS: list(environments)}
            asked = {*names, "completion_ids"} - columns.keys()
            given |= {name: [value] for name, value in known.items() if name in asked}
            return [], given if self._takes_all else _known(given, names)
        standard = {"question": row.question, "gold": problem.answer, "prompt": problem.prompt, "response": response}
        given = {**_known(known, names), **row.columns, **standard}
        first = next(iter(names.values()))
        if "response" in names and names["response"].kind is not inspect.Parameter.POSITIONAL_ONLY:
            return [], given if self._takes_all else _known(given, names)
        others = {name: value for name, value in given.items() if name not in (first.name, "response")}
        return [response], others if self._takes_all else _known(others, names)

    def _understood(self, value: Any) -> tuple[float, float | None]:
        """A reward, NaN where the function has no say, and a correctness if it says one."""
        if self.form == "openrlhf":
            reward = _only(value["rewards"])
            score = reward if value.get("scores") is None else _only(value["scores"])
            return reward, score if 0 <= score <= 1 else None
        if self.form == "trl" or "solution_strs" in self.parameters:
            if isinstance(value, str | Mapping):
                raise TypeError
            (value,) = value
        if value is None and self.form != "verl":
            return _NONE_THERE
        if self.form == "verl" and isinstance(value, Mapping):
            return finite_number(value.get("score")), _share(value["acc"]) if "acc" in value else None
        if self.form == "ours" and isinstance(value, tuple):
            reward, correct = value
            return finite_number(reward), _share(correct)
        return finite_number(value), None


@dataclass(frozen=True)
class RewardGrader:
    """Grades by functions from outside, whose weighted rewards are added up."""

    rewards: tuple[RewardFunction, ...]
    weights: tuple[float, ...]
    unconfined: bool = False
    may_call = ("socket.", "ctypes.")
    """Judges are asked over connections; torch and tokenizers load libraries where they are first used."""
    runs_users_code = True
    may_abstain = True
    """A function may have no say in a row, for which NaN stands among the rewards."""

    @property
    def reads_tokens(self) -> bool:
        """Whether a function asks for the tokens of a response."""
        return any(reward.reads_tokens for reward in self.rewards)

    def __call__(self, problem: Problem, response: str) -> Grade:
        return weighted([reward(problem, response) for reward in self.rewards], self.weights)


def weighted(graded: Sequence[tuple[float, float | None]], weights: Sequence[float]) -> Grade:
    """The grade of what several functions gave: each a reward, NaN if it has no say, and a correctness if it says one.

    As in TRL the reward is the sum over those that have a say.
    """
    rewards = tuple(reward for reward, _ in graded)
    there = [(reward, weight) for reward, weight in zip(rewards, weights, strict=True) if not math.isnan(reward)]
    correctness = [correct for _, correct in graded if correct is not None]
    if not correctness:
        correctness = [float(bool(there) and there[0][0] >= ENOUGH)]
    total = sum(weight * reward for reward, weight in there)
    return Grade(total, correctness[0], rewards if len(rewards) > 1 else (), is_scored=bool(there))


@dataclass(frozen=True)
class EpisodeGrader:
    """In place of a grader where an episode's own process makes the rewards."""

    reads_tokens: bool = False
    """Whether these ask for the tokens of a response."""
    instant = True
    """It grades nothing, so that no process is begun for it."""

    def __call__(self, problem: Problem, response: str) -> Grade:
        raise UserError(
            f"a response to {problem.id} cannot be graded by its text: the rewards of task.environment are those of "
            f"its episodes; rlzoo eval samples and grades again"
        )


@dataclass(frozen=True)
class Rewarded:
    """A task whose responses are graded by functions from outside. Raises UserError if they ask for what no row has."""

    task: Task
    grader: Grader
    rewards: tuple[RewardFunction, ...]
    has_environment: bool = False

    @property
    def name(self) -> str:
        """The task's name."""
        return self.task.name

    @cached_property
    def train(self) -> Sequence[Problem]:
        """The task's."""
        return self._checked(self.task.train)

    @cached_property
    def held_out(self) -> Sequence[Problem]:
        """The task's."""
        return self._checked(self.task.held_out)

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """What the task takes for the answer."""
        return self.task.final_answer(problem, response)

    def _checked(self, problems: Sequence[Problem]) -> Sequence[Problem]:
        for reward in self.rewards:
            for problem in problems[:1]:
                reward.check(problem, [None] if self.has_environment else None)
        return problems


def rewarded(task: Task, config: TaskConfig) -> Task:
    """The task with the rewards that its configuration names, if it names any. Raises UserError for one of no use."""
    rewards = load_rewards(config)
    if config.environment:
        grader = EpisodeGrader(any(reward.reads_tokens for reward in rewards))
        return Rewarded(task, grader, rewards, has_environment=True)
    if not rewards:
        return task
    return Rewarded(task, RewardGrader(rewards, weights_of(config), config.unconfined_reward), rewards)


def weights_of(config: TaskConfig) -> tuple[float, ...]:
    """Of the rewards: of the functions of `task.reward`, and of an environment's own behind them."""
    return tuple(config.reward_weights) or (1.0,) * _reward_count(config)


def _reward_count(config: TaskConfig) -> int:
    environment = environment_named(config)
    return len(config.reward) + (len(environment.reward_names) if environment else 0)


def load_rewards(config: TaskConfig) -> tuple[RewardFunction, ...]:
    """The functions of `task.reward`. Raises UserError for one that is not there, and for weights that do not fit."""
    count = _reward_count(config) if config.reward_weights else 0
    if len(config.reward_weights) != count:
        environment = environment_named(config)
        of_environment = " and ".join(environment.reward_names) if environment else ""
        more = f" and {of_environment} in task.environment" if of_environment else ""
        raise UserError(
            f"task.reward_weights={config.reward_weights} are {len(config.reward_weights)} for "
            f"{len(config.reward)} functions in task.reward{more}; give each one a weight"
        )
    if config.unconfined_reward and (config.environment or not config.reward):
        other = config.environment or "a task without task.reward"
        raise UserError(f"task.unconfined_reward=true has no effect on {other}; leave it out")
    if (config.reward or config.environment) and config.wrong_reward:
        key = "task.reward" if config.reward else "task.environment"
        raise UserError(f"task.wrong_reward={config.wrong_reward} has no effect on {key}; leave it out")
    return tuple(load_reward(written) for written in config.reward)


def load_reward(written: str | Function) -> RewardFunction:
    """The function of that name, or the function itself. Raises UserError for one that is not there or no function."""
    if not isinstance(written, str):
        return RewardFunction(name_of(written), written, is_named=False)
    function = load_outside("task.reward", written)
    if not callable(function):
        raise UserError(f"task.reward={written} is {one_line(repr(function))}, and not a function")
    reward = RewardFunction(written, function)
    try:
        takes_something = bool(reward.parameters)
    except (TypeError, ValueError):  # some of what is built in has no signature
        raise UserError(
            f"task.reward={written} does not say what it takes; write def reward(response, gold, **columns)"
        ) from None
    if not takes_something:
        raise UserError(f"task.reward={written} takes no response; write def reward(response, gold, **columns)")
    return reward


def name_of(function: Function) -> str:
    """How `task.reward` names a function: by its module, or by the file of the script that defines it."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    place = Path(file).resolve() if function.__module__ == "__main__" and file else function.__module__
    return f"{place}:{name}"


def _known(given: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}


def _of_tokens(response: str) -> dict[str, Any]:
    """What is known of a response besides its text; nothing where only its text has been kept."""
    if isinstance(response, Response):
        return {"completion_ids": list(response.tokens), "raw": response.raw}
    return {} if response else {"completion_ids": [], "raw": ""}


def _steps(response: str) -> tuple[int, int]:
    return (response.step, response.steps) if isinstance(response, Response) else (0, 0)


def _prompt_text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else asked(prompt)


def _only(value: Any) -> float:
    """The number, or the only one in a list or tensor."""
    if isinstance(value, Sequence):
        (value,) = value
    return finite_number(value)


def _ignore(name: str, values: Any) -> None:
    """What TRL's functions may log by, which is kept nowhere here."""


def _in_verls_words(problem: Problem, row: Row, response: str) -> dict[str, Any]:
    """What verl's reward manager tells a function."""
    info = row.columns.get("extra_info") or {}
    if isinstance(info, Mapping):
        info = {**info, "num_turns": None, "rollout_reward_scores": {}}
    source = problem.data.get("data_source", "")
    return {"data_source": source, "solution_str": response, "ground_truth": row.ground_truth, "extra_info": info}


def _in_trls_words(prompt: Prompt, response: str, is_chat: bool) -> tuple[Any, Any]:
    """Prompt and completion, both chat messages or both text."""
    if not is_chat or isinstance(prompt, str):
        return _prompt_text(prompt), response
    return [dict(message) for message in prompt], [{"role": "assistant", "content": response}]


async def _awaited(value: Any) -> Any:
    return await value


def finite_number(value: Any) -> float:
    """Any finite number, of numpy and torch too. Raises TypeError, ValueError or OverflowError."""
    if value is None or isinstance(value, str | bytes):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def shown(value: Any) -> str:
    """A value in one line; its type where it cannot be written, as an integer of five thousand digits."""
    try:
        text = repr(value)
        return one_line(text if len(text) < 300 else f"{text[:290]} ...")
    except Exception:
        return f"a value of type {type(value).__name__}"


def _share(value: Any) -> float:
    share = finite_number(value)
    if not 0 <= share <= 1:
        raise ValueError
    return share


def _asked(problem: Problem, response: str) -> str:
    """The row and the response, for an error."""
    asked, replied = (text if len(text) <= 80 else text[:77] + "..." for text in (Row.of(problem).question, response))
    return f"for the question {asked!r} ({problem.id}) and the response {replied!r}"
