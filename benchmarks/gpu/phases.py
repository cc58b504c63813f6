"""What each phase of a run takes of the machine's memory, beside what `rlzoo fit` predicts of a GPU's.

    python -m benchmarks.gpu.phases FOLDER [KEY=VALUE ...]
    torchrun --nproc_per_node=2 -m benchmarks.gpu.phases FOLDER train.sharding=fsdp [KEY=VALUE ...]

FOLDER gets a random model of 1 GB first. A run loads it, takes two steps on the CPU, saves a checkpoint and resumes. Of
the phases of the second step, when there are moments, and of the others a Markdown table has a row each, in MiB: the
peak of resident memory, mapped files included, above what a whole run with a small model left; what is predicted
without what it calls reserved; and what gloo adds, which copies whole what it gathers.
"""

import ctypes
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from benchmarks.gpu import check as gpu_check
from benchmarks.gpu.loading import M_MMAP_THRESHOLD, MIB, make_model, status
from objectives import parse
from rlzoo.config import Config, load_config
from rlzoo.experiment.check import check
from rlzoo.experiment.experiment import Experiment
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.model import token_stats
from rlzoo.model.accelerator import gathered, make_accelerator
from rlzoo.rollout.memory import Shape, shape_of
from rlzoo.training.checkpoint import save_checkpoint
from rlzoo.training.fit import host_bytes, predict
from rlzoo.training.run import load_trainer
from rlzoo.training.step import Trainer

LAYERS, VOCABULARY = 18, 2**15
"""Of a model of 1.04 GB, an eighth of it the embedding."""
RUN = (
    "objective=dapo-dynamic_sampling+kl",
    "task.problems=8",
    "task.grade_truncated=true",
    "task.grader_workers=1",
    f"task.reward={gpu_check.__file__}:alternately",
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=8",
    "rollout.max_prompt_tokens=16",
    "rollout.max_response_tokens=64",
    "train.tokens_per_micro_batch=520",
    "evaluation.problems=1",
)
"""Each of two processes has two micro-batches, and a random model answers in full length."""


@dataclass
class Peaks:
    """By phase the bytes that resident memory rises to at most above what there was before."""

    before: int
    found: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """While a phase is under way; of one that comes several times the highest counts."""
        give_back()
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
        yield
        self.found[phase] = max(self.found.get(phase, 0), status("VmHWM") - self.before)

    def of_calls(self, phase: str, called: Callable[..., Any]) -> Callable[..., Any]:
        """A function of which each call is the phase."""

        def measured(*arguments: Any, **options: Any) -> Any:
            with self.of(phase):
                return called(*arguments, **options)

        return measured


def give_back() -> None:
    """What is freed is given back to the machine, as it is to a GPU's allocator."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def main(folder: Path, words: Sequence[str]) -> None:
    """Prints the table."""
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    token_stats.CPU_BLOCK = token_stats.GPU_BLOCK
    accelerator = make_accelerator("float32")
    if accelerator.is_main_process:
        make_model(folder / "small", 1)
        make_model(folder / "large", LAYERS, VOCABULARY)
    accelerator.wait_for_everyone()
    small, large = (configured(folder, name, words) for name in ("small", "large"))
    measured(check(small), accelerator)  # what is imported and reserved once is no part of a model
    peaks = gathered(accelerator, [measured(check(large), accelerator).found])
    if accelerator.is_main_process:
        print(table(large, peaks, accelerator.num_processes))
    accelerator.end_training()


def configured(folder: Path, model: str, words: Sequence[str]) -> Config:
    """The run of a model."""
    return load_config([*RUN, *words, f"model.name={folder / model}", f"output={folder / model}-run"])


def measured(experiment: Experiment, accelerator: Accelerator) -> Peaks:
    """The peaks of a run that is new, and of one that resumes it."""
    give_back()
    peaks, folder = Peaks(status("VmRSS")), RunFolder(experiment.folder)
    for phase in ("start", "resume"):
        with peaks.of(phase):
            context = load_trainer(experiment, accelerator, folder)
            trainer = context.__enter__()
        if phase == "start":
            _steps(trainer, peaks, folder)
        context.__exit__(None, None, None)
        del trainer, context
        accelerator.free_memory()  # it remembers what it has prepared, and a run that resumes is another process
    return peaks


def _steps(trainer: Trainer, peaks: Peaks, folder: RunFolder) -> None:
    """Two steps, the second of which counts, and a checkpoint."""
    trainer.step()
    timed = trainer._timed

    @contextmanager
    def both(phase: str) -> Iterator[None]:
        with peaks.of(gpu_check.PHASES.get(phase, phase)), timed(phase):
            yield

    trainer._timed = both  # type: ignore[method-assign]
    trainer.collect = peaks.of_calls("rollout", trainer.collect)  # type: ignore[method-assign]
    trainer.step()
    policy, main = trainer.accelerator.unwrap_model(trainer.policy), trainer.accelerator.is_main_process
    if main or trainer.sharded:
        with peaks.of("checkpoint"):
            save_checkpoint(folder / "checkpoints", policy, trainer.optimizer, trainer.progress, keep=1, writes=main)
    trainer.accelerator.wait_for_everyone()


def table(config: Config, peaks: Sequence[dict[str, int]], processes: int) -> str:
    """Markdown: a row for each phase that there was."""
    shape = shape_of(config.model)
    predicted = predicted_here(config, shape, processes)
    gloo = staged(shape) if processes > 1 else {}
    lines = ["| phase | predicted | of gloo | measured | measured over predicted |", "|---|---|---|---|---|"]
    for phase, size in predicted.items():
        if most := [line[phase] for line in peaks if phase in line]:
            shown, more = ", ".join(f"{it / MIB:.0f}" for it in most), gloo.get(phase, 0.0)
            lines.append(
                f"| {phase} | {size / MIB:.0f} | {more / MIB:.0f} | {shown} | {max(most) / (size + more):.2f} |"
            )
    return "\n".join(lines)


def predicted_here(config: Config, shape: Shape, processes: int) -> dict[str, float]:
    """Bytes of each phase, where the machine's memory is the GPU's too.

    What a GPU's machine loads into its own memory is then where it stays, and what is saved is there already.
    """
    objective = parse(config.objective)
    phases = {phase.name: phase for phase in predict(config, shape, objective, processes)}
    taken = {name: phase.total - phase.parts["reserved"] for name, phase in phases.items()}
    host = host_bytes(config, shape, objective, processes)
    beside, handed = (phases["start"].parts.get(name, 0.0) for name in ("reference", "a gathered weight"))
    return {
        **taken,
        "start": max(taken["start"], host["start"]),
        "checkpoint": taken["hand-over"],
        "resume": max(taken["start"], taken["hand-over"] - handed, host["resume"] + beside),
    }


def staged(shape: Shape) -> dict[str, float]:
    """Bytes that gloo copies at the peak of a phase, in which a layer or the largest weight is gathered."""
    weight, layer = 4.0 * shape.largest, 4.0 * shape.linear / shape.layers
    of_weight = dict.fromkeys(("start", "hand-over", "checkpoint"), weight)
    return {**of_weight, "scoring": layer, "training": layer}


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:])
