"""What a record of a response keeps so that it can be graded again, without the dataset it came from."""

import json
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.tasks import load_to_grade
from rlzoo.tasks.base import Problem, Task
from rlzoo.tasks.rows import SPELLED

_WHERE_SET = (
    *("grade_truncated", "keep_special_tokens", "reward", "reward_weights", "unconfined_reward", "environment"),
)
"""Keys that are kept where they are set."""
GRADING = ("name", "options", "wrong_reward", "answer_form", *_WHERE_SET)
"""The keys of a task that decide how it grades."""
_TUPLE = "tuple"
_MAPPING = "mapping"
_SPELLED = "spelled"


def grading_keys(config: TaskConfig) -> dict[str, Any]:
    """The keys of a task that decide how it grades."""
    keys = {"name": config.name, "options": dict(config.options), "wrong_reward": config.wrong_reward}
    others = {name: getattr(config, name) for name in _WHERE_SET}
    form = {} if config.answer_form == TaskConfig.answer_form else {"answer_form": config.answer_form}
    return keys | form | {name: value for name, value in others.items() if value}


def grading_task(keys: Mapping[str, Any]) -> Task:
    """The task of these keys, to grade with; it may have no problems. Raises UserError for what are none."""
    return load_to_grade(grading_config(keys))


def grading_config(keys: Mapping[str, Any]) -> TaskConfig:
    """These keys as a task's configuration.

    Raises UserError for invalid keys, and for `${...}`, which a record may hold and which is never filled in.
    """
    if "${" in json.dumps(keys, default=str):
        raise UserError(f"a response's record says task={one_line(repr(keys))}: ${{...}} has no meaning there")
    try:
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(TaskConfig), dict(keys)))
    except (OmegaConfBaseException, TypeError, ValueError) as error:
        raise UserError(
            f"a response's record says task={one_line(repr(keys))}, which is none: {one_line(error)}"
        ) from None
    assert isinstance(config, TaskConfig)
    return config


def problem_of(record: Mapping[str, Any]) -> Problem:
    """The problem that a record's response answers."""
    return Problem(record["problem"], record["prompt"], record["answer"], from_json(record["data"]))


def to_json(value: Any) -> Any:
    """Plain data in which is marked what JSON lacks: tuples, which two scorers of reasoning-gym tell from lists, and
    the values of files that SPELLED has. A mapping of the user's that looks like such a mark has one around it.
    """
    if type(value) in SPELLED:
        name, write, _ = SPELLED[type(value)]
        return {name: write(value), _SPELLED: True}
    if isinstance(value, tuple):
        return {_TUPLE: [to_json(member) for member in value]}
    if isinstance(value, Mapping):
        members = {key: to_json(member) for key, member in value.items()}
        return {_MAPPING: members, _SPELLED: True} if _is_mark(value) else members
    return [to_json(member) for member in value] if isinstance(value, list) else value


def from_json(value: Any) -> Any:
    """What `to_json` was given."""
    if isinstance(value, list):
        return [from_json(member) for member in value]
    if isinstance(value, Mapping):
        if _is_mark(value):
            return _read_again(value)
        return {key: from_json(member) for key, member in value.items()}
    return value


def _is_mark(value: Mapping[Any, Any]) -> bool:
    return value.keys() == {_TUPLE} or (value.get(_SPELLED) is True and len(value) == 2)


def _read_again(marked: Mapping[str, Any]) -> Any:
    """The value that is marked; the mark itself where it is none of ours."""
    if isinstance(members := marked.get(_TUPLE), list) and len(marked) == 1:
        return tuple(from_json(member) for member in members)
    if isinstance(members := marked.get(_MAPPING), Mapping):
        return {key: from_json(member) for key, member in members.items()}
    for name, _, read in SPELLED.values():
        if isinstance(text := marked.get(name), str):
            try:
                return read(text)
            except (ValueError, ArithmeticError):
                return marked
    return marked
