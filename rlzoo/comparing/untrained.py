"""The evaluation of the untrained model, which a grid makes once for each seed: runs begin with the same weights."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from rlzoo.comparing.grid import GridCell
from rlzoo.config import Config, deciding, to_yaml
from rlzoo.config.commands import is_read
from rlzoo.config.decoding import read_decodings
from rlzoo.config.facts import RUN_IDENTITY
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.files import write_text


def share_untrained(cell: GridCell, others: Iterable[GridCell]) -> None:
    """Gives a cell that has not begun the evaluation before the first step that another one has made.

    The draws of an evaluation depend on the seed, the weights and what `rlzoo eval` reads, so that the file would come
    out the same. Code from outside may do otherwise, and a tracker is told what a run itself evaluates: these make it.
    """
    if cell.folder.path.exists() or cell.config.log.trackers or not _is_of_ours(cell):
        return
    decides = _decides_untrained(cell.config)
    decodings = read_decodings(cell.config.evaluation.decodings)
    for other in others:
        made = [other.folder.evaluation(0, decoding) for decoding in decodings]
        is_linked = any(path.is_symlink() for path in (*made, made[0].parent))  # what it leads to lies elsewhere
        is_alike = _is_of_ours(other) and _decides_untrained(other.config) == decides
        if is_alike and not is_linked and all(path.is_file() for path in made):
            with suppress(UserError, OSError):  # a damaged file, or a full disk: the cell's own run tells
                evaluations = [Evaluation.load(path) for path in made]
                if len({(len(each.records), each.samples) for each in evaluations}) == 1:
                    return _share(evaluations, cell)


def _is_of_ours(cell: GridCell) -> bool:
    """Whether no code from outside is known to make it."""
    return cell.entry.code is not None and not cell.entry.code.sources


def _share(evaluations: Sequence[Evaluation], cell: GridCell) -> None:
    """Writes them, of each decoding, into the folder of a cell."""
    cell.folder.path.mkdir(parents=True)
    write_text(cell.folder.config, to_yaml(cell.config))  # first: a run goes on with what has a configuration
    for decoding, evaluation in zip(read_decodings(cell.config.evaluation.decodings), evaluations, strict=True):
        evaluation.save(cell.folder.evaluation(0, decoding))


def _decides_untrained(config: Config) -> dict[str, object]:
    """Of the keys that make a run another one, those that the evaluation before its first step depends on."""
    decides = deciding(config, RUN_IDENTITY)
    return {name: value for name, value in decides.items() if is_read(name, "eval")}
