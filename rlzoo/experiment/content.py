"""What a run begins from, known by what it holds and not by its name: the files of its models and of its data."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from rlzoo.config import Config, ModelConfig
from rlzoo.config.commands import is_read
from rlzoo.errors import UserError
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_file
from rlzoo.model.manifest import checksum
from rlzoo.model.pretrained import as_reference, as_teacher, locate
from rlzoo.records import reading
from rlzoo.tasks import OWN
from rlzoo.tasks.base import format_of

Content = Mapping[str, Mapping[str, str]]
"""Key -> file that it leads to, as it is called there -> checksum of the whole file."""
_OF_MODEL = (
    *("*.safetensors", "*.bin", "*.index.json", "config.json", "generation_config.json", "chat_template.*", "*.py"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
)
"""What decides what a model reads, calculates and ends with."""
_COMMIT = "commit"
"""Stands for the files of a model on the hub, which a commit never changes."""


def content_of(config: Config) -> Content:
    """What is there now, each file read once by a process; data on the hub, and made by code, are not among it.

    Raises UserError for a model that is not there.
    """
    teacher, reference = as_teacher(config.model), as_reference(config.model)
    models = {"model.name": config.model, "model.teacher": teacher, "model.reference": reference}
    places = {key: _of_model(model) for key, model in models.items() if model is not None}
    data = {"task.name": config.task.name, "task.held_out": config.task.held_out}
    places |= {key: _of_data(Path(name).expanduser()) for key, name in data.items() if name and name not in OWN}
    return {key: files for key, files in places.items() if files}


def _of_model(config: ModelConfig) -> Mapping[str, str]:
    source = locate(config)
    folder = Path(source.path)
    if folder.is_dir():
        return _checksums(folder, {path for pattern in _OF_MODEL for path in folder.glob(pattern)})
    cached = try_to_load_from_cache(source.path, "config.json", revision=source.options["revision"])
    return {_COMMIT: Path(cached).parent.name} if isinstance(cached, str) else {}


def _of_data(path: Path) -> Mapping[str, str]:
    if path.is_file():
        return _checksums(path.parent, [path])
    return _checksums(path, (file for file in path.rglob("*") if format_of(file))) if path.is_dir() else {}


def _checksums(folder: Path, paths: Iterable[Path]) -> Mapping[str, str]:
    files = sorted(path for path in paths if path.is_file())
    with ThreadPoolExecutor() as threads:
        return {
            str(path.relative_to(folder)): sum for path, sum in zip(files, threads.map(checksum, files), strict=True)
        }


def kept_content(folder: RunFolder) -> Content | None:
    """What a run began from; None where a version of rlzoo made it that did not record that. Raises UserError."""
    if not folder.content.exists():
        return None
    with reading(folder.content):
        saved = read_json_file(folder.content)
        return {str(key): {str(file): str(sum) for file, sum in files.items()} for key, files in saved.items()}


def check_content(now: Content, folder: RunFolder, values: Mapping[str, object]) -> None:
    """Refuses to go on with a run from other weights or other data than it began with.

    `values` are those of the keys. Before the first step those are free that the evaluation before it does not read.
    """
    before = kept_content(folder) or {}
    for key in {**before, **now}:
        there = now.get(key, {})
        changed = sorted(file for file, sum in before.get(key, {}).items() if there.get(file) != sum)
        added = sorted(there.keys() - before[key].keys()) if key in before else []
        if (changed or added) and (folder.has_steps or is_read(key, "eval")):
            what = ", ".join([*changed, *added])
            raise UserError(
                f"{key}={values.get(key)}: {what} {'is' if len(changed + added) == 1 else 'are'} not what the run in "
                f"{folder.path} began with; put back what it was, or begin afresh with another output="
            )
