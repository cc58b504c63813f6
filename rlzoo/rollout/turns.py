"""Rows of several turns: the policy writes, tools answer, and the policy goes on until a turn calls nothing."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from rlzoo.rollout.base import Rollouts, Sampling, answers_side_by_side, conversation
from rlzoo.rollout.sampler import GradedRollouts, SingleTurn, span
from rlzoo.rollout.stop import cut_at_stop
from rlzoo.tasks.base import Problem
from rlzoo.tasks.tools import MOST_CALLS, TOO_MANY, Answer, ToolPool, calls_in


@dataclass
class Conversation:
    """A row while it is written. Each list has an item for each token."""

    prompt: Sequence[int]
    seed: int = 0
    """From which its tools draw."""
    tokens: list[int] = field(default_factory=list)
    chosen: list[bool] = field(default_factory=list)
    """Whether the policy chose the token; the others are what tools answered."""
    logp: list[float] = field(default_factory=list)
    entropy: list[float] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    """The turn that the token belongs to, from 0; of what tools answered, 0."""
    turns: list[str] = field(default_factory=list)
    """What the policy wrote in each turn."""
    earned: list[float] = field(default_factory=list)
    """What each turn earned."""
    states: list[str] = field(default_factory=list)
    """The state in which each turn began."""
    state: str = ""
    """That which is there now: what the policy was shown last, unless the environment says it."""
    truncated: bool = False
    is_over: bool = False
    """Whether its episode ended with what it was told last."""
    heard: int = 0
    """How many turns an environment that answers turns has been told."""
    calls: int = 0
    errors: int = 0

    def write(self, sampled: Rollouts, row: int, text: str, room: int) -> None:
        """Takes a turn of the policy, at most `room` tokens of it."""
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

    def note(self, answers: Sequence[Answer]) -> None:
        """Counts what tools or an environment answer."""
        self.calls += sum(answer.role == "tool" for answer in answers)
        self.errors += sum(answer.is_error for answer in answers)
        self.state = json.dumps([answer.text for answer in answers])

    def hear(self, tokens: Sequence[int], room: int) -> None:
        """Takes the tokens of what is answered; a row without room for a token behind them is truncated."""
        if len(tokens) >= room:
            self.truncated = True
        else:
            self.add_context(tokens)

    def add_context(self, tokens: Sequence[int]) -> None:
        """Takes tokens that the policy did not choose."""
        self.tokens += tokens
        self.chosen += [False] * len(tokens)
        self.turn += [0] * len(tokens)
        self.logp += [0.0] * len(tokens)
        self.entropy += [0.0] * len(tokens)

    @property
    def open_calls(self) -> list[str]:
        """What its last turn calls; a turn that was cut off calls nothing, and what is over hears no more."""
        return [] if self.truncated or self.is_over else calls_in(self.turns[-1])

    def call_seed(self, place: int) -> int:
        """Of the call at a place in its last turn."""
        return seed_of(self.seed, f"turn {len(self.turns)}, call {place}")


@dataclass(frozen=True)
class Turns(SingleTurn):
    """Conversations of up to `max_turns` turns of the policy, between which its calls are answered.

    What a turn's tokens were stays as it was sampled: no turn is tokenised again. `rollout.max_response_tokens` bounds
    all tokens behind the prompt, those of the answers among them. The text of the last turn is graded; a row that still
    calls in its last turn is graded as it is.
    """

    grades_tokens = False
    has_turns = True
    parts_problems: ClassVar[bool] = True
    """Whether what answers the rows of one problem may be asked while it answers those of another."""

    max_turns: int = field(kw_only=True)

    def __call__(
        self,
        problems: Sequence[Problem],
        responses: int,
        sampling: Sampling,
        seed: int,
        numbers: Sequence[int] | None = None,
    ) -> GradedRollouts:
        """`responses` conversations about each problem."""
        started = time.perf_counter()
        places = range(len(problems)) if numbers is None else numbers
        with span("generate"):
            with conversation(self.engine):
                sampled, rows = self._first_turns(problems, responses, sampling, seed, places)
                self._write(rows, sampled, sampling)
                self._go_on(rows, responses, row_lots(places, responses), sampling, seed)
            self._finish(dict(enumerate(rows)))
        written = time.perf_counter()
        with span("grade"):
            graded = self._graded(problems, _rollouts(sampled, rows), [row.turns[-1] for row in rows])
        return replace(
            graded,
            figures=_figures(rows),
            credit=credit_of(rows, graded.reward.tolist()),
            transcripts=[str(self.tokenizer.backend.decode(row.tokens)) for row in rows],
            seconds={"generate": written - started, "grade": time.perf_counter() - written},
        )

    def _go_on(
        self, rows: Sequence[Conversation], responses: int, lots: Sequence[int], sampling: Sampling, seed: int
    ) -> None:
        """The turns behind the first of rows, `responses` to a problem, which draw by their `lots`.

        Where the engine answers calls side by side, a row waits for those of its problem alone.
        """
        for row, lot in zip(rows, lots, strict=True):
            row.seed = seed_of(seed, f"tools of row {lot}")
        apart = self.parts_problems and answers_side_by_side(self.engine)
        size = responses if apart else len(rows)
        numbers = range(len(rows))
        parts = [{number: rows[number] for number in numbers[start : start + size]} for start in numbers[::size]]
        if len(parts) == 1:
            self._take_turns(parts[0], lots, sampling, seed)
            return
        with ThreadPoolExecutor(len(parts)) as threads:
            ends = [threads.submit(self._take_turns, part, lots, sampling, seed) for part in parts]
        for end in ends:
            end.result()

    def _take_turns(self, rows: Mapping[int, Conversation], lots: Sequence[int], sampling: Sampling, seed: int) -> None:
        writing = rows
        for turn in range(1, self.max_turns):
            going = self._answered(rows, sampling)
            self.look(writing)
            if not going:
                return
            writing = {number: rows[number] for number in going}
            sampled = self._sampled(
                [*writing.values()], sampling, seed_of(seed, turn), [lots[number] for number in going]
            )
            self._write([*writing.values()], sampled, sampling)
        self.look(writing)

    def answers(self, rows: Mapping[int, Conversation], calls: Sequence[Sequence[str]]) -> list[list[Answer]]:
        """The answers to the calls of each of some rows, which are given by number, in order."""
        raise NotImplementedError

    def look(self, rows: Mapping[int, Conversation]) -> None:
        """Notes of some rows, by number, what the turn that has ended earned, and the state that is there now."""

    def _first_turns(
        self, problems: Sequence[Problem], responses: int, sampling: Sampling, seed: int, places: Sequence[int]
    ) -> tuple[Rollouts, list[Conversation]]:
        """What the policy writes first, and the rows that take it; `places` are the problems' among all ranks'."""
        prompts = self.prompts(problems)
        sampled = self.engine.generate(prompts, responses, sampling, seed, places)
        return sampled, [Conversation(prompts[number]) for number in sampled.prompt.tolist()]

    def _sampled(self, rows: Sequence[Conversation], sampling: Sampling, seed: int, lots: Sequence[int]) -> Rollouts:
        """A further turn of each row, which draws by its number among the rows of all processes, its lot."""
        room = max(self._room(row, sampling) for row in rows)
        asked = [[*row.prompt, *row.tokens] for row in rows]
        return self.engine.generate(asked, 1, replace(sampling, max_response_tokens=room), seed, lots)

    def _write(self, rows: Sequence[Conversation], sampled: Rollouts, sampling: Sampling) -> None:
        cut, texts = cut_at_stop(sampled, sampling.stop, self.tokenizer.decode)
        for number, (row, text) in enumerate(zip(rows, texts, strict=True)):
            room = self._room(row, sampling)
            if int(cut.lengths[number]) > room:
                text = self.tokenizer.decode(cut.tokens[number, :room].tolist())
            row.write(cut, number, text, room)

    def _answered(self, rows: Mapping[int, Conversation], sampling: Sampling) -> list[int]:
        """The rows whose calls have been answered, and that go on.

        What is answered to the last turn of a row that is over is counted, and is no part of it.
        """
        heard = {number: answers for number, answers in self._heard(rows).items() if answers}
        over = self.over()
        for number, answers in heard.items():
            rows[number].note(answers)
            rows[number].is_over = number in over
            if not rows[number].is_over:
                messages = [{"role": answer.role, "content": answer.text} for answer in answers]
                tokens = self.tokenizer.answered(rows[number].tokens, messages)
                rows[number].hear(tokens, self._room(rows[number], sampling))
        return [number for number in heard if not rows[number].is_over and not rows[number].truncated]

    def over(self) -> Collection[int]:
        """The rows behind whose last turn none follows, whatever it calls."""
        return ()

    def calls_of(self, row: Conversation) -> list[str]:
        """What its last turn asks of tools."""
        return row.open_calls

    def _heard(self, rows: Mapping[int, Conversation]) -> dict[int, list[Answer]]:
        """The answers to the last turn of each row that asks something, by the row's number."""
        asked = {number: calls for number, row in rows.items() if (calls := self.calls_of(row))}
        answers = self.answers(
            {number: rows[number] for number in asked}, [calls[:MOST_CALLS] for calls in asked.values()]
        )
        return {
            number: [*heard, TOO_MANY] if len(calls) > MOST_CALLS else heard
            for (number, calls), heard in zip(asked.items(), answers, strict=True)
        }

    def _finish(self, rows: Mapping[int, Conversation]) -> None:
        """Called when no row goes on, before they are graded."""

    @staticmethod
    def _room(row: Conversation, sampling: Sampling) -> int:
        return sampling.max_response_tokens - len(row.tokens)


@dataclass(frozen=True)
class ToolUse(Turns):
    """Turns between which functions of the user answer; nothing lasts from one call to the next."""

    grades_text = True

    tools: ToolPool = field(kw_only=True)

    def _first_turns(
        self, problems: Sequence[Problem], responses: int, sampling: Sampling, seed: int, places: Sequence[int]
    ) -> tuple[Rollouts, list[Conversation]]:
        self.tools.begin()
        return super()._first_turns(problems, responses, sampling, seed, places)

    def answers(self, rows: Mapping[int, Conversation], calls: Sequence[Sequence[str]]) -> list[list[Answer]]:
        """The answers to the calls of each of some rows, in order."""
        asked = [
            (call, row.call_seed(place))
            for row, of_row in zip(rows.values(), calls, strict=True)
            for place, call in enumerate(of_row)
        ]
        answers = iter(self.tools.answers(asked))
        return [[next(answers) for _ in of_row] for of_row in calls]


def row_lots(places: Sequence[int], responses: int) -> list[int]:
    """The number of each row among those of all processes, by which it draws, whatever others do."""
    return [place * responses + number for place in places for number in range(responses)]


def _rollouts(first: Rollouts, rows: Sequence[Conversation]) -> Rollouts:
    """The rows as rollouts; `first` has what they were sampled for, and by which policy."""
    lengths, mask = torch.tensor([len(row.tokens) for row in rows]), padded([row.chosen for row in rows], torch.bool)
    return replace(
        first,
        tokens=padded([row.tokens for row in rows], torch.long),
        lengths=lengths,
        mask=mask,
        logp=padded([row.logp for row in rows], torch.float32),
        entropy=padded([row.entropy for row in rows], torch.float32),
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
        "turn": padded([row.turn for row in rows], torch.long),
        "turn_reward": padded(earned, torch.float32),
        "turn_state": padded(states, torch.long),
    }


def padded(values: Sequence[Sequence[float]], dtype: torch.dtype) -> Tensor:
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


def seed_of(seed: int, purpose: object) -> int:
    """Of the turns behind the first, which has the seed of a single one, and of whatever else is drawn."""
    return int.from_bytes(blake2b(f"{seed}/{purpose}".encode(), digest_size=6).digest(), "big")
