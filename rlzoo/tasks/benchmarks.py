r"""Benchmarks by name, each sampled as often as the papers sample it.

AIME, AMC, HMMT, BRUMO and CMIMC are avg@32, MATH-500, Minerva and OlympiadBench avg@4, as JustRL (arXiv 2512.16649),
STARE and STAPO report them. For GSM8K and Knights and Knaves the papers name no number of samples; 4 is taken.

The instruction is appended to a prompt that does not say yet how to answer. Problems come from the hub, or from a
folder that holds `NAME.parquet` (or `.jsonl`, `.json`, or a dataset folder `NAME`). A benchmark of one's own is a YAML
file with the keys of `OwnBenchmark`.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlzoo.config import TaskConfig, load_config
from rlzoo.errors import UserError, nearest, one_line
from rlzoo.files import text_of
from rlzoo.tasks.base import FORMATS, Message, Problem
from rlzoo.tasks.text import Prompt, asked, asking, instructed, is_rendered, place_of_question

if TYPE_CHECKING:
    from rlzoo.tasks.dataset import DatasetTask

BOXED = r" Please reason step by step, and put your final answer within \boxed{}."
"""JustRL's, as STAPO takes it over."""
ROLES = (
    "Think first, within <think> </think> tags. Then state the identity of each character within <answer> </answer> "
    "tags, for example <answer> (1) Zoey is a knight\n(2) Oliver is a knave </answer>."
)
"""The format that Logic-RL asks for in its system message."""

PROBLEM = "{problem}"
METRICS = {"": "", "boxed": "", "gsm8k": "openai/gsm8k", "knights_and_knaves": "kk_logic"}
"""Metric -> the `data_source` whose rules it is."""

RESPONSE_TOKENS = 20_480
"""STAPO's limit in its evaluations."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Benchmark:
    """`hub` is the id on the hub, with a configuration behind a colon; `samples` is k of avg@k."""

    name: str
    hub: str
    rows: int
    """Number of rows in the papers; 0 if they give none."""
    samples: int
    split: str = "test"
    instruction: str = BOXED
    template: str = PROBLEM
    metric: str = ""
    contamination: str = ""
    """What is known of its problems having been in training data, with the source."""
    hub_task: str = ""
    """The task of the hub's leaderboard, in `eval.yaml` of the dataset; empty if the hub has no leaderboard for it."""


@dataclass(frozen=True)
class Example:
    """A worked example."""

    problem: str
    response: str


@dataclass
class OwnBenchmark:
    """What the YAML file of a benchmark of one's own may say; its name is the file's."""

    source: str = ""
    """Where the problems are: a parquet or JSON file, seen from this one or from here; a folder; a hub id."""
    split: str = "test"
    """The split of a hub dataset or folder."""
    samples: int = 4
    """k of avg@k."""
    instruction: str = BOXED
    """Appended to prompts that do not say yet how to answer; may be empty."""
    template: str = PROBLEM
    """What is asked, with `{problem}` where the problem stands."""
    metric: str = ""
    """Which answer counts: `boxed`; `gsm8k`, where it may also stand behind `####`; `knights_and_knaves`. If empty,
    what the data's own `data_source` says, or else `boxed`."""


QWEN_KNOWS = (
    "contaminated for Qwen2.5: given the first 60 % of a MATH-500 problem, Qwen2.5-Math-7B writes the rest word for "
    "word in 54.6 % of cases, Llama-3.1-8B in 3.8 %; gains may be memory (Wu et al. 2025, arXiv:2507.10532)."
)
QWEN_MAY_KNOW = (
    "older than Qwen2.5, whose gains on such sets may be memory (Wu et al. 2025, arXiv:2507.10532, of MATH-500, AMC "
    "and AIME)."
)
AIME24_KNOWN = (
    "strong signs of contamination of many models (MathArena, arXiv:2505.23281); for Qwen2.5 see also arXiv:2507.10532."
)
YEAR_2025 = (
    "of 2025, after Qwen2.5; models that are younger than the contest may have seen it (MathArena, arXiv:2505.23281)."
)
GSM8K_KNOWN = (
    "several families of models overfit it, by up to 8 points against new problems of the same kind (GSM1k, Zhang et "
    "al. 2024, arXiv:2405.00332v4)."
)

BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark("aime24", "math-ai/aime24", rows=30, samples=32, contamination=AIME24_KNOWN),
        Benchmark("aime25", "math-ai/aime25", rows=30, samples=32, contamination=YEAR_2025),
        Benchmark("amc23", "math-ai/amc23", rows=40, samples=32, contamination=QWEN_MAY_KNOW),
        Benchmark("math500", "HuggingFaceH4/MATH-500", rows=500, samples=4, contamination=QWEN_KNOWS),
        Benchmark("minerva", "math-ai/minervamath", rows=272, samples=4, contamination=QWEN_MAY_KNOW),
        Benchmark("olympiadbench", "math-ai/olympiadbench", rows=674, samples=4, contamination=QWEN_MAY_KNOW),
        Benchmark("hmmt25", "MathArena/hmmt_feb_2025", rows=30, samples=32, split="train", contamination=YEAR_2025),
        Benchmark("brumo25", "MathArena/brumo_2025", rows=30, samples=32, split="train", contamination=YEAR_2025),
        Benchmark("cmimc25", "MathArena/cmimc_2025", rows=40, samples=32, split="train", contamination=YEAR_2025),
        Benchmark("gsm8k", "openai/gsm8k:main", 1319, samples=4, contamination=GSM8K_KNOWN, hub_task="gsm8k"),
        *(
            Benchmark(f"kk{people}", "K-and-K/knights-and-knaves:test", 100, 4, split=f"{people}ppl", instruction=ROLES)
            for people in range(3, 8)
        ),
    )
}
_SIX = ("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench")
GROUPS = {
    "all": _SIX,
    "justrl": (*_SIX, "hmmt25", "brumo25", "cmimc25"),
    "knights_and_knaves": ("kk3", "kk4", "kk5", "kk6", "kk7"),
}
"""`all` are the six of the STAPO paper, `justrl` JustRL's nine."""


def contamination_of(names: Iterable[str]) -> list[str]:
    """Notes on problems of these benchmarks in training data. Benchmarks with the same note share a line."""
    by_note: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        if name in BENCHMARKS and BENCHMARKS[name].contamination:
            by_note.setdefault(BENCHMARKS[name].contamination, []).append(name)
    return [f"{', '.join(those)}: {note}" for note, those in by_note.items()]


def find(names: Sequence[str]) -> list[Benchmark]:
    """The benchmarks, groups and YAML files of these names, in their order.

    Raises UserError if one is unknown or there twice, or if a file is of no use.
    """
    if not names:
        raise UserError(f"benchmarks= names none; there are {', '.join([*BENCHMARKS, *GROUPS])}")
    chosen: list[Benchmark] = []
    for name in names:
        for member in _members(name):
            if member.name in [benchmark.name for benchmark in chosen]:
                raise UserError(f"benchmarks={','.join(names)}: {member.name} is there twice")
            chosen.append(member)
    return chosen


def _members(name: str) -> list[Benchmark]:
    if name.endswith((".yaml", ".yml")):
        return [_of_file(Path(name).expanduser())]
    if name not in BENCHMARKS and name not in GROUPS:
        known = [*BENCHMARKS, *GROUPS]
        meant = nearest(name.lower(), known) or f"; there are {', '.join(known)}, and YAML files of your own"
        raise UserError(f"benchmarks={name} is not a benchmark{meant}")
    return [BENCHMARKS[member] for member in GROUPS.get(name, (name,))]


def _of_file(path: Path) -> Benchmark:
    """The benchmark that a YAML file describes. Raises UserError for what it cannot say."""
    described: OwnBenchmark = load_config([str(path)], OwnBenchmark)
    if not described.source:
        raise UserError(f"{path} has no source=; name a file, a folder or a hub id")
    if described.samples < 1:
        raise UserError(f"{path}: samples={described.samples} must be at least 1")
    if PROBLEM not in described.template:
        raise UserError(f"{path}: template={described.template!r} has no {PROBLEM} where the problem stands")
    if described.metric not in METRICS:
        raise UserError(
            f"{path}: metric={described.metric}{nearest(described.metric, METRICS)}; "
            f"there are {', '.join(filter(None, METRICS))}"
        )
    beside = path.parent / Path(described.source).expanduser()
    return Benchmark(
        path.stem,
        str(beside) if beside.exists() else described.source,
        rows=0,
        samples=described.samples,
        split=described.split,
        instruction=described.instruction,
        template=described.template,
        metric=described.metric,
    )


def task_config(benchmark: Benchmark, folder: str = "") -> TaskConfig:
    """Where the problems come from: all of one split. Raises UserError if a folder is given that does not hold them."""
    if not folder or benchmark.name not in BENCHMARKS:
        return TaskConfig(benchmark.hub, held_out=benchmark.hub, held_out_split=benchmark.split)
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"benchmarks_folder={folder}: there is no such folder")
    path = Path(folder).expanduser() / benchmark.name
    candidates = [path.with_suffix(suffix) for suffix in FORMATS]
    for candidate in candidates:
        if candidate.is_file():
            return TaskConfig(str(candidate), held_out=str(candidate))
    if path.is_dir():
        return TaskConfig(str(path), held_out=str(path), held_out_split=_split_in(path, benchmark.split))
    raise UserError(
        f"benchmarks_folder={folder} holds no {candidates[0].name} (nor .json, .jsonl, .csv, or a folder {path.name})"
    )


def _split_in(folder: Path, split: str) -> str:
    """The benchmark's split, or `test` where a dataset folder has no other."""
    from rlzoo.tasks.rows import Split, split_names

    is_there = split == "test" or split in split_names(Split("benchmarks_folder", str(folder), "split", split))
    return split if is_there else "test"


def load_benchmark(
    benchmark: Benchmark,
    folder: str = "",
    instruction: str | None = None,
    examples: Sequence[Example] = (),
    system_prompt: str = "",
    is_rendered: Callable[[str], bool] = is_rendered,
) -> tuple["DatasetTask", list[Problem]]:
    """A benchmark's task and its problems with their instruction, its own unless another is given.

    Worked examples come before them as earlier turns, asked for as the problems are, and before all a system prompt.
    Raises UserError if the problems cannot be read, or if an instruction is given that all prompts have already.
    """
    from rlzoo.tasks.dataset import DatasetTask  # which takes a second: names are checked before

    task = DatasetTask(replace(task_config(benchmark, folder), system_prompt=system_prompt), is_rendered)
    try:
        problems = task.held_out
    except UserError as error:
        is_named = not folder and benchmark.name in BENCHMARKS
        hint = f"; benchmarks_folder=FOLDER reads FOLDER/{benchmark.name}.parquet instead" if is_named else ""
        raise UserError(f"benchmark {benchmark.name} cannot be loaded: {error}{hint}") from None
    if benchmark.rows and len(problems) != benchmark.rows:
        _logger.warning("%s has %d problems here; the papers' has %d", benchmark.name, len(problems), benchmark.rows)
    if benchmark.template != PROBLEM or benchmark.metric:
        problems = [_as_its_own(benchmark, problem) for problem in problems]
    bare = [problem for problem in problems if not says_how_to_answer(problem.prompt)]
    if instruction is not None and not bare:
        raise UserError(
            f"task.instruction={instruction!r} has no effect on {benchmark.name}: its prompts bring their own"
        )
    text = benchmark.instruction if instruction is None else instruction
    changed = {problem.id: replace(problem, prompt=instructed(problem.prompt, text)) for problem in bare}
    problems = [changed.get(problem.id, problem) for problem in problems]
    turns = [turn for example in examples for turn in _turns(benchmark, example, text if bare else "")]
    return task, [_with_turns(problem, turns) for problem in problems] if turns else problems


def _turns(benchmark: Benchmark, example: Example, instruction: str) -> list[Message]:
    """A worked example as the problems are asked, and its response."""
    question = {"role": "user", "content": benchmark.template.replace(PROBLEM, example.problem)}
    return [*instructed([question], instruction), {"role": "assistant", "content": example.response}]


def read_examples(file: str) -> list[Example]:
    """Worked examples from JSON lines with problem and response. Raises UserError for anything else."""
    if not Path(file).expanduser().is_file():
        raise UserError(f"examples={file}: there is no such file")
    try:
        lines = text_of(Path(file).expanduser()).split("\n")
        examples = [Example(**json.loads(line)) for line in lines if line.strip()]
        if not all(isinstance(text, str) for example in examples for text in (example.problem, example.response)):
            raise TypeError("one of them is no text")
        return examples
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"examples={file} are not JSON lines with problem and response: {one_line(error)}") from None


def _with_turns(problem: Problem, turns: Sequence[Message]) -> Problem:
    if isinstance(problem.prompt, str):
        raise UserError(f"examples= cannot come before the prompt of {problem.id}, which is rendered already")
    number = place_of_question(problem.prompt)
    return replace(problem, prompt=[*problem.prompt[:number], *turns, *problem.prompt[number:]])


def _as_its_own(benchmark: Benchmark, problem: Problem) -> Problem:
    """With the template around the last message, and the metric's rules. Raises UserError where they do not fit."""
    from rlzoo.tasks.dataset import problem_to_grade
    from rlzoo.tasks.forms import FORM

    prompt, data = problem.prompt, dict(problem.data)
    if benchmark.template != PROBLEM:
        if isinstance(prompt, str):
            raise UserError(f"{benchmark.name}.yaml: template has no effect on prompts that are rendered already")
        prompt = asking(prompt, benchmark.template.replace(PROBLEM, asked(prompt)))
    if benchmark.metric:
        data["data_source"] = METRICS[benchmark.metric]
        data.pop(FORM, None)
    try:
        graded = problem_to_grade(problem.answer, data.get("data_source", ""), prompt, problem.id)
        return replace(graded, data=data)
    except ValueError as error:
        raise UserError(f"{benchmark.name}.yaml: metric={benchmark.metric}: problem {problem.id} {error}") from None


_HOW_TO_ANSWER = re.compile(r"\\boxed(\s*\{\s*\}|(?!\s*\{))|####|<answer>")
r"""An empty `\boxed{}` or none; Minerva's problems hold worked examples with answers in boxes."""


def says_how_to_answer(prompt: Prompt) -> bool:
    """Whether the prompt, as the data has it, carries an instruction on the form of the answer."""
    if isinstance(prompt, str):
        return True  # it is rendered, and nothing can be appended
    return any(_HOW_TO_ANSWER.search(message["content"]) for message in prompt)
