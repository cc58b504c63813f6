"""A whole run: check, load, evaluate, train, checkpoint, evaluate, report. Everything it leaves lies in one folder."""

import dataclasses
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, set_seed

from rlzoo.config import Config, flat
from rlzoo.config.decoding import read_decodings
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluator, response_record
from rlzoo.experiment.experiment import Experiment, check
from rlzoo.experiment.run_folder import RunFolder, claim, forget_after
from rlzoo.files import append_json_line, read_json_lines
from rlzoo.model.flops import forward_flops, measured_peak
from rlzoo.model.policy import Policy, load_policy
from rlzoo.report.curves import draw_curves
from rlzoo.report.terminal import MODEL_PHASES, PHASES, Terminal
from rlzoo.rollout import load_engine
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks.grading import GraderPool
from rlzoo.training.checkpoint import Progress, load_optimizer, read_progress, save_checkpoint
from rlzoo.training.collect import Collected
from rlzoo.training.trainer import Trainer


def train(config: Config, terminal: Terminal) -> RunFolder:
    """Runs an experiment, or goes on with it, to its end."""
    experiment = check(config)
    folder = RunFolder(experiment.folder)
    accelerator = make_accelerator(config, folder.path)
    if not accelerator.is_main_process:
        terminal.silence()
    with claim(folder, config) if accelerator.is_main_process else nullcontext():
        accelerator.wait_for_everyone()
        _start_trackers(accelerator, config)
        terminal.introduce(experiment, str(accelerator.device))
        with load_trainer(experiment, accelerator, folder) as trainer:
            _loop(trainer, folder, terminal)
        accelerator.end_training()
        if accelerator.is_main_process:
            _report(experiment, folder, terminal, accelerator.device)
    return folder


def _report(experiment: Experiment, folder: RunFolder, terminal: Terminal, device: torch.device) -> None:
    decodings = read_decodings(experiment.config.evaluation.decodings)
    evaluations = {decoding: folder.evaluations(decoding) for decoding in decodings}
    metrics, timings = read_json_lines(folder.metrics), read_json_lines(folder.timings)
    draw_curves(folder.curves, experiment, metrics, evaluations[decodings[0]])
    dtype = torch.bfloat16 if experiment.config.model.precision == "bfloat16" else torch.float32
    terminal.conclude(folder.path, evaluations, timings, measured_peak(device, dtype))


def make_accelerator(config: Config, folder: Path) -> Accelerator:
    """Accelerate's view of the machine, with the trackers asked for."""
    precision = "bf16" if config.model.precision == "bfloat16" else "no"
    try:
        return Accelerator(
            mixed_precision=precision,
            log_with=config.log.trackers or None,
            project_dir=folder,
            cpu=not torch.accelerator.is_available(),  # unless told, Accelerate joins no processes on CPUs
            kwargs_handlers=[
                DistributedDataParallelKwargs(broadcast_buffers=False)
            ],  # no model here changes its buffers
        )
    except ValueError as error:
        raise UserError(f"log.trackers={config.log.trackers}: {error}") from None


def _start_trackers(accelerator: Accelerator, config: Config) -> None:
    if not config.log.trackers:
        return
    values = {key: str(value) for key, value in flat(asdict(config)).items()}
    accelerator.init_trackers(config.log.project, values)
    missing = set(config.log.trackers) - {tracker.name for tracker in accelerator.trackers}
    if missing:
        raise UserError(f"log.trackers={config.log.trackers}: {', '.join(sorted(missing))} is not installed")


@contextmanager
def load_trainer(
    experiment: Experiment,
    accelerator: Accelerator,
    folder: RunFolder,
    step: int | None = None,
    needs: frozenset[str] = frozenset(),
) -> Iterator[Trainer]:
    """The trainer of a run, at its last checkpoint if it has one, or at that of a step.

    It scores what the objective needs, and can score the further fields `needs`. Raises UserError if the step has no
    checkpoint.
    """
    config = experiment.config
    checkpoint = folder.last_checkpoint() if step is None else folder.checkpoint(step)
    set_seed(config.seed)
    with GraderPool(experiment.task.grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, experiment.tokenizer)
        reference = None
        if "logp_ref" in experiment.objective.needs | needs:
            reference = _load_reference(experiment, policy, accelerator)
        if checkpoint is not None:
            policy.load(checkpoint)
        policy.to(accelerator.device)
        progress = Progress() if checkpoint is None else read_progress(checkpoint)
        engine = load_engine(config.rollout, config.model, policy, experiment.tokenizer, progress.updates)
        with closing(engine):
            sampler = Sampler(engine, graders, experiment.tokenizer)
            trainer = Trainer(experiment, accelerator, policy, reference, sampler, progress)
            if checkpoint is not None:
                load_optimizer(checkpoint, trainer.optimizer)
            yield trainer


def _load_reference(experiment: Experiment, policy: Policy, accelerator: Accelerator) -> Policy:
    model = experiment.config.model
    if model.reference == "initial":
        return policy.frozen_copy().to(accelerator.device)
    named = dataclasses.replace(model, name=model.reference, revision=None)
    return load_policy(named, experiment.tokenizer).frozen_copy().to(accelerator.device)


def _loop(trainer: Trainer, folder: RunFolder, terminal: Terminal) -> None:
    config, main = trainer.config, trainer.accelerator.is_main_process
    if main:
        forget_after(folder, trainer.progress.step)
    _evaluate_once(trainer, folder, terminal)
    with terminal.training(trainer.experiment, trainer.progress.step) as show:
        while trainer.progress.step < config.train.steps:
            started = time.perf_counter()
            metrics, collected = trainer.step()
            timings = _timings(trainer, collected, time.perf_counter() - started)
            if main:
                _record(folder, metrics, timings, collected, config)
            trainer.accelerator.log({k: v for k, v in metrics.items() if k != "step"}, step=metrics["step"])
            show(metrics, timings)
            step, every = trainer.progress.step, config.checkpoint.every
            if step == config.train.steps or (every and step % every == 0):
                _checkpoint(trainer, folder)
            if step == config.train.steps or (config.evaluation.every and step % config.evaluation.every == 0):
                _evaluate_once(trainer, folder, terminal)


def _timings(trainer: Trainer, collected: Collected, seconds: float) -> dict[str, float]:
    """Seconds of a step by phase; token positions that the model calculated in it, and their operations.

    `tokens` are the sampled response tokens of all processes; all else is this process's.
    """
    rollouts = collected.rollouts
    sampled = int(rollouts.lengths.sum())
    prompts = sum(len(rollouts.prompts[i]) for i in rollouts.prompt.unique().tolist())
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    positions = {**trainer.positions, "generate": prompts + sampled}
    flops = {**trainer.flops, "generate": forward_flops(policy, prompts + sampled, sampled)}
    return {
        "step": trainer.progress.step,
        "tokens": int(collected.batch.mask.sum()),
        "seconds": seconds,
        **{phase: trainer.seconds.get(phase, 0.0) for phase in PHASES},
        **{f"{phase}_positions": positions.get(phase, 0) for phase in MODEL_PHASES},
        **{f"{phase}_flops": flops.get(phase, 0) for phase in MODEL_PHASES},
    }


def _record(
    folder: RunFolder, metrics: dict[str, Any], timings: dict[str, float], collected: Collected, config: Config
) -> None:
    graded = collected.examples[0]
    for row in range(min(config.log.responses, len(graded.texts))):
        record = response_record(graded, row, config.task)
        append_json_line(folder.responses, {"step": metrics["step"], **record})
    append_json_line(folder.timings, timings)
    append_json_line(folder.metrics, metrics)


def _checkpoint(trainer: Trainer, folder: RunFolder) -> None:
    if trainer.accelerator.is_main_process:
        policy = trainer.accelerator.unwrap_model(trainer.policy)
        keep = trainer.config.checkpoint.keep
        save_checkpoint(folder / "checkpoints", policy, trainer.optimizer, trainer.progress, keep)
    trainer.accelerator.wait_for_everyone()


def _evaluate_once(trainer: Trainer, folder: RunFolder, terminal: Terminal) -> None:
    """Evaluates the current policy with every decoding that is not done already."""
    config, experiment = trainer.config, trainer.experiment
    evaluator = Evaluator(trainer.sampler, experiment.task, experiment.held_out, config)
    for decoding in read_decodings(config.evaluation.decodings):
        path = folder.evaluation(trainer.progress.step, decoding)
        if trainer.accelerator.is_main_process and not path.exists():
            with terminal.evaluating(decoding) as progress:
                evaluator(decoding, progress).save(path)
        trainer.accelerator.wait_for_everyone()
