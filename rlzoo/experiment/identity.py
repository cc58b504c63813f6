"""How an objective that was once asked for is known later: by its key, whatever has been registered since."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from objectives import Objective, ObjectiveError, parse
from rlzoo.config.recorded import OBJECTIVE, outside_names
from rlzoo.errors import UserError
from rlzoo.experiment.code import Code
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json, slug

LONGEST_NAME = 100


@dataclass(frozen=True)
class Recorded:
    """An objective as a file keeps it."""

    key: str
    expression: str
    """What meant it at that time."""
    code: Code | None = field(default=None, kw_only=True)
    """None where a version of rlzoo made the file that did not record it."""

    @property
    def meant_now(self) -> Objective | None:
        """What the expression means now, nothing being imported for it; None if it means nothing any more."""
        try:
            return parse(self.expression, imports=False)
        except ObjectiveError:
            return None

    @property
    def shortest(self) -> str:
        """The shortest way to write it now, for people; the recorded one where that means something else by now."""
        now = self.meant_now
        return str(now) if now is not None and now.key == self.key else self.expression


def trained_in(folder: Path) -> Recorded:
    """The objective of the run in a folder; where none is recorded, what its configuration says means now.

    Imports nothing. Raises UserError or ObjectiveError where neither can be read.
    """
    if not (folder / OBJECTIVE).exists():
        return _as_configured(RunFolder(folder))
    try:
        values = read_json((folder / OBJECTIVE).read_text(encoding="utf-8"))
        return Recorded(str(values["key"]), str(values["expression"]), code=Code.read(values.get("code")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / OBJECTIVE} is not readable: {error}") from None


def _as_configured(run: RunFolder) -> Recorded:
    written = run.read_config().objective
    try:
        return Recorded(parse(written, imports=False).key, written)
    except ObjectiveError:
        if not outside_names({"objective": written}):
            raise
        raise UserError(
            f"{run.path} has no {OBJECTIVE}, and {run.config} names code of its own, objective={written}, and is not "
            f"obeyed; if you trust it, rlzoo train {run.config} output={run.path} trust={run.path} resume=true "
            f"writes down what it means"
        ) from None


def told_apart(recorded: Iterable[Recorded]) -> dict[str, str]:
    """Key -> the shortest expression, for people, with the digest behind it where another key has the same."""
    shortest = {entry.key: entry.shortest for entry in recorded}
    times = Counter(shortest.values())
    return {key: text if times[text] == 1 else f"{text} #{digest(key)}" for key, text in shortest.items()}


def has_changed(written: str, now: str, then: str, where: str) -> str:
    """Says in which parts the key that an expression has now differs from the one that it had."""
    ours, theirs = (key.rpartition(" #")[0].split(" . ") for key in (now, then))
    added = ", ".join(part for part in ours if part not in theirs)
    gone = ", ".join(part for part in theirs if part not in ours)
    return f"{written} has {added or 'no further part'} by now, where {where} has {gone or 'none'}"


def digest(key: str) -> str:
    """The short end of a key."""
    return key.rpartition("#")[2]


def folder_name(asked: str, key: str) -> str:
    """A folder's name for an objective, from how it was asked for; what else is registered has no say in it."""
    name = slug(re.sub(r"\s*([-+(),=])\s*", r"\1", asked))
    return name if len(name) <= LONGEST_NAME else f"{name[:90]}-{digest(key)}"
