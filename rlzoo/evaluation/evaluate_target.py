"""Evaluation by itself: loads a model once, and samples and grades every problem set with every decoding."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rlzoo.config import Config, check_ranges
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.evaluation.evaluate import Evaluation, Evaluator, ShowProgress
from rlzoo.evaluation.target import Target
from rlzoo.experiment.environment import environment
from rlzoo.experiment.experiment import check_prompts, slug
from rlzoo.files import write_json
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks import Problem, Task, load_task
from rlzoo.tasks.benchmarks import RESPONSE_TOKENS, Benchmark, load_benchmark
from rlzoo.tasks.grading import GraderPool


@dataclass(frozen=True)
class ProblemSet:
    """What one figure is measured on. `config.evaluation` says how many samples, `config.task` where it comes from."""

    name: str
    task: Task
    problems: Sequence[Problem]
    config: Config


class EvaluationView(Protocol):
    """What an evaluation tells whoever looks on."""

    def evaluating(self, decoding: Decoding, name: str) -> AbstractContextManager[ShowProgress]:
        """While responses to the problem set `name` are sampled; yields what to call as they come."""
        ...

    def show_evaluations(
        self, decoding: Decoding, results: Mapping[str, Evaluation], paths: Sequence[Path], max_tokens: int
    ) -> None:
        """All problem sets are done with a decoding; their responses lie in `paths`."""
        ...


def evaluate_target(target: Target, view: EvaluationView) -> list[Path]:
    """Evaluates with every decoding; returns all files of responses.

    Everything is checked before the model loads, which happens once. A problem set's files are written as soon as it is
    done. Raises UserError for problems that cannot be had or used.
    """
    config = target.config
    check_ranges(config)
    check_engine(config)
    tokenizer = load_tokenizer(config.model)
    if target.benchmarks:
        sets = _with_room([_benchmark_set(benchmark, target) for benchmark in target.benchmarks], tokenizer, target)
    else:
        sets = [_task_set(config)]
    for problem_set in sets:
        check_prompts(problem_set.config, tokenizer, problem_set.problems)
    return _evaluate_all(sets, tokenizer, target.folder, view)


def _evaluate_all(sets: Sequence[ProblemSet], tokenizer: Tokenizer, folder: Path, view: EvaluationView) -> list[Path]:
    config = sets[0].config  # they differ in problems and samples alone, and benchmarks share one grader
    accelerator = make_accelerator(config.model.precision)
    with GraderPool(sets[0].task.grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, tokenizer).to(accelerator.device)
        with closing(load_engine(config.rollout, config.model, policy, tokenizer)) as engine:
            sampler, paths = Sampler(engine, graders, tokenizer), []
            for decoding in read_decodings(config.evaluation.decodings):
                results: dict[str, Evaluation] = {}
                for problem_set in sets:
                    results[problem_set.name], path = _evaluate_one(problem_set, decoding, sampler, folder, view)
                    paths.append(path)
                view.show_evaluations(decoding, results, paths[-len(sets) :], config.rollout.max_response_tokens)
    return paths


def _evaluate_one(
    problem_set: ProblemSet, decoding: Decoding, sampler: Sampler, folder: Path, view: EvaluationView
) -> tuple[Evaluation, Path]:
    config = problem_set.config
    evaluator = Evaluator(sampler, problem_set.task, problem_set.problems, config)
    with view.evaluating(decoding, problem_set.name) as progress:
        result = evaluator(decoding, progress)
    name = f"{slug(problem_set.name)}-{decoding.slug}-k{config.evaluation.samples}-seed{config.seed}"
    path = folder / f"{name}.jsonl"
    result.save(path)
    conditions = {
        "model": config.model.name,
        "task": problem_set.name,
        "decoding": str(decoding),
        "max_response_tokens": config.rollout.max_response_tokens,
        "seed": config.seed,
    }
    write_json(path.with_suffix(".json"), {**conditions, **result.summary(), "environment": environment()})
    return result, path


def _task_set(config: Config) -> ProblemSet:
    task = load_task(config.task, config.seed, config.evaluation.problems)
    problems = [task.held_out[i] for i in range(min(len(task.held_out), config.evaluation.problems))]
    return ProblemSet(config.task.name, task, problems, config)


def _benchmark_set(benchmark: Benchmark, target: Target) -> ProblemSet:
    config, given = target.config, target.given
    task, problems = load_benchmark(benchmark, target.benchmarks_folder, target.instruction)
    if "evaluation.problems" in given:
        problems = problems[: config.evaluation.problems]
    samples = config.evaluation.samples if "evaluation.samples" in given else benchmark.samples
    evaluation = replace(config.evaluation, problems=len(problems), samples=samples)
    source = replace(task.config, grader_workers=config.task.grader_workers, grader_timeout=config.task.grader_timeout)
    return ProblemSet(benchmark.name, task, problems, replace(config, task=source, evaluation=evaluation))


def _with_room(sets: Sequence[ProblemSet], tokenizer: Tokenizer, target: Target) -> list[ProblemSet]:
    """Limits nobody gave: the longest prompt's length; for responses the run's, or else STAPO's or the room left."""
    longest = max(len(tokenizer.encode(problem.prompt)) for it in sets for problem in it.problems)
    room = RESPONSE_TOKENS if tokenizer.context_length is None else max(1, tokenizer.context_length - longest)
    limits = {"max_prompt_tokens": longest}
    if not target.of_a_run:
        limits["max_response_tokens"] = min(RESPONSE_TOKENS, room)
    free: dict[str, Any] = {key: value for key, value in limits.items() if f"rollout.{key}" not in target.given}
    return [replace(it, config=replace(it.config, rollout=replace(it.config.rollout, **free))) for it in sets]
