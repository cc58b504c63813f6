"""Evaluation by itself: loads a model once, and samples and grades every problem set with every decoding."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from rlzoo.config import Config, RolloutConfig, TaskConfig
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.evaluation.evaluate import Evaluation, Evaluator, ShowProgress
from rlzoo.evaluation.target import Target
from rlzoo.experiment.environment import environment
from rlzoo.experiment.prompts import check_prompts
from rlzoo.files import slug, write_json
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import check_engine, load_engine, warn_of_cache
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks import Problem, Task, load_task
from rlzoo.tasks.benchmarks import RESPONSE_TOKENS, Benchmark, load_benchmark
from rlzoo.tasks.grading import GraderPool


@dataclass(frozen=True)
class ProblemSet:
    """What one figure is measured on: `samples` responses to each problem of a task, which `source` describes."""

    name: str
    task: Task
    problems: Sequence[Problem]
    source: TaskConfig
    samples: int


class EvaluationView(Protocol):
    """What an evaluation tells whoever looks on."""

    def silence(self) -> None:
        """Nothing is to be said from now on: the main process speaks for all."""
        ...

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
    target.check()
    check_engine(config.rollout, config.evaluation)
    tokenizer = load_tokenizer(config.model, config.task.chat_template_kwargs)
    if target.benchmarks:
        sets = [_benchmark_set(benchmark, target) for benchmark in target.benchmarks]
        config = replace(config, rollout=_with_room(target, tokenizer, sets))
    else:
        sets = [_task_set(config)]
    for problem_set in sets:
        check_prompts(config.model, config.rollout, tokenizer, problem_set.problems)
    warn_of_cache(config.rollout, config.model, tokenizer)
    return _evaluate_all(sets, config, tokenizer, target.folder, view)


def _evaluate_all(
    sets: Sequence[ProblemSet], config: Config, tokenizer: Tokenizer, folder: Path, view: EvaluationView
) -> list[Path]:
    accelerator = make_accelerator(config.model.precision)
    if not accelerator.is_main_process:
        view.silence()
    grader = sets[0].task.grader  # of all: the task is alone, and benchmarks share one
    with GraderPool(grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, tokenizer).to(accelerator.device)
        with closing(load_engine(config.rollout, config.model, policy, tokenizer)) as engine:
            sampler, paths = Sampler(engine, graders, tokenizer, config.task.grade_truncated), []
            for decoding in read_decodings(config.evaluation.decodings):
                results: dict[str, Evaluation] = {}
                for one in sets:
                    paths.append(folder / f"{slug(one.name)}-{decoding.slug}-k{one.samples}-seed{config.seed}.jsonl")
                    evaluator = Evaluator(
                        accelerator,
                        sampler,
                        one.task,
                        one.problems,
                        one.samples,
                        config.rollout,
                        one.source,
                        config.seed,
                    )
                    with view.evaluating(decoding, one.name) as progress:
                        result = evaluator(decoding, progress)
                    if result is not None:
                        results[one.name] = result
                        _save(result, one, decoding, config, paths[-1])
                if results:
                    view.show_evaluations(decoding, results, paths[-len(sets) :], config.rollout.max_response_tokens)
    return paths


def _save(result: Evaluation, problem_set: ProblemSet, decoding: Decoding, config: Config, path: Path) -> None:
    """Writes the responses, and beside them the figures and what they depend on."""
    result.save(path)
    conditions = {
        "model": config.model.name,
        "task": problem_set.name,
        "decoding": str(decoding),
        "max_response_tokens": config.rollout.max_response_tokens,
        "seed": config.seed,
    }
    write_json(path.with_suffix(".json"), {**conditions, **result.summary(), "environment": environment()})


def _task_set(config: Config) -> ProblemSet:
    task = load_task(config.task, config.seed, config.evaluation.problems)
    problems = task.held_out[: config.evaluation.problems]
    return ProblemSet(config.task.name, task, problems, config.task, config.evaluation.samples)


def _benchmark_set(benchmark: Benchmark, target: Target) -> ProblemSet:
    evaluation, given = target.config.evaluation, target.given
    task, problems = load_benchmark(benchmark, target.benchmarks_folder, target.instruction)
    if "evaluation.problems" in given:
        problems = problems[: evaluation.problems]
    samples = evaluation.samples if "evaluation.samples" in given else benchmark.samples
    return ProblemSet(benchmark.name, task, problems, task.config, samples)


def _with_room(target: Target, tokenizer: Tokenizer, sets: Sequence[ProblemSet]) -> RolloutConfig:
    """Limits nobody gave: the longest prompt's length; for responses the run's, or else STAPO's or the room left."""
    longest = max(len(tokenizer.encode(problem.prompt)) for it in sets for problem in it.problems)
    room = RESPONSE_TOKENS if tokenizer.context_length is None else max(1, tokenizer.context_length - longest)
    limits = {"max_prompt_tokens": longest}
    if not target.of_a_run:
        limits["max_response_tokens"] = min(RESPONSE_TOKENS, room)
    free: dict[str, Any] = {key: value for key, value in limits.items() if f"rollout.{key}" not in target.given}
    return replace(target.config.rollout, **free)
