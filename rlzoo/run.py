"""A whole run: check, load, evaluate, train, checkpoint, evaluate, report. Everything it leaves lies in one folder."""

import dataclasses
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from accelerate.utils import set_seed

from rlzoo.checkpoint import checkpoints, load_optimizer, read_progress, save_checkpoint
from rlzoo.collect import Collected
from rlzoo.config import Config, check_ranges, flat, load_config, to_yaml, with_embedded_default
from rlzoo.environment import environment
from rlzoo.errors import UserError
from rlzoo.evaluate import Evaluation, Progress, evaluate, response_record
from rlzoo.experiment import Experiment, check, check_prompts, slug, step_seed
from rlzoo.files import append_json_line, read_json_lines, write_json, write_json_lines, write_text
from rlzoo.policy import Policy, load_policy
from rlzoo.report.curves import draw_curves
from rlzoo.report.terminal import Terminal
from rlzoo.rollout import check_engine, load_engine
from rlzoo.sampling import Sampler
from rlzoo.tasks import load_task
from rlzoo.tasks.base import Problem
from rlzoo.tasks.grading import GraderPool
from rlzoo.tokenizer import load_tokenizer
from rlzoo.trainer import Trainer

FREE_TO_CHANGE = ("resume", "output", "checkpoint.", "log.", "evaluation.every", "train.steps", "task.grader_")
"""Keys that a resumed run may set differently: they do not touch the steps already done."""


@dataclass(frozen=True)
class RunFolder:
    """Where everything of a run lies."""

    path: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One line per step; the same seed on the same machine gives the same file."""
        return self.path / "metrics.jsonl"

    @property
    def timings(self) -> Path:
        """Seconds per phase and tokens, one line per step."""
        return self.path / "timings.jsonl"

    @property
    def responses(self) -> Path:
        """Some sampled responses of every step."""
        return self.path / "responses.jsonl"

    def evaluation(self, step: int) -> Path:
        """Every response of the evaluation after a step."""
        return self.path / "evaluation" / f"step-{step:06d}.jsonl"

    def evaluations(self) -> dict[int, Evaluation]:
        """The evaluations so far, by step."""
        files = sorted((self.path / "evaluation").glob("step-*.jsonl"))
        return {int(file.stem.removeprefix("step-")): Evaluation.load(file) for file in files}

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint, a model folder."""
        done = checkpoints(self.path / "checkpoints")
        return done[-1] if done else None


def train(config: Config, terminal: Terminal) -> RunFolder:
    """Runs an experiment, or goes on with it, to its end."""
    experiment = check(config)
    folder = RunFolder(experiment.folder)
    accelerator = make_accelerator(config, folder.path)
    if accelerator.is_main_process:
        _claim(folder, config)
    else:
        terminal.silence()
    accelerator.wait_for_everyone()
    _start_trackers(accelerator, config)
    terminal.introduce(experiment, str(accelerator.device))
    with load_trainer(experiment, accelerator, folder) as trainer:
        _loop(trainer, folder, terminal)
    accelerator.end_training()
    if accelerator.is_main_process:
        metrics, evaluations = read_json_lines(folder.metrics), folder.evaluations()
        draw_curves(folder / "curves.png", experiment, metrics, evaluations)
        terminal.conclude(folder.path, config, evaluations, read_json_lines(folder.timings))
    return folder


def make_accelerator(config: Config, folder: Path) -> Accelerator:
    """Accelerate's view of the machine, with the trackers asked for."""
    precision = "bf16" if config.model.precision == "bfloat16" else "no"
    try:
        return Accelerator(mixed_precision=precision, log_with=config.log.trackers or None, project_dir=folder)
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
def load_trainer(experiment: Experiment, accelerator: Accelerator, folder: RunFolder) -> Iterator[Trainer]:
    """The trainer of a run, at its last checkpoint if it has one."""
    config = experiment.config
    set_seed(config.seed)
    with GraderPool(experiment.task.grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, experiment.tokenizer)
        reference = _load_reference(experiment, policy, accelerator)
        checkpoint = folder.last_checkpoint()
        if checkpoint is not None:
            policy.load(checkpoint)
        policy.to(accelerator.device)
        with closing(load_engine(config.rollout, config.model, policy, experiment.tokenizer)) as engine:
            sampler = Sampler(engine, graders, experiment.tokenizer)
            trainer = Trainer(experiment, accelerator, policy, reference, sampler)
            if checkpoint is not None:
                load_optimizer(checkpoint, trainer.optimizer)
                trainer.progress = read_progress(checkpoint)
            yield trainer


def _load_reference(experiment: Experiment, policy: Policy, accelerator: Accelerator) -> Policy | None:
    if "logp_ref" not in experiment.objective.needs:
        return None
    model = experiment.config.model
    if model.reference == "initial":
        return policy.frozen_copy().to(accelerator.device)
    named = dataclasses.replace(model, name=model.reference, revision=None)
    return load_policy(named, experiment.tokenizer).frozen_copy().to(accelerator.device)


def _loop(trainer: Trainer, folder: RunFolder, terminal: Terminal) -> None:
    config, main = trainer.config, trainer.accelerator.is_main_process
    if main:
        _forget_after(folder, trainer.progress.step)
    _evaluate_once(trainer, folder, terminal)
    with terminal.training(trainer.experiment, trainer.progress.step) as show:
        while trainer.progress.step < config.train.steps:
            started = time.perf_counter()
            metrics, collected = trainer.step()
            timings = _timings(trainer, collected, time.perf_counter() - started)
            if main:
                _record(folder, metrics, timings, collected, config.log.responses)
            trainer.accelerator.log({k: v for k, v in metrics.items() if k != "step"}, step=metrics["step"])
            show(metrics, timings)
            step, every = trainer.progress.step, config.checkpoint.every
            if step == config.train.steps or (every and step % every == 0):
                _checkpoint(trainer, folder)
            if step == config.train.steps or (config.evaluation.every and step % config.evaluation.every == 0):
                _evaluate_once(trainer, folder, terminal)


def _timings(trainer: Trainer, collected: Collected, seconds: float) -> dict[str, float]:
    """Seconds of a step by phase, and the response tokens sampled in it."""
    return {
        "step": trainer.progress.step,
        "tokens": int(collected.batch.mask.sum()),
        "seconds": seconds,
        **{name: trainer.seconds.get(name, 0.0) for name in ("generate", "grade", "score", "plan", "train", "sync")},
    }


def _record(
    folder: RunFolder, metrics: dict[str, Any], timings: dict[str, float], collected: Collected, responses: int
) -> None:
    graded = collected.examples[0]
    for row in range(min(responses, len(graded.texts))):
        append_json_line(folder.responses, {"step": metrics["step"], **response_record(graded, row)})
    append_json_line(folder.timings, timings)
    append_json_line(folder.metrics, metrics)


def _checkpoint(trainer: Trainer, folder: RunFolder) -> None:
    if trainer.accelerator.is_main_process:
        policy = trainer.accelerator.unwrap_model(trainer.policy)
        keep = trainer.config.checkpoint.keep
        save_checkpoint(folder / "checkpoints", policy, trainer.optimizer, trainer.progress, keep)
    trainer.accelerator.wait_for_everyone()


def _evaluate_once(trainer: Trainer, folder: RunFolder, terminal: Terminal) -> None:
    """Evaluates the current policy unless that was done already; every evaluation samples with the same seed."""
    config, path = trainer.config, folder.evaluation(trainer.progress.step)
    if trainer.accelerator.is_main_process and not path.exists():
        with terminal.evaluating() as progress:
            result = _evaluation(trainer.sampler, trainer.experiment.held_out, config, progress)
        result.save(path)
    trainer.accelerator.wait_for_everyone()


def _evaluation(sampler: Sampler, problems: Sequence[Problem], config: Config, progress: Progress) -> Evaluation:
    """Every evaluation of a seed samples with the same seed, so that before and after differ by the policy alone."""
    seed, rollout = step_seed(config.seed, 0, "evaluation"), config.rollout
    return evaluate(
        sampler, problems, config.evaluation, rollout.max_response_tokens, seed, rollout.rows_per_batch, progress
    )


# ---- evaluation by itself --------------------------------------------------------------------------------------------

EVALUATION_KEYS = (
    "seed",
    "output",
    "model.",
    "task.",
    "evaluation.",
    "rollout.max_",
    "rollout.rows_",
    "rollout.engine",
    "rollout.kv_cache_gib",
)


def evaluate_target(target: str, words: Sequence[str], terminal: Terminal) -> Path:
    """Evaluates a run's last checkpoint, a model folder or a hub name; returns the file with every response."""
    config, folder = _evaluation_config(target, words)
    check_ranges(config)
    check_engine(config)
    tokenizer = load_tokenizer(config.model)
    task = load_task(config.task, config.seed, config.evaluation.problems)
    problems = [task.held_out[i] for i in range(min(len(task.held_out), config.evaluation.problems))]
    check_prompts(config, tokenizer, problems)
    accelerator = make_accelerator(config, folder)
    with GraderPool(task.grader, config.task.grader_workers, config.task.grader_timeout) as graders:
        policy = load_policy(config.model, tokenizer).to(accelerator.device)
        with (
            closing(load_engine(config.rollout, config.model, policy, tokenizer)) as engine,
            terminal.evaluating() as progress,
        ):
            result = _evaluation(Sampler(engine, graders, tokenizer), problems, config, progress)
    decoding = f"T{config.evaluation.temperature:g}-p{config.evaluation.top_p:g}-k{config.evaluation.samples}"
    path = folder / f"{slug(config.task.name)}-{decoding}-seed{config.seed}.jsonl"
    result.save(path)
    write_json(
        path.with_suffix(".json"), {"model": config.model.name, **result.summary(), "environment": environment()}
    )
    terminal.show_evaluation(config, result, path)
    return path


def _evaluation_config(target: str, words: Sequence[str]) -> tuple[Config, Path]:
    for word in words:
        key = word.partition("=")[0]
        if "=" in word and (not key.startswith(EVALUATION_KEYS) or key == "model.name"):
            raise UserError(f"{word!r} has no effect on an evaluation of {target}")
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


# ---- the run folder --------------------------------------------------------------------------------------------------


def _claim(folder: RunFolder, config: Config) -> None:
    """Makes the run folder, or takes it up again if the configuration says so and agrees with what is in it."""
    if folder.config.exists():
        if not config.resume:
            raise UserError(
                f"output={folder.path} holds a run already; resume=true goes on with it, another output= keeps both"
            )
        _check_same(config, load_config([str(folder.config)]), folder)
    elif folder.path.exists() and any(folder.path.iterdir()):
        raise UserError(f"output={folder.path} is a folder with other things in it; choose another output=")
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        write_text(folder.config, to_yaml(config))
        write_json(folder / "environment.json", environment())
    except OSError as error:
        raise UserError(f"output={folder.path} cannot be written: {error.strerror}") from None


def _check_same(config: Config, old: Config, folder: RunFolder) -> None:
    before, now = flat(asdict(old)), flat(asdict(config))
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key) and not key.startswith(FREE_TO_CHANGE):
            raise UserError(
                f"{key}={now.get(key)}, but the run in {folder.path} has {before.get(key)}; "
                f"a resumed run keeps its settings"
            )


def _forget_after(folder: RunFolder, step: int) -> None:
    """Drops records of steps that come after the checkpoint that training goes on from: they will be made again."""
    for path in (folder.metrics, folder.timings, folder.responses):
        records = read_json_lines(path)
        write_json_lines(path, [record for record in records if record["step"] <= step])
    for path in (folder / "evaluation").glob("step-*.jsonl"):
        if int(path.stem.removeprefix("step-")) > step:
            path.unlink()
    for partial in (folder / "checkpoints").glob(".*"):
        shutil.rmtree(partial)
