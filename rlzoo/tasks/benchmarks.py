r"""Benchmarks by name, each sampled as often as the papers sample it.

AIME and AMC are avg@32, MATH-500, Minerva and OlympiadBench avg@4, as JustRL (arXiv 2512.16649), STARE and STAPO report
them. For GSM8K and Knights and Knaves the papers name no number of samples; 4 is taken.

The instruction is appended to a prompt that does not say yet how to answer. Problems come from the hub, or from a
folder that holds `NAME.parquet` (or `.jsonl`, `.json`, or a dataset folder `NAME`).
"""

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, nearest
from rlzoo.tasks.base import FORMATS, Problem
from rlzoo.tasks.text import Prompt, instructed, is_rendered

if TYPE_CHECKING:
    from rlzoo.tasks.dataset import DatasetTask

BOXED = r" Please reason step by step, and put your final answer within \boxed{}."
"""JustRL's, as STAPO takes it over."""
ROLES = (
    "Think first, within <think> </think> tags. Then state the identity of each character within <answer> </answer> "
    "tags, for example <answer> (1) Zoey is a knight\n(2) Oliver is a knave </answer>."
)
"""The format that Logic-RL asks for in its system message."""

RESPONSE_TOKENS = 20_480
"""STAPO's limit in its evaluations."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """`hub` is the id on the hub, with a configuration behind a colon; `samples` is k of avg@k."""

    name: str
    hub: str
    rows: int
    samples: int
    split: str = "test"
    instruction: str = BOXED


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("aime24", "math-ai/aime24", rows=30, samples=32),
        Benchmark("aime25", "math-ai/aime25", rows=30, samples=32),
        Benchmark("amc23", "math-ai/amc23", rows=40, samples=32),
        Benchmark("math500", "HuggingFaceH4/MATH-500", rows=500, samples=4),
        Benchmark("minerva", "math-ai/minervamath", rows=272, samples=4),
        Benchmark("olympiadbench", "math-ai/olympiadbench", rows=674, samples=4),
        Benchmark("gsm8k", "openai/gsm8k:main", rows=1319, samples=4),
        *(
            Benchmark(f"kk{people}", "K-and-K/knights-and-knaves:test", 100, 4, split=f"{people}ppl", instruction=ROLES)
            for people in range(3, 8)
        ),
    )
}
GROUPS = {
    "all": ("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench"),
    "knights_and_knaves": ("kk3", "kk4", "kk5", "kk6", "kk7"),
}
"""`all` are the six of the STAPO paper."""


def find(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks and groups of these names, in their order. Raises UserError if one is unknown or there twice."""
    if not names:
        raise UserError(f"benchmarks= names none; there are {', '.join([*BENCHMARKS, *GROUPS])}")
    found: list[Benchmark] = []
    for name in names:
        if name not in BENCHMARKS and name not in GROUPS:
            known = [*BENCHMARKS, *GROUPS]
            meant = nearest(name.lower(), known) or f"; there are {', '.join(known)}"
            raise UserError(f"benchmarks={name} is not a benchmark{meant}")
        for member in GROUPS.get(name, (name,)):
            if BENCHMARKS[member] in found:
                raise UserError(f"benchmarks={','.join(names)}: {member} is there twice")
            found.append(BENCHMARKS[member])
    return found


def task_config(benchmark: Benchmark, folder: str = "") -> TaskConfig:
    """Where the problems come from. Raises UserError if a folder is given that does not hold them."""
    if not folder:
        return TaskConfig(benchmark.hub, held_out_split=benchmark.split)
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"benchmarks_folder={folder}: there is no such folder")
    path = Path(folder).expanduser() / benchmark.name
    candidates = [path.with_suffix(suffix) for suffix in FORMATS]
    for candidate in candidates:
        if candidate.is_file():
            return TaskConfig(str(candidate), held_out=str(candidate))
    if path.is_dir():
        return TaskConfig(str(path))
    raise UserError(
        f"benchmarks_folder={folder} holds no {candidates[0].name} (nor .json, .jsonl, or a folder {path.name})"
    )


def load_benchmark(
    benchmark: Benchmark, folder: str = "", instruction: str | None = None
) -> tuple["DatasetTask", list[Problem]]:
    """A benchmark's task and its problems with their instruction, its own unless another is given.

    Raises UserError if the problems cannot be read, or if an instruction is given that all prompts have already.
    """
    from rlzoo.tasks.dataset import DatasetTask  # which takes a second: names are checked before

    task = DatasetTask(task_config(benchmark, folder))
    try:
        problems = task.held_out
    except UserError as error:
        hint = "" if folder else f"; benchmarks_folder=FOLDER reads FOLDER/{benchmark.name}.parquet instead"
        raise UserError(f"benchmark {benchmark.name} cannot be loaded: {error}{hint}") from None
    if len(problems) != benchmark.rows:
        _logger.warning("%s has %d problems here; the papers' has %d", benchmark.name, len(problems), benchmark.rows)
    own = [problem for problem in problems if not says_how_to_answer(problem.prompt)]
    if instruction is not None and not own:
        raise UserError(
            f"task.instruction={instruction!r} has no effect on {benchmark.name}: its prompts bring their own"
        )
    text = benchmark.instruction if instruction is None else instruction
    changed = {problem.id: replace(problem, prompt=instructed(problem.prompt, text)) for problem in own}
    return task, [changed.get(problem.id, problem) for problem in problems]


_HOW_TO_ANSWER = re.compile(r"\\boxed(\s*\{\s*\}|(?!\s*\{))|####|<answer>")
r"""An empty `\boxed{}` or none; Minerva's problems hold worked examples with answers in boxes."""


def says_how_to_answer(prompt: Prompt) -> bool:
    """Whether the prompt, as the data has it, carries an instruction on the form of the answer."""
    if isinstance(prompt, str):
        return is_rendered(prompt) or _HOW_TO_ANSWER.search(prompt) is not None
    return any(_HOW_TO_ANSWER.search(message["content"]) for message in prompt)
