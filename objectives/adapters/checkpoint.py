"""What an adapter leaves in the checkpoints of the trainer that it is in."""

import json
import os
from pathlib import Path
from typing import Any

from objectives.errors import ObjectiveError
from objectives.objective import Objective

STATE_FILE = "objective_state.json"


def save_state(folder: Path, objective: Objective, **state: Any) -> None:
    """Writes it whole or not at all, into a folder that need not be there yet; before the trainer's own files, so that
    a whole checkpoint has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{STATE_FILE}.partial"
    partial.write_text(json.dumps({"objective": objective.key, **state}), encoding="utf-8")
    os.replace(partial, folder / STATE_FILE)


def load_state(folder: Path, objective: Objective) -> dict[str, Any]:
    """What `save_state` was given; raises ObjectiveError where there is nothing, and for another objective."""
    path = folder / STATE_FILE
    if not path.exists():
        raise ObjectiveError(f"{folder} has no {STATE_FILE}: resume a checkpoint that this adapter wrote")
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if saved["objective"] != objective.key:
        raise ObjectiveError(f"{folder} is of another objective, {saved['objective']}: resume with that one")
    return saved
