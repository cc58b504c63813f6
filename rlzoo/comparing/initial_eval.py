"""The evaluation of the untrained model, which a grid makes once for each seed: runs begin with the same weights."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from rlzoo.comparing.grid import GridCell
from rlzoo.config import Config, to_yaml
from rlzoo.config.decoding import read_decodings
from rlzoo.config.schema import RUN_IDENTITY
from rlzoo.config.words import deciding, is_read
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.claim import Content, content_of, kept_content
from rlzoo.files import write_json, write_text


def share_initial_eval(cell: GridCell, others: Iterable[GridCell]) -> None:
    """Gives a cell that has not begun the evaluation before the first step that another one has made.

    The draws of an evaluation depend on the seed, the weights, the data and what `rlzoo eval` reads, so that the file
    would come out the same; weights and data are the same if their files have the same checksums. A cell
    evaluates for itself where code from outside is involved, or where a tracker logs it.
    """
    if cell.folder.path.exists() or cell.config.log.trackers or not _is_of_ours(cell):
        return
    with suppress(UserError, OSError):  # a damaged file, no model, or a full disk: the cell's own run tells
        content, decides = content_of(cell.config), _decides_untrained(cell.config)
        for other in others:
            is_alike = _is_of_ours(other) and _decides_untrained(other.config) == decides
            if is_alike and _began(other) == _read(content) and (evaluations := _made(other)):
                return _share(evaluations, cell, content)


def _made(cell: GridCell) -> list[Evaluation]:
    """What a cell has made with every decoding; nothing where some are missing or damaged, or lie elsewhere."""
    decodings = read_decodings(cell.config.evaluation.decodings)
    paths = [cell.folder.evaluation(0, decoding) for decoding in decodings]
    if any(path.is_symlink() for path in (*paths, paths[0].parent)) or not all(path.is_file() for path in paths):
        return []
    with suppress(UserError, OSError):
        evaluations = [Evaluation.load(path) for path in paths]
        problems = {len(each.records) // each.samples for each in evaluations}
        sampled = zip(decodings, evaluations, strict=True)
        if len(problems) == 1 and len({each.samples for at, each in sampled if not at.is_greedy}) <= 1:
            return evaluations
    return []


def _began(cell: GridCell) -> Content | None:
    """Of what a cell began with, what the evaluation reads; None where that is not known."""
    with suppress(UserError):
        return _read(kept_content(cell.folder))
    return None


def _read(content: Content | None) -> Content | None:
    return content and {key: files for key, files in content.items() if is_read(key, "eval")}


def _is_of_ours(cell: GridCell) -> bool:
    """Whether no code from outside is known to make it."""
    return cell.entry.code is not None and not cell.entry.code.sources


def _share(evaluations: Sequence[Evaluation], cell: GridCell, content: Content) -> None:
    """Writes them, of each decoding, into the folder of a cell."""
    cell.folder.path.mkdir(parents=True)
    write_text(cell.folder.config, to_yaml(cell.config))  # first: a run goes on with what has a configuration
    write_json(cell.folder.content, content)
    for decoding, evaluation in zip(read_decodings(cell.config.evaluation.decodings), evaluations, strict=True):
        evaluation.save(cell.folder.evaluation(0, decoding))


def _decides_untrained(config: Config) -> dict[str, object]:
    """Of the keys that make a run another one, those that the evaluation before its first step depends on."""
    decides = deciding(config, RUN_IDENTITY)
    return {name: value for name, value in decides.items() if is_read(name, "eval")}
