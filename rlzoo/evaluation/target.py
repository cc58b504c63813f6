"""Evaluation by itself: of a run's last checkpoint or of any model, on its task or on named benchmarks."""

import dataclasses
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlzoo.config import (
    EVALUATION_KEYS,
    BenchmarksConfig,
    Config,
    check_ranges,
    given_keys,
    listed,
    load_config,
    with_embedded_default,
)
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.errors import UserError, nearest
from rlzoo.evaluation.evaluate import Evaluation, Evaluator
from rlzoo.experiment.environment import environment
from rlzoo.experiment.experiment import check_prompts
from rlzoo.experiment.identity import slug
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import write_json
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.report.terminal import Terminal
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks import Problem, Task, load_task
from rlzoo.tasks.benchmarks import RESPONSE_TOKENS, Benchmark, find, load_benchmark
from rlzoo.tasks.grading import GraderPool
from rlzoo.training.run import make_accelerator

BENCHMARK_TASK_KEYS = ("task.instruction", "task.grader_workers", "task.grader_timeout")
"""The keys of a task that have an effect on benchmarks."""

_OWN_KEYS = {key.name for key in dataclasses.fields(BenchmarksConfig)}


@dataclass(frozen=True)
class ProblemSet:
    """What one figure is measured on. `config.evaluation` says how many samples, `config.task` where it comes from."""

    name: str
    task: Task
    problems: Sequence[Problem]
    config: Config


def evaluate_target(target: str, words: Sequence[str], terminal: Terminal) -> list[Path]:
    """Evaluates a run's last checkpoint, a model folder or a hub name; returns all files of responses.

    Everything is checked before the model loads, which happens once. A problem set's files are written as soon as it is
    done. Raises UserError for a key without effect, an unknown benchmark, and problems that cannot be had or used.
    """
    own, words = _split(words)
    config, folder = _evaluation_config(target, words)
    if own.benchmarks:
        config = _as_the_papers_decode(config, words)
    check_ranges(config)
    check_engine(config)
    benchmarks = find(own.benchmarks) if own.benchmarks else []
    tokenizer = load_tokenizer(config.model)
    if benchmarks:
        sets = [_benchmark_set(benchmark, own.benchmarks_folder, config, words) for benchmark in benchmarks]
        sets = _with_room(sets, tokenizer, words, of_a_run=RunFolder(Path(target)).config.exists())
    else:
        sets = [_task_set(config)]
    for problem_set in sets:
        check_prompts(problem_set.config, tokenizer, problem_set.problems)
    return _evaluate_all(sets, tokenizer, folder, terminal)


def _evaluate_all(sets: Sequence[ProblemSet], tokenizer: Tokenizer, folder: Path, terminal: Terminal) -> list[Path]:
    config = sets[0].config  # they differ in problems and samples alone, and benchmarks share one grader
    accelerator = make_accelerator(config, folder)
    with GraderPool(sets[0].task.grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, tokenizer).to(accelerator.device)
        with closing(load_engine(config.rollout, config.model, policy, tokenizer)) as engine:
            sampler, paths = Sampler(engine, graders, tokenizer), []
            for decoding in read_decodings(config.evaluation.decodings):
                results: dict[str, Evaluation] = {}
                for problem_set in sets:
                    results[problem_set.name], path = _evaluate_one(problem_set, decoding, sampler, folder, terminal)
                    paths.append(path)
                terminal.show_evaluations(decoding, results, paths[-len(sets) :], config.rollout.max_response_tokens)
    return paths


def _evaluate_one(
    problem_set: ProblemSet, decoding: Decoding, sampler: Sampler, folder: Path, terminal: Terminal
) -> tuple[Evaluation, Path]:
    config = problem_set.config
    evaluator = Evaluator(sampler, problem_set.task, problem_set.problems, config)
    with terminal.evaluating(decoding, problem_set.name) as progress:
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


# ---- named benchmarks ------------------------------------------------------------------------------------------------


def _split(words: Sequence[str]) -> tuple[BenchmarksConfig, list[str]]:
    """What the words say of benchmarks, and the other words. Raises UserError for what has no effect."""
    mine = [word for word in words if word.partition("=")[0] in _OWN_KEYS]
    others = [word for word in words if word not in mine]
    own: BenchmarksConfig = load_config([listed(word, "benchmarks") for word in mine], BenchmarksConfig)
    if any(word.startswith("benchmarks=") for word in mine):
        find(own.benchmarks)
        for word in others:
            if word.startswith("task.") and not word.startswith(BENCHMARK_TASK_KEYS):
                raise UserError(f"{word!r} has no effect on benchmarks; leave it out")
    elif mine:
        raise UserError(f"{mine[0]!r} has no effect without benchmarks=")
    return own, others


def _as_the_papers_decode(config: Config, words: Sequence[str]) -> Config:
    if "evaluation.decodings" in given_keys(words):
        return config
    return replace(config, evaluation=replace(config.evaluation, decodings=["1.0/1.0", "0.7/0.9"]))


def _benchmark_set(benchmark: Benchmark, folder: str, config: Config, words: Sequence[str]) -> ProblemSet:
    given = given_keys(words)
    chosen = [word for word in words if word.startswith("task.instruction=")]
    task, problems = load_benchmark(benchmark, folder, config.task.instruction if chosen else None)
    if "evaluation.problems" in given:
        problems = problems[: config.evaluation.problems]
    samples = config.evaluation.samples if "evaluation.samples" in given else benchmark.samples
    evaluation = replace(config.evaluation, problems=len(problems), samples=samples)
    source = replace(task.config, grader_workers=config.task.grader_workers, grader_timeout=config.task.grader_timeout)
    return ProblemSet(benchmark.name, task, problems, replace(config, task=source, evaluation=evaluation))


def _with_room(
    sets: Sequence[ProblemSet], tokenizer: Tokenizer, words: Sequence[str], of_a_run: bool
) -> list[ProblemSet]:
    """Limits nobody gave: the longest prompt's length; for responses the run's, or else STAPO's or the room left."""
    longest = max(len(tokenizer.encode(problem.prompt)) for it in sets for problem in it.problems)
    room = RESPONSE_TOKENS if tokenizer.context_length is None else max(1, tokenizer.context_length - longest)
    limits = {"max_prompt_tokens": longest} | ({} if of_a_run else {"max_response_tokens": min(RESPONSE_TOKENS, room)})
    given = given_keys(words)
    free: dict[str, Any] = {key: value for key, value in limits.items() if f"rollout.{key}" not in given}
    return [replace(it, config=replace(it.config, rollout=replace(it.config.rollout, **free))) for it in sets]


# ---- the target ------------------------------------------------------------------------------------------------------


def _evaluation_config(target: str, words: Sequence[str]) -> tuple[Config, Path]:
    for word in words:
        key = word.partition("=")[0]
        if "=" in word and (not key.startswith(EVALUATION_KEYS) or key == "model.name"):
            raise UserError(f"{word!r} has no effect on an evaluation of {target}{nearest(key, _OWN_KEYS)}")
    run = RunFolder(Path(target))
    chosen = [word.partition("=")[2] for word in words if word.startswith("output=")]
    if not run.config.exists():
        config = load_config(with_embedded_default([f"model.name={target}", *words]))
        config.model.name = target
        return config, Path(chosen[-1] if chosen else f"evaluations/{slug(target)}")
    checkpoint = run.last_checkpoint()
    if checkpoint is None:
        raise UserError(f"{target} has no checkpoint yet; rlzoo train {run.config} resume=true goes on with it")
    config = load_config([str(run.config), *words])
    config.model.name, config.model.revision = str(checkpoint), None
    return config, Path(chosen[-1]) if chosen else run.path / "evaluation"
