"""What a recorded file may do: it is data, and says nothing of what code to import.

Code from outside has a name: a part or recipe `my_module:part`, a task, a reward, a tool, an environment, an engine or
the address of its server, or `model.trust_remote_code`; the keys say which they are. A name is
imported if a person types it, or names a YAML file of their own that has it.
What rlzoo has recorded (the config.yaml of a run, grid.json, kept responses) may have come from anybody: a name that
no one but such a file says is refused, unless `trust=` names the file or a folder around it. `objective.json` is
compared by its key; nothing is imported for it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlzoo.config.schema import Key, Mark
from rlzoo.config.schema import keys as all_keys
from rlzoo.config.sections import Config
from rlzoo.errors import UserError
from rlzoo.ownership import is_own

CONFIG, OBJECTIVE = "config.yaml", "objective.json"
"""What a run records of itself."""
_BESIDE = (OBJECTIVE, "environment.json", "metrics.jsonl", "checkpoints", "evaluation")
"""What lies beside a config.yaml that a run has recorded."""
_PART = re.compile(r"[\w.]+:\w+")
_DATA_SET = re.compile(r"reasoning_gym:\w+")
_SHIPPED_TOOLS = ("rlzoo.tasks.calculator:calculate",)
"""By their whole names: not everything in rlzoo may be called by whatever a model writes."""
ENGINE_ARGS = "rollout.engine_args"
HARMLESS = frozenset(
    {
        *("async_scheduling", "block_size", "calculate_kv_scales", "cpu_offload_gb", "disable_cascade_attn"),
        *("disable_custom_all_reduce", "enable_chunked_prefill", "enable_prefix_caching", "enforce_eager"),
        *("kv_cache_dtype", "max_num_batched_tokens", "max_num_partial_prefills", "quantization", "swap_space"),
    }
)
"""Arguments of vLLM that import nothing by name, so that a recorded file may have them."""
FILE = re.compile(r"(.+\.py):([^\W\d]\w*)")
MODULE = re.compile(r"([^\W\d][\w.]*):([^\W\d]\w*)")


def is_outside(written: str) -> bool:
    """Whether this is the name of something outside."""
    return bool(FILE.fullmatch(written) or MODULE.fullmatch(written))


@dataclass(frozen=True)
class RecordedKeys:
    """The keys, with dots, that a file has which a run, a grid or an evaluation has left."""

    file: Path
    keys: Mapping[str, Any]


def outside_names(keys: Mapping[str, Any]) -> dict[str, str]:
    """The names of code from outside in a configuration, each with the key and value that has it.

    `keys` are dotted; those that are not there name nothing.
    """
    return {name: f"{key.name}={value}" for key, value in values_of_code(keys) for name in _names(key, value)}


def values_of_code(keys: Mapping[str, Any]) -> Iterator[tuple[Key, str]]:
    """Each value of the keys that may name code from outside; of lists one by one."""
    for key in all_keys(Config):
        given = keys.get(key.name) if key.names_code else None
        if key.name == ENGINE_ARGS:
            given = _engine_arguments(keys)
        for value in given if isinstance(given, list | tuple) else [given]:
            if value and value != "false":
                yield key, "true" if value is True else str(value)


def _engine_arguments(keys: Mapping[str, Any]) -> list[str]:
    """Those of vLLM that are not known to import nothing."""
    given = dict(keys.get(ENGINE_ARGS) or {})
    given |= {name.removeprefix(f"{ENGINE_ARGS}."): keys[name] for name in keys if name.startswith(f"{ENGINE_ARGS}.")}
    return [f"{name}:{value}" for name, value in given.items() if name not in HARMLESS]


def _names(key: Key, value: str) -> Sequence[str]:
    """Those of code from outside in a value."""
    if key.is_expression:
        return _PART.findall(value)
    if key.type is bool:
        return [key.name]
    if Mark.MAY_NAME_CODE not in key.facts:
        return [value] * (value not in _SHIPPED_TOOLS)
    if key.name == "model.attention":
        return [value] * ("/" in value)  # a kernel of the hub
    is_data_set = key.name == "task.name" and _DATA_SET.fullmatch(value)  # of reasoning-gym, written as a class is
    return [value] * (is_outside(value) and not is_data_set)


def check_recorded(
    recorded: Iterable[RecordedKeys], typed: Iterable[Mapping[str, Any]] = (), trust: Sequence[str] = ()
) -> None:
    """Raises UserError for a name from outside that is neither among the `typed` keys nor in a file under `trust`.

    A run that the user made here, and whose code is unchanged, may name its own.
    So does a `trust` that covers no file with such a name.
    """
    allowed = {name: setting for keys in typed for name, setting in outside_names(keys).items()}
    named = [(file.file, outside_names(file.keys)) for file in recorded]
    naming = [
        (file, further) for file, names in named if (further := {it: names[it] for it in names if it not in allowed})
    ]
    for path in trust:
        if not any(_covers(path, file) for file, _ in naming):
            raise UserError(f"trust={path} has no effect: no file in it that is read names code; leave it out")
    for file, names in naming:
        if not is_own(file) and not any(_covers(path, file) for path in trust):
            name, setting = next(iter(names.items()))
            code = "it" if "://" in name else name.rpartition(":")[0] or "it"
            raise UserError(
                f"{file} names code of its own, {setting}, and was not executed; read {code}, "
                f"and add trust={file} if you trust it"
            )


def _covers(path: str, file: Path) -> bool:
    return file.resolve().is_relative_to(Path(path).expanduser().resolve())


def is_of_a_run(file: Path) -> bool:
    """Whether a YAML file is what a run has recorded of itself, and not one that a person has written."""
    return file.name == CONFIG and any((file.parent / name).exists() for name in _BESIDE)
