"""Evaluation by itself: loads a model once, and samples and grades every problem set with every decoding."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from accelerate import Accelerator

from rlzoo.config import Config, RolloutConfig, TaskConfig
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.evaluation.evaluate import Evaluation, Evaluator, ProblemSet, ShowProgress, holds_out_others
from rlzoo.evaluation.kept import KeptBatches, is_finished, record_result
from rlzoo.evaluation.target import Target, model_settings, settings_of
from rlzoo.experiment.check import check_prompts
from rlzoo.experiment.identity import changed_sources, read_objective, task_sources
from rlzoo.experiment.machine import environment, shortage_named
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import slug
from rlzoo.model.accelerator import broadcast_from_main, make_accelerator
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout import check_engine, engine_class, load_engine
from rlzoo.rollout.sampler import open_sampler
from rlzoo.tasks import load_task
from rlzoo.tasks.benchmarks import RESPONSE_TOKENS, Benchmark, contamination_of, load_benchmark
from rlzoo.tasks.grading import GraderPool

_logger = logging.getLogger(__name__)


class EvaluationView(Protocol):
    """What an evaluation tells a view."""

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


@dataclass(frozen=True)
class EvaluationPart:
    """A problem set with a decoding: the file of its responses, and what decides them."""

    problem_set: ProblemSet
    decoding: Decoding
    path: Path
    settings: Mapping[str, Any]


def evaluate_target(target: Target, view: EvaluationView) -> list[Path]:
    """Evaluates with every decoding; returns all files of responses.

    Everything is checked before the model loads, which happens once. What is finished is not sampled again, and what
    was killed goes on after its last whole batch. Raises UserError for problems that cannot be had or used, and for
    responses that are there and were decided by other settings.
    """
    config = target.config
    target.check()
    check_engine(config)
    tokenizer = load_tokenizer(config.model, config.task)
    if target.benchmarks:
        sets = [_benchmark_set(benchmark, target, tokenizer) for benchmark in target.benchmarks]
        config = replace(config, rollout=_with_room(target, tokenizer, sets))
    else:
        task = load_task(config.task, config.seed, config.evaluation.problems, tokenizer.is_rendered)
        sets = [ProblemSet.held_out(config, task)]
    for problem_set in sets:
        check_prompts(config.model, config.rollout, tokenizer, problem_set.problems)
    accelerator = make_accelerator(config.model.precision)
    if not accelerator.is_main_process:
        view.silence()
    elif target.run is not None:
        run = RunFolder(Path(target.run["folder"]))
        _tell_of_other_code(run, sets[0].source, config.rollout.engine)
        if not target.benchmarks and holds_out_others(run, config.task, sets[0].problems):
            _logger.warning(
                "the run in %s held out other questions and may have trained on these; task.held_out=FILE names others",
                run.path,
            )
    if accelerator.is_main_process:
        for note in contamination_of(benchmark.name for benchmark in target.benchmarks):
            _logger.warning("%s", note)
    parts = _parts(sets, config, tokenizer, target.folder)
    to_do = [part for part in parts if not broadcast_from_main(is_finished(part.path, part.settings))]
    if to_do:
        with shortage_named(config, learns=False):
            _evaluate(to_do, config, tokenizer, accelerator, view, target.run)
    if accelerator.is_main_process:
        for part in parts:
            KeptBatches(part.path).forget()
        _show(parts, config, view)
    return [part.path for part in parts]


def _tell_of_other_code(run: RunFolder, source: TaskConfig, engine: str) -> None:
    """A task or a reward whose code has changed since the run was trained; an evaluation runs no part."""
    trained = read_objective(run.path).code if run.objective.exists() else None
    change = changed_sources(task_sources(source, engine), {} if trained is None else trained.task)
    if change:
        _logger.warning(
            "%s has changed since the run in %s was trained; it is evaluated as it is now", change, run.path
        )


def _parts(sets: Sequence[ProblemSet], config: Config, tokenizer: Tokenizer, folder: Path) -> list[EvaluationPart]:
    model = model_settings(config.model, tokenizer)

    def part(problem_set: ProblemSet, decoding: Decoding) -> EvaluationPart:
        name, problems, samples = problem_set.name, problem_set.problems, decoding.samples(problem_set.samples)
        settings = settings_of(name, problems, samples, problem_set.source, decoding, config, tokenizer)
        path = folder / f"{slug(name)}-{decoding.slug}-k{samples}-seed{config.seed}.jsonl"
        return EvaluationPart(problem_set, decoding, path, {**settings, "model": model})

    decodings = read_decodings(config.evaluation.decodings)
    return [part(problem_set, decoding) for decoding in decodings for problem_set in sets]


def _evaluate(
    parts: Sequence[EvaluationPart],
    config: Config,
    tokenizer: Tokenizer,
    accelerator: Accelerator,
    view: EvaluationView,
    run: Mapping[str, Any] | None,
) -> None:
    grader = parts[0].problem_set.task.grader  # of all: the task is alone, and benchmarks share one
    step = run["step"] if run else 0
    with GraderPool.of(config.task, grader, max(1, step)) as graders:
        graders.step = step
        policy = load_policy(config.model, tokenizer).to(accelerator.device)
        with (
            closing(load_engine(config.rollout, config.model, policy, tokenizer)) as engine,
            open_sampler(config.task, engine, graders, tokenizer) as sampler,
        ):
            for part in parts:
                evaluator, kept = Evaluator(accelerator, sampler, part.problem_set, config), KeptBatches(part.path)
                claim = kept.claimed(part.settings) if accelerator.is_main_process else nullcontext()
                with claim, view.evaluating(part.decoding, part.problem_set.name) as progress:
                    result = evaluator(part.decoding, progress, kept)
                    if result is not None:
                        result.save(part.path)
                        made_with = environment(*engine_class(config.rollout.engine).packages)
                        made = {"model": config.model.name, "run": run, "settings": part.settings}
                        record_result(part.path, {**made, "figures": result.summary(), "environment": made_with})
                accelerator.wait_for_everyone()


def _show(parts: Sequence[EvaluationPart], config: Config, view: EvaluationView) -> None:
    for decoding, of_decoding in groupby(parts, key=lambda part: part.decoding):
        results = {part.problem_set.name: (Evaluation.load(part.path), part.path) for part in of_decoding}
        evaluations = {name: evaluation for name, (evaluation, _) in results.items()}
        paths = [path for _, path in results.values()]
        view.show_evaluations(decoding, evaluations, paths, config.rollout.max_response_tokens)


def _benchmark_set(benchmark: Benchmark, target: Target, tokenizer: Tokenizer) -> ProblemSet:
    evaluation, given = target.config.evaluation, target.given
    folder, instruction, examples = target.benchmarks_folder, target.instruction, target.examples
    task, problems = load_benchmark(
        benchmark, folder, instruction, examples, target.system_prompt, tokenizer.is_rendered
    )
    if "evaluation.problems" in given:
        problems = problems[: evaluation.problems]
    samples = evaluation.samples if "evaluation.samples" in given else benchmark.samples
    instruction = benchmark.instruction if target.instruction is None else target.instruction
    configured = target.config.task
    source = replace(
        task.config,
        instruction=instruction,
        chat_template_kwargs=configured.chat_template_kwargs,
        grade_truncated=configured.grade_truncated,
        keep_special_tokens=configured.keep_special_tokens,
    )
    return ProblemSet(benchmark.name, task, problems, source, samples)


def _with_room(target: Target, tokenizer: Tokenizer, sets: Sequence[ProblemSet]) -> RolloutConfig:
    """Fills in limits that are not set: the longest prompt; for responses STAPO's, or the room left."""
    longest = max(len(tokenizer.encode(problem.prompt)) for problem_set in sets for problem in problem_set.problems)
    room = RESPONSE_TOKENS if tokenizer.context_length is None else max(1, tokenizer.context_length - longest)
    limits = {"max_prompt_tokens": longest}
    if not target.of_a_run:
        limits["max_response_tokens"] = min(RESPONSE_TOKENS, room)
    free: dict[str, Any] = {key: value for key, value in limits.items() if f"rollout.{key}" not in target.given}
    return replace(target.config.rollout, **free)
