r"""Any dataset of the reasoning-gym package, graded by its own scorer.

**Splits.** A hash of the question's text says whether it is held out, so no question is ever on both sides, even where
there are only a hundred. A quarter of a dataset's questions is held out. The held-out problems
are distinct and the same for every seed. The training problems depend on the seed, are made when they are asked for,
and repeat themselves where the dataset does.

**The answer of a response** is what stands in its last `<answer></answer>`; without one, in its last `\boxed{}`;
without one, if the gold answer is a number, the last number of the response; otherwise as many of its last lines as the
gold answer has. The scorer sees the answer, never the whole response.

**Grade.** Scorers give 1 to a right answer, and some give less to one that is nearly right or merely well formed.
`correct` is 1 for a score of 1 and else 0. The reward rises with the score from `wrong_reward` at 0 to 1 at 1. A scorer
that raises on an answer has not accepted it: 0.

In version 0.1.25 the datasets `isomorphic_strings`, `polynomial_multiplication` and `ransom_note` make different
questions in every process unless PYTHONHASHSEED is set.
"""

import dataclasses
import inspect
import itertools
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Any, overload

from reasoning_gym.dataset import ProceduralDataset
from reasoning_gym.factory import DATASETS, create_dataset

from rlzoo.errors import UserError, nearest
from rlzoo.tasks import text
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.text import directed, instructed, last_boxed

Entry = Mapping[str, Any]

# A dataset derives entry i from seed + i: ranges of seeds that do not overlap are streams of their own.
_HELD_OUT_SEED = 0
_TRAIN_SEED = 1_000_000
_BASE = ProceduralDataset.__module__


@dataclass(frozen=True)
class GymDataset:
    """A dataset of the package; `options` are its parameters as JSON, so that a source can be hashed and pickled."""

    dataset: str
    options: str

    def stream(self, seed: int, size: int) -> ProceduralDataset:
        """Entries 0 to `size` - 1 for this seed."""
        try:
            return create_dataset(self.dataset, seed=seed, size=size, **json.loads(self.options))
        except Exception as error:
            raise UserError(f"task.options={self.options} do not suit reasoning_gym:{self.dataset}: {error}") from error

    def distinct(self, seed: int, draws: int) -> Iterator[Entry]:
        """The entries of a stream without repetitions."""
        stream = self.stream(seed, draws)
        seen = set()
        for index in range(draws):
            entry = stream[index]
            if digest(entry) not in seen:
                seen.add(digest(entry))
                yield entry


@dataclass(frozen=True)
class ReasoningGym:
    """A dataset as a task."""

    name: str
    train: Sequence[Problem]
    held_out: Sequence[Problem]
    grader: "DatasetScorer"

    def final_answer(self, problem: Problem, response: str) -> str | None:
        """What the scorer sees of a response."""
        return extract_answer(response, problem.answer) or None


def load(
    dataset: str,
    options: Mapping[str, Any],
    *,
    problems: int,
    held_out_problems: int = 512,
    instruction: str = "",
    system_prompt: str = "",
    wrong_reward: float = 0.0,
    seed: int = 0,
) -> ReasoningGym:
    """Makes the task of one dataset with the parameters `options`; a small dataset may hold out fewer problems.

    Raises UserError for a name or parameter that the package does not know or accept, and for a split left empty.
    """
    _check_names(dataset, options)
    source = GymDataset(dataset, json.dumps(options, sort_keys=True))

    def problem(entry: Entry) -> Problem:
        messages = directed([{"role": "user", "content": entry["question"]}], system_prompt)
        prompt = instructed(messages, instruction)
        return Problem(f"{dataset}-{digest(entry)}", prompt, entry["answer"] or "", {"entry": entry})

    candidates = source.distinct(_HELD_OUT_SEED, 16 * held_out_problems)
    held_out = list(itertools.islice((problem(entry) for entry in candidates if is_held_out(entry)), held_out_problems))
    if not held_out:
        raise UserError(_too_few(source, "held out"))
    start = (_TRAIN_SEED + 2 * problems * seed) % 2**31
    train = TrainProblems(source, start, problems, problem)
    _ = train[0]
    return ReasoningGym(f"reasoning_gym:{dataset}", train, held_out, DatasetScorer(source, wrong_reward))


def without_problems(dataset: str, options: Mapping[str, Any], wrong_reward: float) -> ReasoningGym:
    """The task of `load`, to grade with alone. Raises UserError for what the package does not know or accept."""
    _check_names(dataset, options)
    scorer = DatasetScorer(GymDataset(dataset, json.dumps(options, sort_keys=True)), wrong_reward)
    return ReasoningGym(f"reasoning_gym:{dataset}", [], [], scorer)


def digest(entry: Entry) -> str:
    """A hash of the question's text: the same on every machine."""
    return blake2b(entry["question"].encode(), digest_size=8).hexdigest()


def is_held_out(entry: Entry) -> bool:
    """Which side a question is on, for one in four the held-out one."""
    return text.is_held_out(entry["question"], one_in=4, digest_size=8)


class TrainProblems(Sequence[Problem]):
    """`size` training problems, made when they are asked for, then kept.

    Problem i is entry i of one stream or, where that cannot be trained on, the next entry from position i of another.
    """

    def __init__(self, source: GymDataset, seed: int, size: int, problem: Callable[[Entry], Problem]) -> None:
        self._source = source
        self._stream = source.stream(seed, size)
        self._spare = source.stream(seed + size, size)
        self._problem = problem
        self._made: dict[int, Problem] = {}

    def __len__(self) -> int:
        return len(self._stream)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        positions = range(len(self))[index]
        if isinstance(positions, range):
            return [self[position] for position in positions]
        if positions not in self._made:
            self._made[positions] = self._problem(self._entry(positions))
        return self._made[positions]

    def _entry(self, position: int) -> Entry:
        spares = (self._spare[(position + step) % len(self)] for step in range(len(self)))
        for entry in itertools.chain([self._stream[position]], spares):
            if not is_held_out(entry):
                return entry
        raise UserError(_too_few(self._source, "trained on"))


def _check_names(dataset: str, options: Mapping[str, Any]) -> None:
    if dataset not in DATASETS:
        raise UserError(
            f"task.name=reasoning_gym:{dataset} is not a dataset of reasoning-gym{nearest(dataset, DATASETS)}"
        )
    fields = dataclasses.fields(DATASETS[dataset][1])
    names = sorted(field.name for field in fields if field.name not in ("seed", "size"))
    for option in options:
        if option not in names:
            raise UserError(
                f"task.options.{option} is not a parameter of reasoning_gym:{dataset}{nearest(option, names)}; "
                f"it has {', '.join(names)} (the seed is `seed`, the size `task.problems`)"
            )


def _too_few(source: GymDataset, purpose: str) -> str:
    return (
        f"task.name=reasoning_gym:{source.dataset} with task.options={source.options} has too few different questions: "
        f"none can be {purpose}"
    )


@dataclass(frozen=True)
class DatasetScorer:
    """Grades by the dataset's own `score_answer`."""

    source: GymDataset
    wrong_reward: float = 0.0

    @property
    def evaluates(self) -> bool:
        """Whether the scorer may run an answer as Python, by what the source of its module names."""
        return _evaluates(self.source.dataset)

    def prepare(self) -> None:
        """Loads what scoring needs before processes are forked, by scoring an entry of the dataset with no options.

        Options may be those of a recorded file: an entry that is made of them is scored inside the boundary alone.
        """
        source = GymDataset(self.source.dataset, "{}")
        entry = _scoring_dataset(source)[0]
        _score(source, entry["answer"], entry)

    def is_harmless(self, problem: Problem, response: str) -> bool:
        """Whether the answer can do nothing but be slow, wherever it is run: it has no name and no text in quotes."""
        return _PLAIN.fullmatch(extract_answer(response, problem.answer)) is not None

    def __call__(self, problem: Problem, response: str) -> Grade:
        answer = extract_answer(response, problem.answer)
        score = _score(self.source, answer, problem.data["entry"]) if answer else 0.0
        return Grade(self.wrong_reward + (1.0 - self.wrong_reward) * score, float(score == 1.0))


_EVALUATES = re.compile(
    r"\b(eval|exec|compile|sympy|parse_expr|sympify|literal_eval|pickle|yaml|__import__|importlib|create_dataset|"
    r"get_score_answer_fn)\b"
)
_PLAIN = re.compile(r"[0-9\s+*/().,=<>^!%|&~\[\]{}:;-]*")


@cache
def _evaluates(dataset: str) -> bool:
    """Whether the modules of a dataset's class have a word for what runs text, or lend it from another dataset."""
    own = [kind.__module__ for kind in DATASETS[dataset][0].__mro__ if kind.__module__.startswith("reasoning_gym.")]
    return any(_EVALUATES.search(inspect.getsource(sys.modules[name])) for name in own if name != _BASE)


def _score(source: GymDataset, answer: str, entry: Entry) -> float:
    try:
        score = float(_scoring_dataset(source).score_answer(answer, dict(entry)))
    except Exception:
        return 0.0
    return min(max(score, 0.0), 1.0) if math.isfinite(score) else 0.0


@lru_cache(maxsize=1)
def _scoring_dataset(source: GymDataset) -> ProceduralDataset:
    return source.stream(seed=0, size=1)


_NUMBER = re.compile(
    r"(?:(?<![\w).])[-+])?"  # a sign, not the minus between two terms
    r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"
    r"(?:/\d+)?"
)


def extract_answer(response: str, gold: str) -> str:
    """The answer of a response by the rule of the module's docstring; empty if there is none."""
    tagged = [piece.partition("<answer>") for piece in response.split("</answer>")[:-1]]
    if answers := [answer for _, tag, answer in tagged if tag]:
        return answers[-1].strip()
    boxed = last_boxed(response)
    if boxed is not None:
        return boxed.strip()
    if _NUMBER.fullmatch(gold.strip()):
        numbers = _NUMBER.findall(response)
        return numbers[-1].replace(",", "") if numbers else ""
    wanted = len(gold.strip().splitlines())
    return "\n".join(response.strip().splitlines()[-max(wanted, 1) :]).strip()
