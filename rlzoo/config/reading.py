"""How YAML files and `key=value` words set the keys, later ones over earlier ones."""

import dataclasses
import json
import os
import re
import typing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rlzoo.config.command_keys import TrustConfig
from rlzoo.config.recorded import RecordedKeys, check_recorded, is_of_a_run
from rlzoo.config.schema import Key, key_named, keys
from rlzoo.config.sections import Config
from rlzoo.errors import UserError, near_names, one_line

if typing.TYPE_CHECKING:  # half of the commands read no configuration, and need not wait for these
    from pydantic import TypeAdapter, ValidationError

RESPONSE = "rollout.max_response_tokens"
_EMBEDDED = Path(__file__).parents[1] / "embedded"
_QUOTED = re.compile(r"""\s*("([^"\\]|\\.)*"|'([^']|'')*')\s*""")


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A configuration, and where its values come from."""

    config: Any
    origins: Mapping[str, str]
    """Of every key: `default`, the shipped model, the file, or `command line`."""


def load_config(words: Sequence[str], schema: type[Any] = Config) -> Any:
    """The configuration that these YAML files and `key=value` words make, later ones over earlier ones.

    Below them lies what the chosen model brings: a shipped one has an experiment of its own. Raises UserError for a
    missing or unreadable file, an unknown key (with the nearest one), a value of the wrong type or out of range, and
    for code from outside that only the config.yaml of a run names, unless `trust=` is among the words.
    """
    return resolve(words, schema).config


def resolve(words: Sequence[str], schema: type[Any] = Config) -> Resolved:
    """`load_config`, with where each value comes from."""
    return _resolve(_obeyed(words), schema) if schema is Config else _resolve(words, schema)


def read_recorded(file: Path, words: Sequence[str] = ()) -> Config:
    """The configuration in the config.yaml of a run, under these words: `check_recorded` says if it may be obeyed."""
    config: Config = _resolve([str(file), *words], Config).config
    return config


def own_words(words: Sequence[str], schema: type[Any]) -> tuple[Any, list[str]]:
    """The configuration of a command's own schema, from the words that set its keys; and the other words."""
    settings = [word for word in words if is_key_and_value(word) and key_named(schema, word.partition("=")[0])]
    return load_config(settings, schema), [word for word in words if word not in settings]


def _obeyed(words: Sequence[str]) -> list[str]:
    """The words without `trust=`. Raises UserError for code that only the config.yaml of a run names."""
    trusted, others = own_words(words, TrustConfig)
    files = [word for word in others if not is_key_and_value(word) and is_of_a_run(Path(word))]
    if files:
        typed = _resolve([word for word in others if word not in files], Config).config
        recorded = [RecordedKeys(Path(file), flat(_read(file, Config))) for file in files]
        check_recorded(recorded, [flat(dataclasses.asdict(typed))], trusted.trust)
    elif trusted.trust:
        raise UserError(f"trust={trusted.trust[0]} has no effect: no file of a run is read; leave it out")
    return others


def _resolve(words: Sequence[str], schema: type[Any]) -> Resolved:
    from pydantic import ValidationError

    values, origins = flat(dataclasses.asdict(schema())), {key.name: "default" for key in keys(schema)}
    written = [(word, flat(_read(word, schema))) for word in words]
    shipped = _shipped_with({name: value for _, given in written for name, value in given.items()}, schema)
    shown: dict[str, str] = {}
    for word, given in [*shipped.items(), *written]:
        is_pair = is_key_and_value(word)
        for name, value in given.items():
            shown[name] = word if is_pair else f"{name}={json.dumps(value, default=str)} in {word!r}"
            if not is_pair and name in REMOVED and value in REMOVED[name][0]:
                continue  # an earlier version recorded it, and it changed no result
            key = _checked_key(name, value, shown[name], schema)
            values[name] = _fitting(key, value, shown[name])
            origins[key.name] = "command line" if is_pair else word
    try:
        tree = json.dumps(_nested(values), default=str)
        return Resolved(_adapter(schema).validate_json(tree, strict=True), origins)
    except ValidationError as error:
        raise UserError(_refusal(error, shown, schema)) from None


_ADAPTERS: dict[type[Any], "TypeAdapter[Any]"] = {}


def _adapter(schema: type[Any]) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    if schema not in _ADAPTERS:
        _ADAPTERS[schema] = TypeAdapter(schema)
    return _ADAPTERS[schema]


def _shipped_with(given: Mapping[str, Any], schema: type[Any]) -> dict[str, Mapping[str, Any]]:
    """The shipped model that is chosen, or that of the task where no model is, and the values that it brings.

    With another model a task that has a shipped one brings the length of its responses.
    """
    if schema is not Config:
        return {}
    files = {f"embedded:{path.stem}": path for path in _EMBEDDED.glob("*.yaml")}
    of_task = f"embedded:{given.get('task.name', Config().task.name)}"
    model = given.get("model.name", of_task if of_task in files else Config().model.name)
    if model in files:
        return {model: _brought_by(files[model])}
    return {of_task: {RESPONSE: _brought_by(files[of_task])[RESPONSE]}} if of_task in files else {}


@cache
def _brought_by(file: Path) -> Mapping[str, Any]:
    return flat(read_file(str(file)))


def _read(word: str, schema: type[Any]) -> dict[str, Any]:
    if is_key_and_value(word):
        return _read_word(word, schema)
    if Path(word).suffix in (".yaml", ".yml"):
        return read_file(word)
    raise UserError(f"{word!r} is neither a key=value nor a .yaml file{_meant_word(word, schema)}")


def option_as_word(option: str, words: Sequence[str]) -> str:
    """What to write instead of an option such as `--steps`, `words` being what follows it; empty if nothing is near."""
    written, _, value = option.lstrip("-").partition("=")
    name = written.replace("-", "_")
    value = value or next((word for word in words[:1] if "=" not in word and not word.startswith("-")), "...")
    names = [key.name for key in keys(Config)]
    meant = name if name in names else meant_key(name, names)
    return meant and f"{meant}={value}"


def given_keys(words: Sequence[str]) -> set[str]:
    """The keys that these files and `key=value` words set themselves."""
    return {name for word in words for name in flat(_read(word, Config))}


def is_key_and_value(word: str) -> bool:
    """Whether it is neither a file, whose name may have a `=` in it, nor an expression with one behind a bracket."""
    name, equals, _ = word.partition("=")
    return bool(equals) and "(" not in name and not os.path.isfile(word)


def read_file(name: str) -> dict[str, Any]:
    """The keys of a YAML file, nested as they are there. Raises UserError if it is missing or unreadable."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not Path(name).is_file():
        raise UserError(f"configuration file {name!r} does not exist")
    try:
        text = Path(name).read_text(encoding="utf-8")
        check_yaml(text, f"configuration file {name!r}")
        content = OmegaConf.to_container(OmegaConf.load(name))
    except (OmegaConfBaseException, yaml.YAMLError, OSError, ValueError, RecursionError) as error:
        raise UserError(f"configuration file {name!r} is not readable: {_reason(error)}") from None
    if not isinstance(content, dict) or not text.strip():
        raise UserError(f"configuration file {name!r} holds no keys")
    return {str(key): value for key, value in content.items()}


def _read_word(word: str, schema: type[Any]) -> dict[str, Any]:
    name, _, text = word.partition("=")
    key = key_named(schema, name)
    kind = key.type if key and key.name == name else None
    nothing = ("",) if kind is str else ("", "null")
    is_text = kind in (str, str | None) and text not in nothing and not _QUOTED.fullmatch(text)
    if is_text or (key and key.is_expression):
        return {name: text}
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        check_yaml(f"value: {text}", repr(one_line(word)))
        container: Any = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))
    except (OmegaConfBaseException, yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{one_line(word)!r} is not readable: {_reason(error)}") from None
    return {name: container["value"]}


def _meant_word(word: str, schema: type[Any]) -> str:
    """What is missing before a value that was written alone."""
    if key_named(schema, "objective") is None:
        return ""
    if word.removesuffix(".gz").endswith((".json", ".jsonl", ".parquet", ".csv")):
        return f"; did you mean task.name={word}?"
    if os.path.isfile(recorded := os.path.join(word, "config.yaml")):
        return f"; did you mean {recorded}?"
    name = "objective" if "(" in word or "/" not in word else "model.name"
    return f"; did you mean {name}={word}?"


def _checked_key(name: str, value: Any, shown: str, schema: type[Any]) -> Key:
    """The key that a name sets; `shown` is how it was written."""
    key = key_named(schema, name)
    if key is None:
        raise UserError(f"unknown key {shown}{remedy(name, [key.name for key in keys(schema)])}")
    try:
        written = json.dumps(value, default=str, ensure_ascii=False)
        written.encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise UserError(f"{shown}: {one_line(error)}; write what a file can hold") from None
    if "${" in written:
        raise UserError(f"{shown}: ${{...}} has no meaning here and is never filled in; write what it stands for")
    if name != key.name and typing.get_origin(key.type) is not dict:
        raise UserError(f"{shown}: it must be {_kind_in_words(key)}")
    return key


def _fitting(key: Key, value: Any, shown: str) -> Any:
    """One value for a list is a list of one, and `a,b` one of two; nothing for a text that may be empty is empty."""
    inner = typing.get_args(key.type)
    if value is None and type(None) not in inner:
        if key.type is str and key.default == "":
            return ""
        raise UserError(f"{shown} is empty; give it a value, or leave it out")
    if typing.get_origin(key.type) in (list, tuple):
        are_several = isinstance(value, str) and "," in value
        split = [part.strip() for part in value.split(",")] if are_several else [value]
        return [_scalar(inner[0], part) for part in (value if isinstance(value, list) else split)]
    return value if isinstance(value, dict) else _scalar(_scalar_kind(key), value)


def _scalar(kind: Any, value: Any) -> Any:
    """A number for text is text, text for a number one if it can be, and 0 and 1 are false and true."""
    if kind is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if kind in (int, float) and isinstance(value, str):
        with suppress(ValueError):
            return kind(value)
    return bool(value) if kind is bool and value in (0, 1) else value


def _scalar_kind(key: Key) -> Any:
    """Of a key that takes one value; None of one with keys and values."""
    if typing.get_origin(key.type) is dict:
        return None
    return next((kind for kind in (key.type, *typing.get_args(key.type)) if kind in _KINDS), None)


def _refusal(error: "ValidationError", shown: Mapping[str, str], schema: type[Any]) -> str:
    """What is wrong with the first bad value, in a line that has the key and the value as they were written."""
    first = error.errors()[0]
    key = key_named(schema, ".".join(map(str, first["loc"])))
    assert key is not None
    written = next(text for name, text in shown.items() if f"{name}.".startswith(f"{key.name}."))
    match first["type"]:
        case "predicate_failed" | "finite_number":
            return f"{written} must be finite"
        case "literal_error":
            return f"{written} is not one of {', '.join(filter(None, key.choices))}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            return f"{written} must be {key.range}"
        case _:
            return f"{written}: it must be {_kind_in_words(key)}"


_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
_PLURAL = {int: "whole numbers", float: "numbers", str: "words"}


def _kind_in_words(key: Key) -> str:
    if key.name == "seed":
        return "a whole number; rlzoo compare OBJECTIVE seeds=0,1 trains on several"
    inner = typing.get_args(key.type)
    if typing.get_origin(key.type) in (list, tuple):
        return f"{len(inner) if len(inner) > 1 else 'one or more'} {_PLURAL[inner[0]]} with commas between"
    if typing.get_origin(key.type) is dict:
        return "keys and values, such as {digits: 3}"
    kind = _scalar_kind(key)
    return f"one of {', '.join(filter(None, key.choices))}" if kind is None else _KINDS[kind]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys; an empty mapping stays a value."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        result.update(flat(value, name + ".") if isinstance(value, Mapping) and value else {name: value})
    return result


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """What `flat` was given."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        section = tree
        for inner in sections:
            if not isinstance(section.get(inner), dict):
                section[inner] = {}
            section = section[inner]
        if value != {} or last not in section:
            section[last] = value
    return tree


def _reason(error: Exception) -> str:
    """OmegaConf's message without the lines that name its own types."""
    return one_line(str(error).split("\n    full_key")[0])


# ---- what YAML may be ------------------------------------------------------------------------------------------------

DEEPEST = 100
"""Levels of nesting."""
MOST = 100_000
"""Values, those that aliases repeat counted each time."""


def check_yaml(text: str, source: str) -> None:
    """Raises UserError, naming the source, for what is nested too deep or says too much; YAMLError for no YAML."""
    sizes: dict[str, int] = {}
    opened: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, total))
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes |= {anchor: total - before} if anchor else {}
        if isinstance(event, yaml.NodeEvent):
            total += sizes.get(event.anchor or "", 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(opened) > DEEPEST:
            raise UserError(f"{source} is not readable: it is nested deeper than {DEEPEST} levels")
        if total > MOST:
            raise UserError(f"{source} is not readable: it says more than {MOST} values")


# ---- unknown keys ----------------------------------------------------------------------------------------------------

MEANT = {
    "lr": "train.learning_rate",
    "batch_size": "rollout.prompts_per_step",
    "per_device_train_batch_size": "rollout.prompts_per_step",
    "train_batch_size": "rollout.prompts_per_step",
    "generation_batch_size": "rollout.prompts_per_step",
    "ppo_mini_batch_size": "train.minibatches_per_step",
    "steps_per_generation": "train.minibatches_per_step",
    "micro_batch_size": "train.tokens_per_micro_batch",
    "ppo_max_token_len_per_gpu": "train.tokens_per_micro_batch",
    "num_generations": "rollout.responses_per_prompt",
    "group_size": "rollout.responses_per_prompt",
    "rollout.n": "rollout.responses_per_prompt",
    "epochs": "train.steps",
    "max_steps": "train.steps",
    "total_training_steps": "train.steps",
    "max_prompt_length": "rollout.max_prompt_tokens",
    "max_tokens": "rollout.max_response_tokens",
    "max_new_tokens": "rollout.max_response_tokens",
    "max_completion_length": "rollout.max_response_tokens",
    "max_response_length": "rollout.max_response_tokens",
    "max_grad_norm": "train.gradient_clip",
    "grad_clip": "train.gradient_clip",
    "model": "model.name",
    "model_name_or_path": "model.name",
    "model.path": "model.name",
    "task": "task.name",
    "dataset": "task.name",
    "dataset_name": "task.name",
    "train_files": "task.name",
    "val_files": "task.held_out",
    "reward_funcs": "task.reward",
    "custom_reward_function.path": "task.reward",
    "rollout.name": "rollout.engine",
    "vllm_mode": "rollout.engine",
    "report_to": "log.trackers",
    "save_steps": "checkpoint.every",
    "save_freq": "checkpoint.every",
    "eval_steps": "evaluation.every",
    "test_freq": "evaluation.every",
    "output_dir": "output",
    "default_local_dir": "output",
    "name": "output",
    "evaluation.temperature": "evaluation.decodings",
    "evaluation.top_p": "evaluation.decodings",
    "lora": "model.lora.rank",
    "peft": "model.lora.rank",
    "lora_alpha": "model.lora.alpha",
    "fsdp_size": "train.shards",
    "scheduler": "train.schedule",
    "lr_scheduler_type": "train.schedule",
}
"""What others call it, alone or behind its last dot -> its key."""

REMOVED = {
    "train.optimizer": (("adamw",), "AdamW is the optimiser; train.sharding=fsdp shares its moments out"),
    "train.cpu_offload": (
        (False, True),
        "model.lora.rank and train.sharding=fsdp save memory",
    ),
    "task.few_shot": ((0,), "write worked examples into task.instruction, or into the messages of your rows"),
    "log.profile": (range(2**31), "run rlzoo.train(...) in Python within torch.profiler.profile()"),
}
"""Keys of earlier versions -> values that changed no result, which their run folders may have, and what to do now."""

ABSENT = {
    "beta": "it is a parameter of the objective: objective='grpo+kl(beta=0.04)'",
    "kl_coef": "it is a parameter of the objective: objective='grpo+kl(beta=0.04)'",
    "kl_loss_coef": "it is a parameter of the objective: objective='grpo+kl(beta=0.04)'",
    "epsilon": "it is a parameter of the objective: objective='grpo+clip(low=0.2)'",
    "clip_ratio": "it is a parameter of the objective: objective='grpo+clip(low=0.2)'",
    "adv_estimator": "the objective has it: rlzoo objectives --from verl FILE",
    "loss_agg_mode": "the objective has it: rlzoo objectives --from verl FILE",
    "loss_type": "the objective has it: rlzoo objectives --from trl FILE",
    "bf16": "write model.precision=bfloat16",
    "fp16": "write model.precision=bfloat16",
    "use_vllm": "write rollout.engine=vllm",
    "leave_out": "compare the other rows in another output=, or show runs that you name: rlzoo leaderboard RUN RUN",
    "by_hand": "it was removed: rlzoo task shows what is asked and how it is graded, rlzoo grade grades what you write",
    "verifier": "rlzoo grade regrade=true reward=examples/judge.py:rules_or_judge FILE.jsonl asks a judge instead",
}
"""Names of what is no key at all, alone, before the first dot or behind the last -> what there is."""


def remedy(key: str, names: Sequence[str]) -> str:
    """What to write instead, for the end of an error; `names` are the keys that there are."""
    if key in REMOVED:
        return f"; it was removed: {REMOVED[key][1]}"
    first, last = key.partition(".")[0], key.rpartition(".")[2]
    for name in (key, first, last):
        if name in ABSENT:
            return f"; {ABSENT[name]}"
    meant = meant_key(key, names)
    if meant:
        return f"; did you mean {meant}?"
    return f"; the keys are {', '.join(names)}" if len(names) < 12 else "; --help lists the keys"


def meant_key(key: str, names: Sequence[str]) -> str:
    """The key that was meant, empty if none is near."""
    ends = (key, ".".join(key.split(".")[-2:]), key.rpartition(".")[2])
    known = [MEANT[name] for name in ends if MEANT.get(name) in names]
    known += [name for name in names if name.endswith("." + key)]
    return next(iter(known or near_names(key, names, most=1)), "")
