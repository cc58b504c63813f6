"""The folder that a run leaves: what lies where, who may write into it, and what a resumed run keeps."""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from objectives import parse
from rlzoo.config import Config, flat, load_config, to_yaml
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.errors import UserError
from rlzoo.experiment.environment import environment
from rlzoo.experiment.identity import CONFIG, OBJECTIVE, Recorded, has_changed, trained_in
from rlzoo.experiment.progress import checkpoints, read_progress
from rlzoo.files import locked, read_json_lines, write_json, write_json_lines, write_text

FREE_TO_CHANGE = (
    "resume",
    "output",
    "checkpoint.",
    "log.",
    "evaluation.every",
    "train.steps",
    "train.sharding",
    "task.grader_",
)
"""Keys that a resumed run may set differently: they do not touch the steps already done."""

LOCK = ".lock"


@dataclass(frozen=True)
class RunFolder:
    """Where everything of a run lies."""

    path: Path

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @property
    def config(self) -> Path:
        """The resolved configuration."""
        return self.path / CONFIG

    @property
    def objective(self) -> Path:
        """What it trains: key, expression and description."""
        return self.path / OBJECTIVE

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

    @property
    def curves(self) -> Path:
        """The learning curves, the last thing that a run makes."""
        return self.path / "curves.png"

    def trained(self) -> Recorded:
        """The objective of the run. Raises UserError or ObjectiveError where it cannot be read."""
        return trained_in(self.path)

    def evaluation(self, step: int, decoding: Decoding) -> Path:
        """Every response of the evaluation after a step."""
        return self.path / "evaluation" / f"step-{step:06d}-{decoding.slug}.jsonl"

    def evaluations(self, decoding: Decoding) -> dict[int, Path]:
        """The files of the evaluations so far, by step."""
        return {_step(path): path for path in sorted((self / "evaluation").glob(f"step-*-{decoding.slug}.jsonl"))}

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint, a model folder."""
        done = checkpoints(self.path / "checkpoints")
        return done[-1] if done else None

    def checkpoint(self, step: int) -> Path | None:
        """The checkpoint after a step; None for step 0, the starting model. Raises UserError if it is not there."""
        done = {read_progress(path).step: path for path in checkpoints(self.path / "checkpoints")}
        if step != 0 and step not in done:
            there = ", ".join(map(str, [0, *done]))
            raise UserError(
                f"step={step}: {self.path} has no checkpoint of that step; it has {there} (0 is the starting model); "
                f"a run keeps more with checkpoint.every= and checkpoint.keep="
            )
        return done.get(step)

    def finished(self, config: Config) -> bool:
        """Whether the run that this configuration describes is done: all evaluations after its last step are there."""
        decodings = read_decodings(config.evaluation.decodings)
        last = [self.evaluation(config.train.steps, decoding) for decoding in decodings]
        return self.curves.exists() and all(path.exists() for path in last)


def _step(evaluation: Path) -> int:
    return int(evaluation.stem.split("-")[1])


def claim(folder: RunFolder, config: Config) -> IO[str]:
    """Makes the run folder, or takes it up again if the configuration says so and agrees with what is in it.

    No other process may claim it until the returned file is closed. Raises UserError if it cannot be had.
    """
    if folder.config.exists():
        if not config.resume:
            raise UserError(
                f"output={folder.path} holds a run already; resume=true goes on with it, another output= keeps both"
            )
        check_same(config, folder)
    elif folder.path.exists() and any(path.name != LOCK for path in folder.path.iterdir()):
        raise UserError(f"output={folder.path} is a folder with other things in it; choose another output=")
    try:
        folder.path.mkdir(parents=True, exist_ok=True)
        lock = locked(folder / LOCK)
        if lock is None:
            raise UserError(f"output={folder.path} is being written by another process; wait for it, or stop it")
        write_text(folder.config, to_yaml(config))
        objective = parse(config.objective)
        write_json(folder.objective, {"key": objective.key, **objective.describe()})
        write_json(folder / "environment.json", environment())
    except OSError as error:
        raise UserError(f"output={folder.path} cannot be written: {error.strerror}") from None
    return lock


def check_same(config: Config, folder: RunFolder) -> None:
    """Refuses settings that differ from those of the run in the folder, except those that are free to change."""
    _check_same_objective(config, folder)
    before, now = flat(asdict(load_config([str(folder.config)]))), flat(asdict(config))
    fixed = () if config.train.schedule == "constant" else ("train.steps",)  # others depend on where the run ends
    for key in sorted(before.keys() | now.keys()):
        is_free = key == "objective" or (key.startswith(FREE_TO_CHANGE) and key not in fixed)
        if before.get(key) != now.get(key) and not is_free:
            raise UserError(
                f"{key}={now.get(key)}, but the run in {folder.path} has {before.get(key)}; "
                f"a resumed run keeps its settings"
            )


def _check_same_objective(config: Config, folder: RunFolder) -> None:
    """However they are written, keys decide; and they do so where the run's words mean something else by now."""
    asked, objective, trained = f"objective={config.objective}", parse(config.objective), folder.trained()
    if trained.key == objective.key:
        return
    if trained.meant_now == objective:
        change = has_changed(asked, objective.key, trained.key, f"the run in {folder.path}")
        raise UserError(f"{change}; a resumed run keeps its settings, another output= starts afresh")
    raise UserError(f"{asked}, but the run in {folder.path} has {trained.expression}; a resumed run keeps its settings")


def forget_after(folder: RunFolder, step: int) -> None:
    """Drops records of steps that come after the checkpoint that training goes on from: they will be made again."""
    for path in (folder.metrics, folder.timings, folder.responses):
        records = read_json_lines(path)
        write_json_lines(path, [record for record in records if record["step"] <= step])
    for path in (folder / "evaluation").glob("step-*.jsonl"):
        if _step(path) > step:
            path.unlink()
    for partial in (folder / "checkpoints").glob(".*"):
        shutil.rmtree(partial)
