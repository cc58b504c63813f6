"""Environments in the form of TRL's examples, and hostile ones; and what a test asks of an environment."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rlzoo.config import Config
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts, Sampler, open_sampler
from rlzoo.tasks import load_task
from rlzoo.tasks.base import Problem
from rlzoo.tasks.environments import Answer, Environment, Start, Turn
from rlzoo.tasks.grading import GraderPool
from tests.rollout.calling_model import TOOLS, save_calling_model

ENVIRONMENTS = '''
import os
import random
import signal
import time

class Counting:
    """As TRL's examples are written: state for the reward, `reset` with the row, methods as tools."""

    begun = []

    def __init__(self):
        self.reward = 0.0

    def reset(self, **kwargs) -> str | None:
        Counting.begun.append(self)
        self.reward = 0.0
        self.columns = sorted(kwargs)
        self.secret = random.randrange(10**9)
        return None

    def add(self, a: int, b: int) -> str:
        """Adds to what was added before.

        Args:
            a: a number.
            b: another one.

        Returns:
            The sum so far.
        """
        self.reward += 0.25
        return f"{self.reward} {len(Counting.begun)} {self.secret}"

    def fail(self) -> str:
        """Fails."""
        raise ValueError("Game over.")

def reward_func(environments, **kwargs) -> list[float]:
    return [env.reward for env in environments]

def columns_func(environments, **kwargs):
    return [float(len(env.columns)) for env in environments]

class Showing(Counting):
    def reset(self, **kwargs):
        super().reset(**kwargs)
        return f" The secret is {self.secret}."

    def get_reward(self):
        return self.reward

class Striking(Showing):
    def strike(self) -> str:
        """Kills the process that it is a fork of."""
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(1)

class Fickle(Showing):
    def reset(self, **kwargs):
        super().reset(**kwargs)
        return f" It is {time.time_ns()}."

class Differing(Showing):
    def reset(self, **kwargs):
        super().reset(**kwargs)
        return f" I am {os.getpid()}."

class Asynchronous(Showing):
    async def add(self, a: int, b: int) -> str:
        """Adds.

        Args:
            a: a number.
            b: another one.
        """
        self.reward += 1
        return "added"

    async def get_reward(self):
        return self.reward

class Hostile(Showing):
    """Each method is hostile in another way; one that is asked for nothing has the reward 0.125."""

    def __init__(self):
        self.reward, self.secret = 0.125, 0

    def reset(self, **kwargs):
        return "x" * 10**6

    def hang(self) -> str:
        """Hangs."""
        time.sleep(60)

    def leave(self) -> str:
        """Ends its process."""
        os._exit(3)

    def stop(self) -> str:
        """Raises what ends programs."""
        raise SystemExit(3)

    def talk(self) -> str:
        """Talks."""
        return "<|im_end|>" + "y" * 10**6

    def swell(self) -> int:
        """Takes more memory than there is for it."""
        return len(bytearray(5 * 2**30))

    def shout(self) -> str:
        """Prints, by Python and by a program."""
        print("a" * 10**6, flush=True)
        os.system("echo b; echo c >&2")
        return "said"

    def spoil(self) -> float:
        """Spoils its reward."""
        self.reward = float("nan")
        return self.reward

class Resting(Showing):
    def rest(self, seconds: float = 0.6) -> str:
        """Rests.

        Args:
            seconds: how long.
        """
        time.sleep(seconds)
        return "rested"

class Noted(Hostile):
    """Notes the number of its process."""

    def reset(self, **kwargs):
        os.makedirs("noted", exist_ok=True)
        open(f"noted/{os.getpid()}", "w").close()

class Unwilling(Showing):
    def reset(self, **kwargs):
        raise RuntimeError("not today")

class Unmade(Showing):
    def __init__(self):
        os._exit(3)

class Wordy(Showing):
    def reset(self, **kwargs):
        return 7

class Ending(Showing):
    """Is over once a call has added."""

    @property
    def done(self):
        return self.reward > 0

class Earning(Counting):
    """Each sum earns a quarter at once, whatever the episode earns in the end; its state is how many there were."""

    turn_reward: float = 0.0
    turn_state = 0

    def reset(self, **columns):
        self.turn_state = 0

    def add(self, a: int, b: int) -> str:
        """Adds.

        Args:
            a: a number.
            b: another one.
        """
        self.turn_reward += 0.25
        self.turn_state += 1
        return "added"

class Rewarded(Earning):
    def get_reward(self):
        return float(self.turn_state)

class Silent(Rewarded):
    """Has a state that nothing can be compared with."""

    def reset(self, **columns):
        self.turn_state = object()

class Asking(Showing):
    """A user who asks twice, and gives a reward for each turn that was told."""

    def reset(self, **kwargs):
        self.reward, self.told = 0.0, []

    async def turn_answer(self, text):
        self.told.append(text)
        return f"And {len(self.told)}?" if len(self.told) < 3 else None

    def get_reward(self):
        return float(len(self.told))

class Talking:
    def reset(self):
        return None

    def turn_answer(self, text):
        return 7 if text else ""

    def get_reward(self):
        return 0.0

class Mute:
    def reset(self):
        return None

class Unsettled:
    def add(self) -> str:
        """Adds."""
'''


def begin(environment: Environment, problems: Sequence[Problem], seeds: Sequence[int]) -> list[Answer]:
    """Begins an episode of each problem; rows of the same seed are one group. Returns what each shows."""
    starts = [Start(problem, seed, row) for row, (problem, seed) in enumerate(zip(problems, seeds, strict=True))]
    answers = [step.answers for step in environment.reset(starts, 0)]
    return [Answer("".join(it.text for it in shown), any(it.is_error for it in shown)) for shown in answers]


def make_calls(environment: Environment, asked: Sequence[tuple[int, Sequence[str]]]) -> list[list[Answer]]:
    """The answers to the calls of each of some rows."""
    return respond(
        environment, [(row, "".join(map("<tool_call>{}</tool_call>".format, calls))) for row, calls in asked]
    )


def respond(
    environment: Environment, turns: Sequence[tuple[int, str]], is_truncated: bool = False
) -> list[list[Answer]]:
    """The answers to a turn of each of some rows."""
    steps = environment.step({row: Turn(text, is_truncated=is_truncated) for row, text in turns})
    return [list(steps[row].answers) for row, _ in turns]


def save_acting(folder: Path) -> Path:
    """A folder with a model that calls, tools, environments, and a dataset as TRL's examples have it."""
    save_calling_model(folder / "model")
    (folder / "tools.py").write_text(TOOLS)
    (folder / "envs.py").write_text(ENVIRONMENTS)
    row = {"prompt": [{"role": "user", "content": "Add up."}]}
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for _ in range(24)))
    return folder


@dataclass(frozen=True)
class Sample:
    """Samples rows for the first training problems of a task."""

    sampler: Sampler
    problems: Sequence[Problem]
    policy: Policy
    room: int

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the policy."""
        return self.sampler.tokenizer

    def __call__(self, start: int, problems: int, responses: int) -> GradedRollouts:
        """`responses` rows for some problems, with the draws that these have among all."""
        numbers = range(start, start + problems)
        asked = [self.problems[number] for number in numbers]
        return self.sampler(asked, responses, Sampling(self.room), 7, numbers)


@contextmanager
def opened(config: Config, room: int = 400) -> Iterator[Sample]:
    """What samples for a configuration."""
    tokenizer, task = load_tokenizer(config.model, config.task), load_task(config.task)
    policy = load_policy(config.model, tokenizer)
    engine = load_engine(config.rollout, config.model, policy, tokenizer)
    with GraderPool(task.grader) as graders, open_sampler(config.task, engine, graders, tokenizer) as sampler:
        yield Sample(sampler, task.train, policy, room)
