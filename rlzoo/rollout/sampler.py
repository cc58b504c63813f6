"""Problems in, graded rows out: one response to each prompt, or turns of the policy that an environment answers."""

import itertools
import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.profiler import record_function

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.rollout.base import RolloutEngine, Rollouts, Sampling, cut_at_stop
from rlzoo.tasks.base import Grade, Problem, Response
from rlzoo.tasks.environments import Environment, Start, Step, Turn, seed_of
from rlzoo.tasks.episodes import open_environment
from rlzoo.tasks.grading import Graded, GraderPool
from rlzoo.tasks.text import BEGUN, Prompt, asked, asking, goes_on

PHASES = ("generate", "grade", "score", "plan", "train", "sync")
"""What a step is made of, by the names that `timings.jsonl` and a trace have for it."""
MODEL_PHASES = ("generate", "score", "train")
"""Those in which the model calculates."""


def span(phase: str) -> record_function:
    """A span `rlzoo/PHASE` in a trace by torch's profiler; untraced, it costs ten microseconds."""
    return record_function(f"rlzoo/{phase}")


@dataclass(frozen=True)
class GradedRollouts:
    """The responses to some problems with their grades; [N] as in `rollouts`.

    `outcomes` says how each grade came about: graded, truncated, timed_out or failed.
    """

    problems: Sequence[Problem]
    rollouts: Rollouts
    texts: Sequence[str]
    reward: Tensor
    correct: Tensor
    outcomes: Sequence[str]
    seconds: dict[str, float] = field(default_factory=dict)
    rewards: Tensor | None = None
    """[N, K] what each reward function gave, where there are several; NaN where it has no say."""
    scored: Tensor | None = None
    """[N] bool: whether any function of `task.reward` has a say; None where all rows are scored."""
    figures: Mapping[str, Tensor] = field(default_factory=dict)
    """[N] each: what an environment counts, such as turns."""
    credit: Mapping[str, Tensor] = field(default_factory=dict)
    """[N, T] each, by the names that objectives have for them: of several turns `turn`, `turn_reward`, `turn_state`."""
    transcripts: Sequence[str] = ()
    """All that was written behind each prompt, special tokens included, where `texts` are the last turns alone."""

    @property
    def is_scored(self) -> Tensor:
        """[N] bool: `scored`."""
        return torch.ones_like(self.reward, dtype=torch.bool) if self.scored is None else self.scored

    def problem_of(self, row: int) -> Problem:
        """The problem that a response answers."""
        return self.problems[int(self.rollouts.prompt[row])]


def _rewards(grades: Sequence[Grade]) -> Tensor | None:
    """[N, K]; None where nothing was graded apart. Raises UserError if a grader gives now more and now fewer."""
    counts = {len(grade.rewards) for grade in grades}
    if len(counts) > 1:
        raise UserError(uneven_rewards(counts))
    return torch.tensor([grade.rewards for grade in grades]) if counts - {0} else None


def uneven_rewards(counts: Collection[int]) -> str:
    """Says why different numbers of rewards for responses cannot be used."""
    several = " and ".join(map(str, sorted(counts)))
    return f"the grader of task.name gives {several} rewards for different responses; it must give as many for each"


@dataclass
class Conversation:
    """A row of several turns while it is written. Each list of the first five has an item for each token."""

    prompt: Sequence[int]
    tokens: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    """Whether the policy chose the token; the others are what an environment wrote."""
    logp: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    """The turn that the token belongs to, from 0; 0 for what an environment wrote."""
    turns: list[str] = field(default_factory=list)
    """What the policy wrote in each turn."""
    earned: list[float] = field(default_factory=list)
    """What each turn earned."""
    states: list[str] = field(default_factory=list)
    """The state in which each turn began."""
    state: str = ""
    """The state that is there now: what the policy read last, unless the environment names it."""
    truncated: bool = False
    calls: int = 0
    errors: int = 0

    def add_turn(self, sampled: Rollouts, row: int, text: str, room: int) -> None:
        """Adds a turn of the policy, at most `room` tokens of it."""
        length = int(sampled.lengths[row])
        kept = min(length, room)
        self.tokens += sampled.tokens[row, :kept].tolist()
        self.chosen += [True] * kept
        self.turn += [len(self.turns)] * kept
        self.logp += sampled.logp[row, :kept].tolist()
        self.entropy += sampled.entropy[row, :kept].tolist()
        self.truncated = kept < length or bool(sampled.truncated[row])
        self.turns.append(text)
        self.earned.append(0.0)
        self.states.append(self.state)

    def note(self, step: Step) -> None:
        """Notes what an environment answers: how many calls and errors, and the state that is there now."""
        self.calls += sum(answer.role == "tool" for answer in step.answers)
        self.errors += sum(answer.is_error for answer in step.answers)
        self.state = json.dumps([answer.text for answer in step.answers])

    def add_context(self, tokens: Sequence[int]) -> None:
        """Adds tokens that the policy did not choose."""
        self.tokens += tokens
        self.chosen += [False] * len(tokens)
        self.turn += [0] * len(tokens)
        self.logp += [0.0] * len(tokens)
        self.entropy += [0.0] * len(tokens)


@dataclass(frozen=True)
class Sampler:
    """Samples responses to problems and grades them.

    **One turn**, without an `environment`: all of a response is the policy's, and its text is graded. A truncated one
    is graded as if it were empty. With `grade_truncated` its text is graded; its outcome stays truncated.

    **Turns**, up to `max_turns` of the policy, with an environment: what it answers is context, which no loss sees. No
    turn is tokenised again. `rollout.max_response_tokens` bounds all tokens behind the prompt, those of the answers
    among them. The text of the last turn is graded, unless the environment makes the rewards. What it shows first
    stands at the end of the prompt's last message; these tokens are context of the row, not the prompt that a group
    shares.
    """

    engine: RolloutEngine
    graders: GraderPool
    tokenizer: Tokenizer
    grade_truncated: bool = False
    environment: Environment | None = None
    max_turns: int = 1

    def __call__(
        self,
        problems: Sequence[Problem],
        responses: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> GradedRollouts:
        """`responses` rows for each problem, side by side; `numbers` are the problems' among those of all ranks."""
        started = time.perf_counter()
        rows: list[Conversation] = []
        with span("generate"):
            if self.environment is None:
                rollouts = self.engine.generate(self.prompts(problems), responses, sampling, seed, numbers)
            else:
                places = range(len(problems)) if numbers is None else numbers
                with getattr(self.engine, "conversation", nullcontext)():
                    rollouts, rows = self._converse(self.environment, problems, responses, sampling, seed, places)
        sampled = time.perf_counter()
        with span("grade"):
            if self.environment is None:
                graded = self.graded(problems, rollouts, sampling.stop)
            else:
                graded = self._graded_turns(problems, rollouts, rows)
        return replace(graded, seconds={"generate": sampled - started, "grade": time.perf_counter() - sampled})

    def prompts(self, problems: Sequence[Problem]) -> list[list[int]]:
        """What the model reads of them before it writes anything."""
        return [self.tokenizer.encode(problem.prompt) for problem in problems]

    # ---- turns -------------------------------------------------------------------------------------------------------

    def _converse(
        self,
        environment: Environment,
        problems: Sequence[Problem],
        responses: int,
        sampling: Sampling,
        seed: int,
        places: Sequence[int],
    ) -> tuple[Rollouts, list[Conversation]]:
        """Samples all turns of `responses` rows for each problem; a row draws by its number among those of all ranks.

        Where the engine can be asked by several threads, a row waits for those of its problem alone, unless the
        environment is stateful.
        """
        starts = [
            Start(problem, place, place * responses + number)
            for problem, place in zip(problems, places, strict=True)
            for number in range(responses)
        ]
        begun = environment.reset(starts, seed)
        row_numbers = [start.row for start in starts]
        shown = ["".join(answer.text for answer in step.answers) for step in begun]
        if any(shown):
            sampled, rows = self._sample_shown(starts, shown, responses, sampling, seed)
        else:
            prompts = self.prompts(problems)
            sampled = self.engine.generate(prompts, responses, sampling, seed, places)
            rows = [Conversation(prompts[number]) for number in sampled.prompt.tolist()]
        for row, step, text in zip(rows, begun, shown, strict=True):
            row.errors += sum(answer.is_error for answer in step.answers)
            row.state = text if step.state is None else step.state
        self._add_turns(rows, sampled, sampling)
        waits = environment.is_stateful or not getattr(self.engine, "side_by_side", False)
        size = len(rows) if waits else responses
        parts = [{row: rows[row] for row in range(first, first + size)} for first in range(0, len(rows), size)]
        if len(parts) == 1:
            self._take_turns(environment, parts[0], row_numbers, sampling, seed)
        else:
            with ThreadPoolExecutor(len(parts)) as threads:
                ends = [
                    threads.submit(self._take_turns, environment, part, row_numbers, sampling, seed) for part in parts
                ]
            for end in ends:
                end.result()
        return _rollouts(sampled, rows), rows

    def _take_turns(
        self,
        environment: Environment,
        rows: Mapping[int, Conversation],
        row_numbers: Sequence[int],
        sampling: Sampling,
        seed: int,
    ) -> None:
        """Lets the environment answer the first turns of rows, and samples the others, until no row goes on."""
        for number in range(1, self.max_turns + 1):
            going = self._answer_turns(environment, rows, sampling, is_last=number == self.max_turns)
            if not going:
                return
            rows = going
            sampled = self._sample(
                [*rows.values()], sampling, seed_of(seed, number), [row_numbers[row] for row in rows]
            )
            self._add_turns([*rows.values()], sampled, sampling)

    def _answer_turns(
        self, environment: Environment, rows: Mapping[int, Conversation], sampling: Sampling, is_last: bool
    ) -> dict[int, Conversation]:
        """Adds to rows what is answered to the turns that they end with; returns those that go on.

        What is answered behind the end of an episode is counted, and is no part of the row.
        """
        turns = {
            number: Turn(row.turns[-1], len(row.turns), row.truncated, is_last or row.truncated)
            for number, row in rows.items()
        }
        going = {}
        for number, step in environment.step(turns).items():
            row = rows[number]
            row.earned[-1] = step.reward
            if step.answers and not turns[number].is_last:
                row.note(step)
                if not step.is_over and self._add_answers(row, step, sampling):
                    going[number] = row
            row.state = row.state if step.state is None else step.state
        return going

    def _add_answers(self, row: Conversation, step: Step, sampling: Sampling) -> bool:
        """Adds the tokens of answers; a row without room for a token behind them is truncated, and ends as it is."""
        messages = [{"role": answer.role, "content": answer.text} for answer in step.answers]
        tokens = self.tokenizer.answered(row.tokens, messages)
        row.truncated = len(tokens) >= _room(row, sampling)
        if not row.truncated:
            row.add_context(tokens)
        return not row.truncated

    def _sample(
        self, rows: Sequence[Conversation], sampling: Sampling, seed: int, row_numbers: Sequence[int]
    ) -> Rollouts:
        """Samples a turn of each row, which draws by its number among the rows of all processes."""
        room = max(_room(row, sampling) for row in rows)
        prompts = [[*row.prompt, *row.tokens] for row in rows]
        return self.engine.generate(prompts, 1, replace(sampling, max_response_tokens=room), seed, row_numbers)

    def _sample_shown(
        self, starts: Sequence[Start], texts: Sequence[str], responses: int, sampling: Sampling, seed: int
    ) -> tuple[Rollouts, list[Conversation]]:
        """Samples the first turn of each row, after the text that its episode shows."""
        problems = [start.problem for start in starts]
        prompts = self.prompts(problems)
        pairs = zip(problems, texts, strict=True)
        whole = self.prompts([replace(problem, prompt=_appended(problem.prompt, text)) for problem, text in pairs])
        groups = [range(first, first + responses) for first in range(0, len(problems), responses)]
        shared = [_shared_start([prompts[group[0]], *(whole[row] for row in group)]) for group in groups]
        rows = [Conversation(shared[row // responses]) for row in range(len(whole))]
        for row, tokens in zip(rows, whole, strict=True):
            row.add_context(
                tokens[len(row.prompt) :][: sampling.max_response_tokens - 1]
            )  # a turn has a token at least
        sampled = self._sample(rows, sampling, seed, [start.row for start in starts])
        return replace(sampled, prompts=shared, prompt=torch.arange(len(rows)) // responses), rows

    def _add_turns(self, rows: Sequence[Conversation], sampled: Rollouts, sampling: Sampling) -> None:
        cut, texts = cut_at_stop(sampled, sampling.stop, self.tokenizer.decode)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            room = _room(row, sampling)
            if int(cut.lengths[number]) > room:
                text = self.tokenizer.decode(cut.tokens[number, :room].tolist())
            row.add_turn(cut, number, text, room)

    # ---- grades ------------------------------------------------------------------------------------------------------

    def graded(self, problems: Sequence[Problem], rollouts: Rollouts, stop: Sequence[str] = ()) -> GradedRollouts:
        """Cuts rows of one turn at `stop` and grades them; `problems` are in the order of `rollouts.prompts`."""
        return self._graded(problems, *cut_at_stop(rollouts, stop, self.tokenizer.decode))

    def _graded_turns(
        self, problems: Sequence[Problem], rollouts: Rollouts, rows: Sequence[Conversation]
    ) -> GradedRollouts:
        graded = self._graded(problems, rollouts, [row.turns[-1] for row in rows])
        return replace(
            graded,
            figures=_figures(rows),
            credit=credit_of(rows, graded.reward.tolist()),
            transcripts=[str(self.tokenizer.backend.decode(row.tokens)) for row in rows],
        )

    def _graded(self, problems: Sequence[Problem], rollouts: Rollouts, texts: Sequence[str]) -> GradedRollouts:
        problems = [self._with_what_is_begun(*pair) for pair in zip(problems, rollouts.prompts, strict=True)]
        of_rows = [problems[number] for number in rollouts.prompt.tolist()]
        truncated = rollouts.truncated.tolist()
        empty = [cut and not self.grade_truncated for cut in truncated]
        counted = ["" if cut else text for text, cut in zip(texts, empty, strict=True)]
        counted = self._with_tokens(counted, rollouts) if self.graders.reads_tokens else counted
        results = self._grade(of_rows, counted)
        return GradedRollouts(
            problems=problems,
            rollouts=rollouts,
            texts=texts,
            reward=torch.tensor([result.grade.reward for result in results]),
            correct=torch.tensor([result.grade.correct for result in results]),
            outcomes=["truncated" if cut else it.outcome for it, cut in zip(results, truncated, strict=True)],
            rewards=_rewards([result.grade for result in results]),
            scored=torch.tensor([result.grade.is_scored for result in results]),
        )

    def _grade(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Graded]:
        """Grades each row by the text that counts: in its episode, or else by its problem."""
        graded = None if self.environment is None else self.environment.grade(texts)
        return self.graders.grade(problems, texts) if graded is None else graded

    def _with_tokens(self, texts: Sequence[str], rollouts: Rollouts) -> list[str]:
        """Gives the texts that count their tokens, for rewards that ask for them."""
        backend, steps = self.tokenizer.backend, (self.graders.step, self.graders.steps)
        lengths = [length if text else 0 for text, length in zip(texts, rollouts.lengths.tolist(), strict=True)]
        rows = [tokens[:length] for tokens, length in zip(rollouts.tokens.tolist(), lengths, strict=True)]
        prompts = [str(backend.decode(list(prompt))) for prompt in rollouts.prompts]
        read = [prompts[number] for number in rollouts.prompt.tolist()]
        return [
            Response.of(text, row, str(backend.decode(row)), *steps, prompt)
            for text, row, prompt in zip(texts, rows, read, strict=True)
        ]

    def _with_what_is_begun(self, problem: Problem, prompt: Sequence[int]) -> Problem:
        """The problem as its grader has to know it: with what the prompt has begun of the response.

        That are the model's own words at its end, or a tag that a chat template has opened.
        """
        last = "" if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
        begun = last if goes_on(problem.prompt) else self.tokenizer.begun(prompt)
        return replace(problem, data={**problem.data, BEGUN: begun}) if begun else problem


@contextmanager
def open_sampler(
    config: TaskConfig, engine: RolloutEngine, graders: GraderPool, tokenizer: Tokenizer
) -> Iterator[Sampler]:
    """The sampler of a task, with the processes of its environment while it is used."""
    with open_environment(config) as environment:
        yield Sampler(engine, graders, tokenizer, config.grade_truncated, environment, config.max_turns)


def _room(row: Conversation, sampling: Sampling) -> int:
    return sampling.max_response_tokens - len(row.tokens)


def _shared_start(rows: Sequence[Sequence[int]]) -> Sequence[int]:
    """The tokens that all of them begin with."""
    alike = itertools.takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False))
    return [tokens[0] for tokens in alike]


def _appended(prompt: Prompt, text: str) -> Prompt:
    """The prompt with a text at the end of the message that asks, as TRL appends what `reset` returns."""
    if isinstance(prompt, str):
        return prompt + text
    return asking(prompt, asked(prompt) + text)


def _rollouts(first: Rollouts, rows: Sequence[Conversation]) -> Rollouts:
    """The rows as rollouts; `first` has what they were sampled for, and by which policy."""
    mask = _padded([row.chosen for row in rows], torch.bool)
    return replace(
        first,
        tokens=_padded([row.tokens for row in rows], torch.long),
        lengths=torch.tensor([len(row.tokens) for row in rows]),
        mask=mask,
        logp=_padded([row.logp for row in rows], torch.float32),
        entropy=_padded([row.entropy for row in rows], torch.float32),
        truncated=torch.tensor([row.truncated for row in rows]),
        version=first.version[:, :1].where(mask, 0),
    )


def credit_of(rows: Sequence[Conversation], reward: Sequence[float]) -> dict[str, Tensor]:
    """[N, T] each: turns, what they earned, and the states in which they began.

    What the `reward` of a row is more than its turns earned is its last turn's.
    """
    numbers: dict[str, int] = {}
    earned, states = [], []
    for row, whole in zip(rows, reward, strict=True):
        last = row.earned[-1] + whole - sum(row.earned)
        by_turn = [*row.earned[:-1], last]
        of_state = [numbers.setdefault(state, len(numbers)) for state in row.states]
        earned.append([by_turn[turn] for turn in row.turn])
        states.append([of_state[turn] for turn in row.turn])
    return {
        "turn": _padded([row.turn for row in rows], torch.long),
        "turn_reward": _padded(earned, torch.float32),
        "turn_state": _padded(states, torch.long),
    }


def _padded(values: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
    """[N, T] lists of numbers, with zeros behind them."""
    return pad_sequence([torch.tensor(each, dtype=dtype) for each in values], batch_first=True)


def _figures(rows: Sequence[Conversation]) -> dict[str, Tensor]:
    counts = {
        "turns": [len(row.turns) for row in rows],
        "tool_calls": [row.calls for row in rows],
        "tool_errors": [row.errors for row in rows],
        "tool_tokens": [row.chosen.count(False) for row in rows],
    }
    return {name: torch.tensor(values, dtype=torch.float64) for name, values in counts.items()}
