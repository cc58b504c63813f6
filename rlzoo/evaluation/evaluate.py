"""Held-out evaluation: avg@k with an interval, and every response kept."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from accelerate import Accelerator
from accelerate.utils import gather_object

from rlzoo.config import Config, TaskConfig
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.kept import KeptBatches, in_order
from rlzoo.experiment.experiment import step_seed
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines, write_json_lines
from rlzoo.model.accelerator import gathered
from rlzoo.records import COUNT, KEYS, NUMBER, PROMPT, SHARE, TEXT, TEXT_OR_NOTHING, Fields
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.sampler import GradedRollouts, Sampler
from rlzoo.statistics.aggregates import majority_at_k, pass_at_k, powers_of_two
from rlzoo.statistics.intervals import Estimate, mean_over_problems
from rlzoo.tasks import is_dataset
from rlzoo.tasks.base import KnowsCalls, Problem, Task
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.regrading import grading_keys, to_json
from rlzoo.tasks.tools import calls_in

RECORD = Fields(
    {"problem": TEXT, "sample": COUNT, "correct": SHARE, "response": TEXT, "outcome": TEXT},
    {
        **{"prompt": PROMPT, "answer": TEXT, "reward": NUMBER, "tokens": COUNT, "entropy": NUMBER},
        **{"final_answer": TEXT_OR_NOTHING, "vote": TEXT_OR_NOTHING, "task": KEYS, "data": KEYS},
    },
)
"""What the record of a response has."""

Record = dict[str, Any]
ShowProgress = Callable[[int, int], None]
"""Called with the number of responses done and the number of all."""


@dataclass(frozen=True)
class Evaluation:
    """One record per response, sorted by problem and sample."""

    records: Sequence[dict[str, Any]]
    samples: int

    def has(self, name: str) -> bool:
        """Whether every record has this field; some are optional."""
        return all(name in record for record in self.records)

    def column(self, name: str) -> np.ndarray:
        """[problems, samples] values of a numeric field of the records."""
        values = np.array([record[name] for record in self.records], dtype=np.float64)
        return values.reshape(-1, self.samples)

    def final_answers(self) -> list[list[str | None]]:
        """[problems][samples] what each response gave as its answer, equal ones written alike."""
        answers = [record.get("vote", record["final_answer"]) for record in self.records]
        return [answers[i : i + self.samples] for i in range(0, len(answers), self.samples)]

    @property
    def truncated(self) -> float:
        """The share of responses that were stopped by length."""
        return sum(record["outcome"] == "truncated" for record in self.records) / len(self.records)

    @property
    def accuracy(self) -> Estimate:
        """avg@k: mean correctness over samples and problems."""
        return mean_over_problems(self.column("correct"))

    @property
    def passed(self) -> Estimate:
        """pass@k, k all samples."""
        return mean_over_problems(pass_at_k(self.column("correct"), self.samples)[:, None])

    @property
    def pass_at(self) -> dict[int, float]:
        """pass@k, unbiased, for k = 1, 2, 4, ... and the number of samples."""
        correct = self.column("correct")
        return {k: float(pass_at_k(correct, k).mean()) for k in powers_of_two(self.samples)}

    @property
    def majorities(self) -> np.ndarray:
        """[problems] maj@k, k all samples."""
        return majority_at_k(self.column("correct"), self.final_answers())

    @property
    def majority(self) -> Estimate:
        """maj@k, k all samples."""
        return mean_over_problems(self.majorities[:, None])

    def summary(self) -> dict[str, Any]:
        """The figures of the run's table, as plain data."""
        accuracy, passed, majority = self.accuracy, self.passed, self.majority
        outcomes = [record["outcome"] for record in self.records]
        return {
            "accuracy": accuracy.mean,
            "accuracy_low": accuracy.low,
            "accuracy_high": accuracy.high,
            "pass_at": self.pass_at,
            "pass_low": passed.low,
            "pass_high": passed.high,
            "majority": majority.mean,
            "majority_low": majority.low,
            "majority_high": majority.high,
            "length": float(self.column("tokens").mean()),
            "entropy": float(self.column("entropy").mean()),
            "truncated": self.truncated,
            "timed_out": outcomes.count("timed_out"),
            "failed": outcomes.count("failed"),
            "problems": len(self.records) // self.samples,
            "samples": self.samples,
        }

    @classmethod
    def of(cls, records: Sequence[dict[str, Any]]) -> "Evaluation":
        """The evaluation that has these records, as many for each problem."""
        return cls(records, 1 + max(record["sample"] for record in records))

    @classmethod
    def load(cls, path: Path) -> "Evaluation":
        """Reads what `save` wrote. Raises UserError if that is not all there."""
        records = read_json_lines(path, RECORD)
        if not records or len(records) % (1 + max(record["sample"] for record in records)):
            raise damaged(path, f"it ends after {len(records)} responses")
        return cls.of(records)

    def save(self, path: Path) -> None:
        """Writes the records as JSON lines, so that anyone can re-grade them."""
        write_json_lines(path, self.records)


Evaluations = Mapping[Decoding, Mapping[int, Evaluation]]
"""Those of a run with each decoding, by step."""


def read_evaluations(folder: RunFolder, decoding: Decoding) -> dict[int, Evaluation]:
    """The evaluations of a run so far, by step. Raises UserError for one that is not all there."""
    files = folder.evaluations(decoding)
    evaluations = {step: Evaluation.load(path) for step, path in files.items()}
    longest = max((len(evaluation.records) for evaluation in evaluations.values()), default=0)
    for step, evaluation in evaluations.items():
        if len(evaluation.records) < longest:
            raise damaged(files[step], f"it ends after {len(evaluation.records)} of {longest} responses")
    return evaluations


def all_evaluations(folder: RunFolder, config: Config) -> Evaluations:
    """Those of a run so far with each decoding, the first one first. Raises UserError as `read_evaluations` does."""
    return {at: read_evaluations(folder, at) for at in read_decodings(config.evaluation.decodings)}


_CUT_BY = (
    *("name", "split", "held_out", "held_out_split", "held_out_rows", "held_out_seed", "columns"),
    *("system_prompt", "reward", "environment"),
)
"""The keys of a task that say which of its questions are held out."""


def holds_out_others(run: RunFolder, task: TaskConfig, held_out: Sequence[Problem]) -> bool:
    """Whether a run was evaluated on other questions than are held out now, and may have trained on these.

    Earlier versions read rows that are left out now, and chose the questions to hold out with `task.instruction` behind
    them. Of what is no dataset, and of one that is cut by other keys, the answer is False.
    """
    before = run.read_config().task
    files = sorted((run / "evaluation").glob("step-*.jsonl"))
    is_cut_alike = all(getattr(task, key) == getattr(before, key) for key in _CUT_BY)
    if not files or not is_cut_alike or not is_dataset(task.name):
        return False
    asked = dict.fromkeys(record["problem"] for record in read_json_lines(files[0], RECORD))
    return any(id != problem.id for id, problem in zip(asked, held_out, strict=False))


def damaged(path: Path, how: str) -> UserError:
    """The error for a file of an evaluation that something else than rlzoo cut short."""
    remedy = "remove it, and rlzoo train with resume=true makes the last one again"
    return UserError(f"{path} is damaged: {how}; {remedy}")


QUEUED = 16
"""How many times `rollout.rows_per_batch` rows an engine gets at once that queues them itself: each call waits for its
longest response."""


@dataclass(frozen=True)
class ProblemSet:
    """What one figure is measured on: `samples` responses to each problem of a task, which `source` describes.

    Greedy decoding has one response to each.
    """

    name: str
    task: Task
    problems: Sequence[Problem]
    source: TaskConfig
    samples: int

    @classmethod
    def held_out(cls, config: Config, task: Task) -> "ProblemSet":
        """The held-out problems that evaluations of a run use."""
        problems = task.held_out[: config.evaluation.problems]
        return cls(config.task.name, task, problems, config.task, config.evaluation.samples)


@dataclass(frozen=True)
class Evaluator:
    """Samples and grades responses to a set of problems, each process a share of them.

    Always with the same seed, so that evaluations before and after training differ by the policy alone. Every draw
    depends on seed, problem and sample, whichever process makes it.
    """

    accelerator: Accelerator
    sampler: Sampler
    problem_set: ProblemSet
    config: Config
    """Says how it samples; which task, the problem set says."""

    def __call__(
        self,
        decoding: Decoding,
        progress: ShowProgress = lambda done, total: None,
        kept: KeptBatches | None = None,
    ) -> Evaluation | None:
        """The responses to each problem, on the main process; None on the others.

        All processes call it together. What it says of its progress is estimated from this process's share. Problems
        that are `kept` are not sampled again, and those that are sampled are kept batch by batch.
        """
        problems, rollout = self.problem_set.problems, self.config.rollout
        samples = decoding.samples(self.problem_set.samples)
        total = len(problems) * samples
        seed = step_seed(self.config.seed, 0, "evaluation")
        chances = (decoding.temperature, decoding.top_p, decoding.top_k, decoding.min_p)
        sampling = Sampling(rollout.max_response_tokens, *chances, tuple(self.config.evaluation.stop))
        is_queued = self.sampler.environment is None and getattr(self.sampler.engine, "queues", False)
        at_once = rollout.rows_per_batch * (QUEUED if is_queued else 1)
        per_batch = max(1, at_once // samples)
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        shares = shared_batches(len(problems), per_batch, process, processes)
        seen = kept.records() if kept else {}
        seen_by: list[set[int]] = gather_object([set(seen)])
        left = [(start, _left(start, numbers, set().union(*seen_by))) for start, numbers in shares]
        assigned = sum(len(numbers) for _, numbers in shares)
        done = assigned - sum(len(numbers) for _, numbers in left)
        records = seen if process == 0 else {number: seen[number] for number in seen.keys() - seen_by[0]}
        for start, numbers in left:
            if numbers:
                asked = [problems[start + number] for number in numbers]
                graded = self.sampler(asked, samples, sampling, seed + start, numbers)
                rows = [self._record(graded, row, row % samples) for row in range(len(graded.texts))]
                rows = with_votes(self.sampler.graders, [graded.problem_of(row) for row in range(len(rows))], rows)
                batch = {start + number: rows[i * samples : (i + 1) * samples] for i, number in enumerate(numbers)}
                if kept:
                    kept.keep(batch)
                records |= batch
                done += len(numbers)
            progress(total * done // assigned, total)
        everywhere = dict(gathered(self.accelerator, list(records.items())))
        return Evaluation(in_order(everywhere), samples) if self.accelerator.is_main_process else None

    def _record(self, graded: GradedRollouts, row: int, sample: int) -> dict[str, Any]:
        final_answer = self._final_answer(graded, row)
        return {**response_record(graded, row, self.problem_set.source), "sample": sample, "final_answer": final_answer}

    def _final_answer(self, graded: GradedRollouts, row: int) -> str | None:
        if graded.outcomes[row] == "truncated" and not self.problem_set.source.grade_truncated:
            return None
        return self.problem_set.task.final_answer(graded.problem_of(row), graded.texts[row])


def _left(start: int, numbers: range, done: Set[int]) -> Sequence[int]:
    """The numbers of a share whose problems are not done."""
    return [number for number in numbers if start + number not in done]


def shared_batches(problems: int, size: int, process: int, processes: int) -> list[tuple[int, range]]:
    """Of each batch of `size` problems in which a process has a share: its first problem, and the numbers in it.

    As long as there is a whole batch for every process they take these in turn, and of the last ones the problems.
    """
    starts = range(0, problems, size)
    dealt = len(starts) // processes * processes
    whole = [(start, range(min(size, problems - start))) for start in starts[:dealt][process::processes]]
    rest = starts[dealt:]
    parts = [
        (start, range((process - start + rest.start) % processes, min(size, problems - start), processes))
        for start in rest
    ]
    return whole + [part for part in parts if part[1]]


def response_record(graded: GradedRollouts, row: int, task: TaskConfig) -> dict[str, Any]:
    """One response as plain data, with all that grading it again takes."""
    problem = graded.problem_of(row)
    rollouts = graded.rollouts
    tokens = int(rollouts.mask[row].sum())
    return {
        "problem": problem.id,
        "prompt": problem.prompt if isinstance(problem.prompt, str) else [dict(m) for m in problem.prompt],
        "answer": problem.answer,
        "response": graded.texts[row],
        "correct": float(graded.correct[row]),
        "reward": float(graded.reward[row]),
        "outcome": graded.outcomes[row],
        "tokens": tokens,
        "entropy": float(rollouts.entropy[row].sum() / max(1, tokens)),
        "task": grading_keys(task),
        "data": to_json(problem.data),
        **{name: float(values[row]) for name, values in graded.figures.items()},
        **({"transcript": graded.transcripts[row]} if graded.transcripts else {}),
    }


# ---- calls of tools --------------------------------------------------------------------------------------------------


def call_figures(records: Sequence[Mapping[str, Any]], task: Task) -> dict[str, float]:
    """What it is -> its number: calls per response, percent of calls that failed, and percent of right calls.

    Nothing where responses have one turn; no right calls where the task does not know them; nan of no call.
    """
    if not all("tool_calls" in record for record in records):
        return {}
    calls, failed = (sum(record[name] for record in records) for name in ("tool_calls", "tool_errors"))
    figures = {
        "calls per response": calls / len(records),
        "failed calls (%)": 100 * failed / calls if calls else float("nan"),
    }
    if hasattr(task, "is_right_call"):  # isinstance sees none that a task hands on from another, since Python 3.12
        figures["right calls (%)"] = 100 * right_calls(records, cast(KnowsCalls, task))
    return figures


def right_calls(records: Sequence[Mapping[str, Any]], task: KnowsCalls) -> float:
    """The share of the calls that ask for what the problem's answer is; nan if there is none."""
    right = [
        task.is_right_call(call, record["answer"]) for record in records for call in calls_in(record["transcript"])
    ]
    return sum(right) / len(right) if right else float("nan")


# ---- majority votes --------------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"0|-?[1-9]\d*")


def with_votes(pool: GraderPool, problems: Sequence[Problem], records: Sequence[Record]) -> list[Record]:
    """The records, `vote` being the answer that a wrong answer equals where another sample wrote it otherwise before.

    Each record is of the problem at its place; responses to one problem stand side by side. Graders compare with the
    gold answer of a dataset's problem, so an answer takes its place; of other tasks, answers are equal as texts.
    """
    groups = [
        [place for place, _ in group]
        for _, group in itertools.groupby(enumerate(records), key=lambda numbered: numbered[1]["problem"])
    ]
    by_gold = [places for places in groups if _compares_with_gold(problems[places[0]], records[places[0]])]
    distinct = [_distinct_wrong(records, places) for places in by_gold]
    pairs = [pair for places in distinct for pair in itertools.combinations(places, 2) if _may_be_equal(records, pair)]
    asked = [replace(problems[first], answer=records[first]["final_answer"]) for first, _ in pairs]
    graded = pool.grade(asked, [records[second]["response"] for _, second in pairs])
    votes: dict[tuple[str, str], str] = {}  # problem and answer -> the answer that it equals
    for (first, second), result in zip(pairs, graded, strict=True):
        key = (records[second]["problem"], records[second]["final_answer"])
        if result.grade.correct == 1 and key not in votes:
            answer = str(records[first]["final_answer"])
            votes[key] = votes.get((key[0], answer), answer)
    return [_voting(record, votes.get((record["problem"], record.get("final_answer") or ""))) for record in records]


def _compares_with_gold(problem: Problem, record: Record) -> bool:
    """Whether a grader of ours does; a reward of one's own may make anything of another gold answer."""
    task = record["task"]
    return "data_source" in problem.data and not task.get("reward") and not task.get("environment")


def _distinct_wrong(records: Sequence[Record], places: Sequence[int]) -> list[int]:
    """Where each wrong answer stands first."""
    first_places: dict[str, int] = {}
    for place in places:
        answer = records[place].get("final_answer")
        if answer is not None and records[place]["correct"] != 1:
            first_places.setdefault(answer, place)
    return list(first_places.values())


def _may_be_equal(records: Sequence[Record], pair: tuple[int, int]) -> bool:
    """False for two different whole numbers, which need no grader."""
    return not all(_WHOLE.fullmatch(records[place]["final_answer"]) for place in pair)


def _voting(record: Record, vote: str | None) -> Record:
    without = {key: value for key, value in record.items() if key != "vote"}
    return without if vote is None or record["correct"] == 1 else {**without, "vote": vote}
