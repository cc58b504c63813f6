"""A whole run: check, load, evaluate, train, checkpoint, evaluate, conclude. All that it leaves lies in one folder."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from accelerate.utils import gather_object, set_seed

from rlzoo.config import Config, TaskConfig, flat
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.config.sections import LogConfig
from rlzoo.doctor.detectors import Detection
from rlzoo.doctor.following import Following
from rlzoo.doctor.indicators import PATIENCE
from rlzoo.errors import LOST_PROCESS, Fault, UserError, is_disk_full, is_lost_process, is_out_of_memory, one_line
from rlzoo.evaluation.evaluate import (
    Evaluations,
    Evaluator,
    ProblemSet,
    ShowProgress,
    all_evaluations,
    holds_out_others,
    response_record,
)
from rlzoo.experiment.check import check, check_shards
from rlzoo.experiment.claim import claim, forget_after, forget_old_responses
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.machine import less_memory
from rlzoo.experiment.progress import AHEAD, BEGUN, Progress, read_progress, readable
from rlzoo.experiment.run_folder import TIMINGS, TRAINED, RunFolder
from rlzoo.files import append_json_line, read_json_lines, write_json
from rlzoo.model.accelerator import broadcast_from_main, make_accelerator, measured_peak, prepare_deterministic
from rlzoo.model.sharding import is_sharded, sharding_of
from rlzoo.rollout import load_engine
from rlzoo.rollout.sampler import MODEL_PHASES, PHASES, open_sampler
from rlzoo.signals import Interrupted, heard, interrupt, number_of
from rlzoo.starting import started
from rlzoo.tasks.grading import GraderPool
from rlzoo.training.checkpoint import CheckpointTimes, checkpoint_of_all, load_models, load_optimizer, save_checkpoint
from rlzoo.training.stale_rollouts import ahead_tensors, partial_tensors, read_ahead, read_partial
from rlzoo.training.step import StepRollouts, Trainer

ShowStep = Callable[[dict[str, Any], dict[str, float], Sequence[Detection]], None]
"""Called with the metrics and the timings of a step, and with the findings of the doctor that it brought."""
WriteReports = Callable[[RunFolder, Evaluations], None]
"""Writes what a finished run is shown by into its folder, as its model's card and its curves."""


@dataclass(frozen=True)
class Outcome:
    """What a run left."""

    experiment: Experiment
    folder: RunFolder
    metrics: Sequence[dict[str, Any]]
    timings: Sequence[dict[str, float]]
    evaluations: Evaluations
    """The first decoding first."""
    peak_flops: float
    """Operations per second that a matrix product reaches here."""
    standstill: Sequence[Detection]
    """What keeps it from learning at its end."""


class TrainingView(Protocol):
    """The view of a run: what it reports as it goes."""

    def silence(self) -> None:
        """Nothing is to be said from now on: the main process speaks for all."""
        ...

    def introduce(self, experiment: Experiment, device: str, processes: int) -> None:
        """The run begins, or goes on."""
        ...

    def nothing_left(self, folder: RunFolder) -> None:
        """The run was finished before."""
        ...

    def evaluating(self, decoding: Decoding) -> AbstractContextManager[ShowProgress]:
        """Context of an evaluation; yields what to call as responses come."""
        ...

    def training(self, experiment: Experiment, done: int) -> AbstractContextManager[ShowStep]:
        """Context of training after `done` steps; yields what to call after every step."""
        ...

    def interrupted(self) -> None:
        """A signal that asks to end came amid a step, which is finished and saved first."""
        ...

    def conclude(self, outcome: Outcome) -> None:
        """All is done, and `outcome.folder` says so."""
        ...


def train(
    config: Config, view: TrainingView, write_reports: WriteReports = lambda folder, evaluations: None
) -> RunFolder:
    """Runs an experiment, or goes on with it, to its end, and writes its reports.

    Raises Fault for a full disk, too little memory, a lost process, and a run whose last updates were all
    skipped, or whose last responses have no grade.
    """
    experiment = check(config)
    folder = RunFolder(experiment.folder)
    accelerator = make_accelerator(config.model.precision, config.log.trackers, folder.path)
    check_shards(config.train, accelerator.num_processes)
    prepare_deterministic(config.train.deterministic, accelerator.device)
    if not accelerator.is_main_process:
        view.silence()
    with claim(folder, config) if accelerator.is_main_process else nullcontext():
        accelerator.wait_for_everyone()
        with _interrupted(folder), _ended_early(folder, config):
            if broadcast_from_main(folder.finished(config)):
                view.nothing_left(folder)
            else:
                _start_trackers(accelerator, config, folder)
                view.introduce(experiment, accelerator.device.type, accelerator.num_processes)
                with load_trainer(experiment, accelerator, folder) as trainer:
                    _train(trainer, folder, view)
                accelerator.end_training()
                if accelerator.is_main_process:
                    write_json(folder.end, {"step": config.train.steps})
            if accelerator.is_main_process:
                evaluations = all_evaluations(folder, config)
                write_reports(folder, evaluations)
                _conclude(_outcome(experiment, folder, evaluations, accelerator.device), folder, view)
    return folder


def _conclude(outcome: Outcome, folder: RunFolder, view: TrainingView) -> None:
    view.conclude(outcome)
    last = outcome.metrics[-PATIENCE:]
    if last and all(step["updates_skipped"] > 0 and step["gradient_norm"] == 0 for step in last):
        raise Fault(
            f"output={folder.path}: no gradient is finite at the end, and every update is skipped; lower "
            "train.learning_rate, or take out the part of the objective that divides by zero"
        )
    if last and all(_has_no_grade(step, outcome.experiment.config) for step in last):
        raise Fault(
            f"output={folder.path}: no response of the last {len(last)} steps has a grade; warnings say what fails: "
            "the grader, or the environment of task.environment"
        )


def _has_no_grade(metrics: Mapping[str, float], config: Config) -> bool:
    """Whether grading timed out or failed for all responses of a step.

    An episode that is lost and cut counts as cut, so cut episodes are left out, but where their text is graded.
    """
    responses = config.rollout.prompts_per_step * config.rollout.responses_per_prompt
    are_left_out = config.task.environment and not config.task.grade_truncated
    cut = round(metrics["truncated"] * responses) if are_left_out else 0
    ungraded = metrics.get("grading_timed_out", 0.0) + metrics.get("grading_failed", 0.0)
    return 0 < ungraded >= responses - cut and not metrics["accuracy"]


@contextmanager
def _interrupted(folder: RunFolder) -> Iterator[None]:
    """Context in which an interruption, also while a fault is dealt with, ends in a line on what is saved."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        raise Interrupted(number_of(interruption), _what_is_saved(folder)) from None


@contextmanager
def _ended_early(folder: RunFolder, config: Config) -> Iterator[None]:
    """Context in which a lack of disk, memory or processes ends in a line on what is saved."""
    try:
        yield
    except Exception as error:
        if is_disk_full(error):
            raise Fault(f"output={folder.path}: the disk is full; make room: {_what_is_saved(folder)}") from None
        if is_out_of_memory(error):
            what = f"{less_memory(config)} ({one_line(error)})"
            raise Fault(f"{what}; {_what_is_saved(folder)}; {_with_other_keys(folder)}") from None
        if is_lost_process(error):
            raise Fault(f"output={folder.path}: {LOST_PROCESS} ({one_line(error)}); {_what_is_saved(folder)}") from None
        if isinstance(error, OSError) and not folder.config.is_file():
            raise Fault(f"output={folder.path} has vanished while it was written; start again") from None
        raise


def _outcome(experiment: Experiment, folder: RunFolder, evaluations: Evaluations, device: torch.device) -> Outcome:
    dtype = torch.bfloat16 if experiment.config.model.precision == "bfloat16" else torch.float32
    return Outcome(
        experiment,
        folder,
        metrics=read_json_lines(folder.metrics, TRAINED),
        timings=read_json_lines(folder.timings, TIMINGS),
        evaluations=evaluations,
        peak_flops=measured_peak(device, dtype),
        standstill=Following.of_run(experiment.config, folder, experiment.config.train.steps).standstill,
    )


def _start_trackers(accelerator: Accelerator, config: Config, folder: RunFolder) -> None:
    if not config.log.trackers:
        return
    values = {key: str(value) for key, value in flat(asdict(config)).items()}
    settings = {"wandb": {"name": folder.path.name, "dir": str(folder.path)}, "trackio": {"name": folder.path.name}}
    accelerator.init_trackers(
        config.log.project, values, {name: settings.get(name, {}) for name in config.log.trackers}
    )
    missing = set(config.log.trackers) - {tracker.name for tracker in accelerator.trackers}
    if missing:
        raise UserError(f"log.trackers={config.log.trackers}: {', '.join(sorted(missing))} is not installed")


def send_alerts(trackers: Sequence[GeneralTracker], findings: Sequence[Detection]) -> None:
    """Sends them to every tracker that has alerts: trackio and wandb have."""
    for tracker, finding in itertools.product(trackers, findings):
        if hasattr(tracker.tracker, "alert"):
            tracker.tracker.alert(title=finding.name.replace("_", " "), text=finding.summary)


@contextmanager
def load_trainer(
    experiment: Experiment,
    accelerator: Accelerator,
    folder: RunFolder,
    step: int | None = None,
    needs: frozenset[str] = frozenset(),
    learns: bool = True,
) -> Iterator[Trainer]:
    """The trainer of a run, at its last checkpoint if it has one, or at that of a step.

    It scores what the objective needs, and can score the further fields `needs`. Unless it `learns`, there is no
    optimiser, and models are whole. Raises UserError if the step has no checkpoint, and if the processes find
    different ones.
    """
    config = experiment.config
    if learns:
        _check_held_out(experiment, folder)
    checkpoint = checkpoint_of_all(folder, step)
    set_seed(config.seed)
    with GraderPool.of(config.task, experiment.task.grader, config.train.steps) as graders:
        graders.try_out(experiment.task.train)
        needs = experiment.objective.needs | needs
        sharding = sharding_of(config.train, accelerator.num_processes, accelerator.device) if learns else None
        models = load_models(experiment, needs, checkpoint, accelerator.device, sharding)
        policy, tokenizer = models.policy, experiment.tokenizer
        progress = Progress() if checkpoint is None else read_progress(checkpoint)
        engine = load_engine(config.rollout, config.model, policy, tokenizer, progress.updates)
        opened = open_sampler(config.task, engine, graders, tokenizer)
        with closing(engine), opened as sampler:
            loaded = policy, models.reference, sampler, progress, models.teacher
            trainer = Trainer(experiment, accelerator, *loaded, learns=learns)
            trainer.one_step = graders.one_step
            vocabulary = policy.model.config.get_text_config().vocab_size
            if checkpoint is not None:
                with readable(checkpoint):
                    if learns:
                        load_optimizer(checkpoint, trainer.optimizer)
                    if config.rollout.partial_tokens:
                        trainer.waiting = read_partial(checkpoint, experiment, sampler, progress, vocabulary)
                if config.rollout.ahead:
                    graders.step = max(0, progress.step - 1)  # in which they were graded first
                    trainer.ahead = read_ahead(checkpoint, experiment, sampler, accelerator, progress, vocabulary)
            graders.step = progress.step
            started()
            yield trainer


def _check_held_out(experiment: Experiment, folder: RunFolder) -> None:
    """Raises UserError for a run that would now train on what it was evaluated on."""
    if folder.config.exists() and holds_out_others(folder, experiment.config.task, experiment.held_out):
        raise UserError(
            f"task.name={experiment.config.task.name}: the run in {folder.path} held out other questions, as its data "
            f"or its version of rlzoo were others; go on with these, or begin afresh with another output="
        )


def _train(trainer: Trainer, folder: RunFolder, view: TrainingView) -> None:
    """The loop; where it is interrupted, the last whole step is saved."""
    interruption = Interruption(trainer.accelerator, view.interrupted)
    with interruption.heeded():
        try:
            _loop(trainer, folder, view, interruption)
        except KeyboardInterrupt:
            if trainer.progress.step and not interruption.is_under_way:
                _checkpoint(trainer, folder)
            raise
        except (UserError, Fault) as error:  # a judge or graders are gone; other processes know nothing of it
            if trainer.progress.step == 0 or trainer.is_learning or trainer.accelerator.num_processes > 1:
                raise
            _checkpoint(trainer, folder)
            raise type(error)(f"{error}; {_what_is_saved(folder)}") from error


def _what_is_saved(folder: RunFolder) -> str:
    last = folder.last_checkpoint()
    if last is None:
        return "no step is saved; resume=true begins with the first"
    return f"step {read_progress(last).step} is saved; resume=true goes on from there"


def _with_other_keys(folder: RunFolder) -> str:
    last = folder.last_checkpoint()
    weights = "" if last is None else f" with model.name={last}"
    return f"it needs the same keys; to change them, start a new run in another output={weights}"


def _loop(trainer: Trainer, folder: RunFolder, view: TrainingView, interruption: "Interruption") -> None:
    config, main = trainer.config, trainer.accelerator.is_main_process
    if main:
        forget_after(folder, trainer.progress.step)
    _evaluate_once(trainer, folder, view)
    follow = Following.of_run(config, folder, trainer.progress.step) if main else None
    times = CheckpointTimes(config.checkpoint, config.train.steps)
    with view.training(trainer.experiment, trainer.progress.step) as show:
        while trainer.progress.step < config.train.steps:
            with interruption.put_off():
                started = time.perf_counter()
                with trainer.one_step(trainer.progress.step):
                    metrics, collected = trainer.step()
                timings = _timings(trainer, collected, time.perf_counter() - started)
                if main:
                    _record(folder, metrics, timings, _examples(collected, config.log, config.task))
                    forget_old_responses(folder, trainer.progress.step, config.log.response_steps)
                trainer.accelerator.log({k: v for k, v in metrics.items() if k != "step"}, step=metrics["step"])
            findings = follow(metrics) if follow else []
            show(metrics, timings, findings)
            send_alerts(trainer.accelerator.trackers, findings)
            if times.is_due(trainer.progress.step):
                _checkpoint(trainer, folder)
                times.saved()
            _evaluate_once(trainer, folder, view)


def _timings(trainer: Trainer, collected: StepRollouts, seconds: float) -> dict[str, float]:
    """Seconds of a step by phase; token positions that the model calculated in it, and their operations.

    `tokens` are the sampled response tokens of all ranks, those of dropped groups among them; all else is this rank's.
    """
    passes, here = trainer.passes, [graded.rollouts for graded in collected.examples]
    tokens = int(collected.metrics.get("sampled/tokens", collected.rollouts.mask.sum()))
    sampled = sum(int(rollouts.lengths.sum()) for rollouts in here)
    if collected.waiting is not None:  # then others were sampled than those that are trained on
        sampled = tokens // trainer.accelerator.num_processes
    prompts = sum(len(prompt) for rollouts in here for prompt in rollouts.prompts)
    policy = trainer.accelerator.unwrap_model(trainer.policy)
    positions = {**passes.positions, "generate": prompts + sampled}
    flops = {**passes.flops, "generate": policy.forward_flops(prompts + sampled, sampled)}
    return {
        "step": trainer.progress.step,
        "tokens": tokens,
        "seconds": seconds,
        **{phase: trainer.seconds.get(phase, 0.0) for phase in PHASES},
        **{f"{phase}_positions": positions.get(phase, 0) for phase in MODEL_PHASES},
        **{f"{phase}_flops": flops.get(phase, 0) for phase in MODEL_PHASES},
    }


def _examples(collected: StepRollouts, log: LogConfig, source: TaskConfig) -> list[dict[str, Any]]:
    graded = collected.examples[0]
    return [response_record(graded, row, source) for row in range(min(log.responses, len(graded.texts)))]


def _record(
    folder: RunFolder, metrics: dict[str, Any], timings: dict[str, float], responses: Sequence[dict[str, Any]]
) -> None:
    for response in responses:
        append_json_line(folder.responses, {"step": metrics["step"], **response})
    append_json_line(folder.timings, timings)
    append_json_line(folder.metrics, metrics)


def _checkpoint(trainer: Trainer, folder: RunFolder) -> None:
    main, policy = trainer.accelerator.is_main_process, trainer.accelerator.unwrap_model(trainer.policy)
    sampled = {}
    if trainer.ahead is not None:
        sampled[AHEAD] = ahead_tensors(trainer.ahead.rollouts, trainer.config.rollout, trainer.accelerator)
    if trainer.waiting is not None:
        sampled[BEGUN] = partial_tensors(trainer.waiting)
    if main or is_sharded(policy):
        keep = trainer.config.checkpoint.keep
        save_checkpoint(folder / "checkpoints", policy, trainer.optimizer, trainer.progress, keep, main, sampled)
    trainer.accelerator.wait_for_everyone()


def _evaluate_once(trainer: Trainer, folder: RunFolder, view: TrainingView) -> None:
    """Evaluates with every decoding where that is due and not done already; what the main process sees decides."""
    config, accelerator = trainer.config, trainer.accelerator
    step, every = trainer.progress.step, config.evaluation.every
    if step not in (0, config.train.steps) and not (every and step % every == 0):
        return
    evaluator = Evaluator(accelerator, trainer.sampler, ProblemSet.held_out(config, trainer.experiment.task), config)
    for decoding in read_decodings(config.evaluation.decodings):
        path = folder.evaluation(trainer.progress.step, decoding)
        if broadcast_from_main(path.exists()):
            continue
        with view.evaluating(decoding) as progress:
            evaluation = evaluator(decoding, progress)
        if evaluation is not None:
            evaluation.save(path)
            numbers = {name: value for name, value in evaluation.summary().items() if isinstance(value, int | float)}
            metrics = {f"evaluation/{decoding.slug}/{name}": number for name, number in numbers.items()}
            accelerator.log(metrics, step=trainer.progress.step)


# ---- signals ---------------------------------------------------------------------------------------------------------


class Interruption:
    """Puts a signal off while a step is under way, once; Ctrl-C after it ends the step at once.

    Several processes put it off until all of them have ended a step, so that none waits for another.
    """

    def __init__(self, accelerator: Accelerator, tell: Callable[[], None]) -> None:
        self.accelerator, self.tell = accelerator, tell
        self.asked, self.is_under_way = 0, False

    def heeded(self) -> AbstractContextManager[None]:
        """Context in which signals are put off."""
        return heard(self._heed)

    def _heed(self, number: int) -> None:
        alone = self.accelerator.num_processes == 1
        if self.asked or (alone and not self.is_under_way):
            interrupt(number)
        self.asked = number
        self.tell()

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Context of a step. Raises Interrupted at its end if a signal came meanwhile, to any process."""
        self.is_under_way = True
        yield
        self.is_under_way = False
        if number := max(gather_object([self.asked])):
            raise Interrupted(number)
