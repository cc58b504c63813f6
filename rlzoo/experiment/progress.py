"""What a checkpoint is: where training stands, and the list of its files with their checksums."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from rlzoo.errors import Fault, UserError, is_shortage, one_line
from rlzoo.files import read_json
from rlzoo.model import pretrained
from rlzoo.model.pretrained import ADAPTER_CONFIG

_logger = logging.getLogger(__name__)

PROGRESS, OPTIMIZER = "training/progress.json", "training/optimizer.safetensors"
ADAPTERS, AHEAD = "training/adapters.safetensors", "training/ahead.safetensors"
BEGUN = "training/begun.safetensors"
"""What training goes on from, in a folder of a checkpoint's: what lies beside the weights, others load as weights."""


@dataclass(frozen=True)
class Progress:
    """Where training stands after a step; with the seed it decides everything that comes next."""

    step: int = 0
    """Rollout steps done."""
    problems_used: int = 0
    """Training problems drawn, the ones that were dropped included."""
    updates: int = 0
    """Optimiser updates behind the policy, those that were skipped among them."""
    updates_skipped: int = 0
    """Optimiser updates skipped because their gradient was not finite."""
    objective_state: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """State of the objective's controllers."""


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; each is there as a whole, but may have been damaged since."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdecimal())


def step_of(folder: Path) -> int:
    """The step of a folder `step-NNNNNN`: that after which a checkpoint was saved."""
    return int(folder.name.removeprefix("step-"))


def damage(checkpoint: Path) -> str:
    """What is not as it was saved, in words; empty if all is."""
    if (checkpoint / ADAPTER_CONFIG).exists():
        return f"it has {ADAPTER_CONFIG}, which no run writes"
    return pretrained.damage(checkpoint, step_of(checkpoint), frozenset(("config.json", PROGRESS, OPTIMIZER)))


def check_whole(checkpoint: Path) -> None:
    """Raises UserError for a checkpoint that is damaged."""
    if why := damage(checkpoint):
        raise UserError(damaged_in_words(checkpoint, why))


def newest_whole(folder: Path) -> Path | None:
    """The newest checkpoint that is as it was saved, warnings naming newer ones; None if there never was any.

    Raises UserError if there are some and all are damaged.
    """
    saved = checkpoints(folder)
    for number, checkpoint in enumerate(reversed(saved), 1):
        if not (why := damage(checkpoint)):
            return checkpoint
        if number == len(saved):
            raise UserError(damaged_in_words(checkpoint, why))
        _logger.warning("the checkpoint %s is damaged: %s; the one before it is taken", checkpoint, why)
    return None


def damaged_in_words(checkpoint: Path, why: str) -> str:
    """That it is, and what to do."""
    is_listed = (checkpoint / pretrained.MANIFEST).is_file()
    what = "remove this folder" if is_listed else "move this folder out of the run, where model.name= still reads it"
    return (
        f"the checkpoint {checkpoint} is damaged: {why}; {what}, and resume=true goes on from the one before, or from "
        "the first step"
    )


def read_progress(checkpoint: Path) -> Progress:
    """Where training stood. Raises UserError if that cannot be read."""
    with readable(checkpoint):
        saved = read_json((checkpoint / PROGRESS).read_text(encoding="utf-8"))
        progress: Progress = TypeAdapter(Progress).validate_json(json.dumps(saved), strict=True)
        if progress.step != step_of(checkpoint):
            raise ValueError(f"{PROGRESS} is that of step {progress.step}")
        return progress


@contextmanager
def readable(checkpoint: Path) -> Iterator[None]:
    """While a checkpoint is read: whatever a damaged file has the libraries raise is one UserError."""
    try:
        yield
    except (UserError, Fault):
        raise
    except Exception as error:
        if is_shortage(error):  # the file may be whole, and its folder is not to be removed
            raise
        raise UserError(damaged_in_words(checkpoint, one_line(error))) from None
