"""What is evaluated by itself: a run's last checkpoint or any model, on its task or on named benchmarks."""

import dataclasses
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlzoo.config import (
    EVALUATION_KEYS,
    BenchmarksConfig,
    Config,
    check_ranges,
    given_keys,
    key_and_value,
    load_config,
    own_words,
)
from rlzoo.errors import UserError, nearest
from rlzoo.experiment.progress import read_progress
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import slug
from rlzoo.model.pretrained import locate
from rlzoo.tasks import check_task
from rlzoo.tasks.benchmarks import Benchmark, Example, find, read_examples

BENCHMARK_TASK_KEYS = (
    *("task.instruction", "task.system_prompt", "task.chat_template_kwargs"),
    *("task.grade_truncated", "task.grader_workers", "task.grader_timeout"),
)
"""The keys of a task that have an effect on benchmarks."""
PAPERS_DECODINGS = ["1.0/1.0", "0.7/0.9"]

_OWN_KEYS = {key.name for key in dataclasses.fields(BenchmarksConfig)}


@dataclass(frozen=True)
class Target:
    """What is evaluated: a model, on its task or on benchmarks."""

    config: Config
    folder: Path
    """Where the files of responses go."""
    run: Mapping[str, Any] | None
    """The folder of the run whose model it is, and after which step; None if it is not that of a run."""
    given: Set[str]
    """The keys that were set. Of the others some follow the benchmarks."""
    benchmarks: Sequence[Benchmark] = ()
    benchmarks_folder: str = ""
    examples: Sequence[Example] = ()
    instruction: str | None = None
    """For the prompts of benchmarks, if not each benchmark's own."""
    system_prompt: str = ""
    """For the prompts of benchmarks."""

    @property
    def of_a_run(self) -> bool:
        """Whether the model is that of a run, whose limits then hold."""
        return self.run is not None

    def check(self) -> None:
        """What can be checked before torch is imported. Raises UserError."""
        check_ranges(self.config)
        locate(self.config.model)
        if not self.benchmarks:
            check_task(self.config.task)


def read_target(name: str, words: Sequence[str]) -> Target:
    """What to evaluate of a run's folder (its last checkpoint), a model's folder or a hub name.

    Raises UserError for a key without effect, an unknown benchmark, and a run without a checkpoint.
    """
    own, benchmarks, words = _split(words)
    config, folder = _evaluation_config(name, words)
    given = given_keys(words)
    if benchmarks and "evaluation.decodings" not in given:
        config = replace(config, evaluation=replace(config.evaluation, decodings=PAPERS_DECODINGS))
    return Target(
        config,
        folder,
        run=_run(Path(name)),
        given=given,
        benchmarks=benchmarks,
        benchmarks_folder=own.benchmarks_folder,
        examples=read_examples(own.examples) if own.examples else (),
        instruction=config.task.instruction if any(word.startswith("task.instruction=") for word in words) else None,
        system_prompt=config.task.system_prompt if any(it.startswith("task.system_prompt=") for it in words) else "",
    )


def _run(target: Path) -> dict[str, Any] | None:
    run, checkpoint = _run_and_checkpoint(target) or (None, None)
    if run is None or checkpoint is None:
        return None
    return {"folder": str(run.path), "step": read_progress(checkpoint).step}


def _split(words: Sequence[str]) -> tuple[BenchmarksConfig, list[Benchmark], list[str]]:
    """What the words say of benchmarks, these, and the other words. Raises UserError for what has no effect."""
    own, others = own_words(words, BenchmarksConfig)
    mine = [word for word in words if word not in others]
    if not any(word.startswith("benchmarks=") for word in mine):
        if mine:
            raise UserError(f"{mine[0]!r} has no effect without benchmarks=")
        return own, [], others
    benchmarks = find(own.benchmarks)
    for word in others:
        if word.startswith("task.") and not word.startswith(BENCHMARK_TASK_KEYS):
            raise UserError(f"{word!r} has no effect on benchmarks; leave it out")
    return own, benchmarks, others


def _evaluation_config(target: str, words: Sequence[str]) -> tuple[Config, Path]:
    for word in words:
        key = word.partition("=")[0]
        if "=" in word and (not key.startswith(EVALUATION_KEYS) or key == "model.name"):
            raise UserError(f"{word!r} has no effect on an evaluation of {target}{nearest(key, _OWN_KEYS)}")
    found = _run_and_checkpoint(Path(target))
    chosen = [word.partition("=")[2] for word in words if word.startswith("output=")]
    if found is None:
        folder = Path(chosen[-1] if chosen else f"evaluations/{slug(target)}")
        return load_config([*words, key_and_value("model.name", target)]), folder
    run, checkpoint = found
    if checkpoint is None:
        raise UserError(f"{target} has no checkpoint yet; rlzoo train {run.config} resume=true goes on with it")
    run.read_config()
    config: Config = load_config([str(run.config), *words])
    config.model.name, config.model.revision = str(checkpoint), None
    beside = run / "evaluation" if checkpoint == run.last_checkpoint() else run / "evaluation" / checkpoint.name
    return config, Path(chosen[-1]) if chosen else beside


def _run_and_checkpoint(target: Path) -> tuple[RunFolder, Path | None] | None:
    """The run that a folder is, with its newest checkpoint, or whose checkpoint it is; None for any other model."""
    if RunFolder(target).config.exists():
        return RunFolder(target), RunFolder(target).last_checkpoint()
    run = RunFolder(target.absolute().parent.parent)
    if target.absolute().parent.name == "checkpoints" and run.config.exists():
        return run, target.absolute()
    return None
