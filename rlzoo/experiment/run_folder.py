"""The folder that a run leaves: what lies where."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config import Config
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.config.reading import given_keys, read_recorded
from rlzoo.config.recorded import CONFIG, OBJECTIVE
from rlzoo.errors import UserError
from rlzoo.experiment.progress import checkpoints, step_of
from rlzoo.files import read_json_file
from rlzoo.records import COUNT, NUMBER, TEXT, Fields, reading

STEP = Fields({"step": COUNT})
"""What every line of metrics, timings and responses has."""
METRICS = Fields({"step": COUNT}, others=NUMBER)
TRAINED = Fields(
    {
        **{"step": COUNT, "reward": NUMBER, "accuracy": NUMBER, "entropy": NUMBER, "length": NUMBER},
        **{"truncated": NUMBER, "groups_without_signal": NUMBER, "gradient_norm": NUMBER, "updates_skipped": NUMBER},
    },
    others=NUMBER,
)
TIMINGS = Fields({"step": COUNT, "seconds": NUMBER, "tokens": COUNT}, others=NUMBER)
RESPONSES = Fields({"step": COUNT, "response": TEXT}, {"problem": TEXT, "correct": NUMBER, "reward": NUMBER})
"""What the lines of each have; `TRAINED` is what our own training writes of every step, without its parts'."""
_ALWAYS = ("objective", "seed", "model.name", "task.name", "train.steps")
"""Keys that the configuration of every run has, of whatever version."""


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

    def read_config(self, words: Sequence[str] = ()) -> Config:
        """The configuration of the run, as data, under these words. Raises UserError if not all of it is there."""
        if not self.config.is_file():
            raise UserError(f"{self.path} is not the folder of a run: it has no {CONFIG}")
        given = given_keys([str(self.config)])
        missing = [key for key in _ALWAYS if key not in given]
        if missing:
            raise UserError(f"{self.config} has lost {', '.join(missing)}; put back what the run was started with")
        return read_recorded(self.config, words)

    @property
    def resumed(self) -> str:
        """What to type to go on with the run, from wherever that is."""
        here = str(self.path).replace("{", "{{").replace("}", "}}")
        return shlex.join(["rlzoo", "train", str(self.config), f"output={here}", "resume=true"])

    @property
    def objective(self) -> Path:
        """What it trains: key, expression, description, and the digests of the code."""
        return self.path / OBJECTIVE

    @property
    def content(self) -> Path:
        """The checksums of the files that it began from: of its models and of its data."""
        return self.path / "content.json"

    @property
    def source(self) -> Path:
        """Copies of the files of code from outside, to be read; nothing imports them."""
        return self.path / "source"

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
        """Some sampled responses of every step, or of the newest ones."""
        return self.path / "responses.jsonl"

    @property
    def curves(self) -> Path:
        """The learning curves as a picture."""
        return self.path / "curves.png"

    @property
    def end(self) -> Path:
        """What training writes once all is done that its last step asks for: which step that was."""
        return self.path / "finished.json"

    def evaluation(self, step: int, decoding: Decoding) -> Path:
        """Every response of the evaluation after a step."""
        return self.path / "evaluation" / f"step-{step:06d}-{decoding.slug}.jsonl"

    def evaluations(self, decoding: Decoding) -> dict[int, Path]:
        """The files of the evaluations so far, by step."""
        return {
            evaluated_step(path): path for path in sorted((self / "evaluation").glob(f"step-*-{decoding.slug}.jsonl"))
        }

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint, a model folder."""
        done = checkpoints(self.path / "checkpoints")
        return done[-1] if done else None

    def checkpoint(self, step: int) -> Path | None:
        """The checkpoint after a step; None for step 0, the starting model. Raises UserError if it is not there."""
        done = {step_of(path): path for path in checkpoints(self.path / "checkpoints")}
        if step != 0 and step not in done:
            there = ", ".join(map(str, [0, *done]))
            raise UserError(
                f"step={step}: {self.path} has no checkpoint of that step; it has {there} (0 is the starting model); "
                f"a run keeps more with checkpoint.every= and checkpoint.keep="
            )
        return done.get(step)

    @property
    def has_steps(self) -> bool:
        """Whether a step is done."""
        return self.last_checkpoint() is not None or (self.metrics.exists() and self.metrics.stat().st_size > 0)

    @property
    def holds_run(self) -> bool:
        """Whether anything is done in it that may not be lost; a start that failed leaves a configuration alone."""
        return self.config.exists() and (self.has_steps or any((self / "evaluation").glob("*.jsonl")))

    def finished(self, config: Config) -> bool:
        """Whether training said that the run of this configuration is done, and its evaluations are there."""
        decodings = read_decodings(config.evaluation.decodings)
        last = [self.evaluation(config.train.steps, decoding) for decoding in decodings]
        if self.end.exists():
            with reading(self.end):
                is_ended = read_json_file(self.end)["step"] == config.train.steps
        else:
            is_ended = self.curves.exists()  # stood for the end before training wrote it
        return is_ended and all(path.exists() for path in last)


def missing_steps(lines: Sequence[Mapping[str, Any]], done: int) -> str:
    """The steps up to `done` that have no line of metrics, in words; empty if there are none."""
    lost = sorted({*range(1, done + 1)} - {line["step"] for line in lines})
    return f"step{'s' * (len(lost) > 1)} {', '.join(map(str, lost))}" if lost else ""


def evaluated_step(evaluation: Path) -> int:
    """The step that a file of an evaluation comes after."""
    return int(evaluation.stem.split("-")[1])
