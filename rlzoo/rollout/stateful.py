"""Rows of several turns with `task.environment`: each is an episode with a state of its own."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.turns import Conversation, Turns, row_lots, seed_of
from rlzoo.tasks.base import Problem
from rlzoo.tasks.episodes import EpisodePool
from rlzoo.tasks.grading import Graded
from rlzoo.tasks.text import Prompt, asked, asking
from rlzoo.tasks.tools import Answer


@dataclass(frozen=True)
class StatefulToolUse(Turns):
    """Turns between which an instance of the user's class answers, which lasts for the row.

    What `reset` shows stands at the end of the prompt's last message. Its tokens, and those that the chat template
    writes behind it, are context of the row, as answers are, and not the prompt that a group shares: it may differ
    within one. All episodes of a group have the same seed, so that only what the policy does makes them differ.
    """

    grades_text = False
    parts_problems = False  # all episodes of a round act at once

    episodes: EpisodePool = field(kw_only=True)

    def answers(self, rows: Mapping[int, Conversation], calls: Sequence[Sequence[str]]) -> list[list[Answer]]:
        """The answers to the calls of each of some rows, in order."""
        return self.episodes.answers([*zip(rows, calls, strict=True)])

    def over(self) -> Collection[int]:
        """The rows whose episodes say that they are over."""
        return self.episodes.over

    def calls_of(self, row: Conversation) -> list[str]:
        """What its last turn calls, if there is anything to call and the episode does not find it itself."""
        return row.open_calls if self.episodes.names and self.episodes.hears != "turns" else []

    def _heard(self, rows: Mapping[int, Conversation]) -> dict[int, list[Answer]]:
        heard = super()._heard(rows)
        return heard | self._told(rows, [number for number in rows if number not in heard], is_last=False)

    def _finish(self, rows: Mapping[int, Conversation]) -> None:
        quiet = [number for number, row in rows.items() if not self.calls_of(row)]
        self._told(rows, quiet, is_last=self.episodes.hears == "turns")

    def _told(self, rows: Mapping[int, Conversation], numbers: Sequence[int], is_last: bool) -> dict[int, list[Answer]]:
        """The answers to turns that episodes have not heard, if they hear more than calls.

        Truncated turns are told where all rows are at their last.
        """
        if self.episodes.hears == "calls":
            return {}
        going = [number for number in numbers if not rows[number].is_over]
        unheard = [number for number in going if rows[number].heard < len(rows[number].turns)]
        asked = [number for number in unheard if is_last or not rows[number].truncated]
        for number in asked:
            rows[number].heard = len(rows[number].turns)
        answers = self.episodes.respond([(number, rows[number].turns[-1], rows[number].truncated) for number in asked])
        return dict(zip(asked, answers, strict=True))

    def _first_turns(
        self, problems: Sequence[Problem], responses: int, sampling: Sampling, seed: int, places: Sequence[int]
    ) -> tuple[Rollouts, list[Conversation]]:
        asked = [problem for problem in problems for _ in range(responses)]
        seeds = [seed_of(seed, f"episode {place}") for place in places for _ in range(responses)]
        shown = self.episodes.begin(asked, seeds)
        if any(answer.text for answer in shown):
            sampled, rows = self._shown(asked, [answer.text for answer in shown], responses, sampling, seed, places)
        else:
            sampled, rows = super()._first_turns(problems, responses, sampling, seed, places)
        states = self.episodes.turn_states(range(len(rows))) or [answer.text for answer in shown]
        for row, answer, state in zip(rows, shown, states, strict=True):
            row.errors += answer.is_error
            row.state = state
        return sampled, rows

    def look(self, rows: Mapping[int, Conversation]) -> None:
        """Notes of some rows, by number, what the turn that has ended earned, and the state that is there now."""
        states = self.episodes.turn_states([*rows]) or [row.state for row in rows.values()]
        for row, earned, state in zip(rows.values(), self.episodes.turn_rewards([*rows]), states, strict=True):
            row.earned[-1], row.state = earned, state

    def _shown(
        self,
        problems: Sequence[Problem],
        texts: Sequence[str],
        responses: int,
        sampling: Sampling,
        seed: int,
        places: Sequence[int],
    ) -> tuple[Rollouts, list[Conversation]]:
        """The first turns of rows, each with its problem and the text that its episode shows."""
        prompts = self.prompts(problems)
        told = [
            replace(problem, prompt=_appended(problem.prompt, text))
            for problem, text in zip(problems, texts, strict=True)
        ]
        whole = self.prompts(told)
        groups = [range(first, first + responses) for first in range(0, len(problems), responses)]
        shared = [_shared([prompts[group[0]], *(whole[row] for row in group)]) for group in groups]
        rows = []
        for row, tokens in enumerate(whole):
            prompt = shared[row // responses]
            context = tokens[len(prompt) :][: sampling.max_response_tokens - 1]  # a turn has one token at least
            rows.append(Conversation(prompt))
            rows[row].add_context(context)
        sampled = self._sampled(rows, sampling, seed, row_lots(places, responses))
        return replace(sampled, prompts=shared, prompt=torch.arange(len(rows)) // responses), rows

    def _grades(self, problems: Sequence[Problem], texts: Sequence[str]) -> list[Graded]:
        return self.episodes.grades(texts)


def _shared(rows: Sequence[Sequence[int]]) -> Sequence[int]:
    """What all of them begin with."""
    alike = itertools.takewhile(lambda tokens: len(set(tokens)) == 1, zip(*rows, strict=False))
    return [tokens[0] for tokens in alike]


def _appended(prompt: Prompt, text: str) -> Prompt:
    """The prompt with a text at the end of the message that asks, as TRL appends what `reset` returns."""
    if isinstance(prompt, str):
        return prompt + text
    return asking(prompt, asked(prompt) + text)
