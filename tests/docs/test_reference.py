"""What the site looks up: every public name, key and parameter, each with its meaning, from the code itself."""

import inspect
import re
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import objectives
import rlzoo
from objectives.zoo import PARTS
from rlzoo.config import Config
from rlzoo.config.command_keys import OWN, own_schema
from rlzoo.config.schema import keys

ROOT = Path(__file__).parents[2]
WHOLE = [Config, *map(own_schema, OWN)]
"""The configuration of an experiment, and each command's own."""


@pytest.fixture(autouse=True)
def site(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the pages lies beside them."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "build_site")


def rows(text: str) -> dict[str, list[str]]:
    """The cells of every row of a page's tables, by its first."""
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip(" `"): [cell.strip() for cell in cells[1:]] for cells in lines}


def public(package: Any) -> list[tuple[str, Any]]:
    """Its names, and the methods and properties that its classes define themselves."""
    kinds = (property, cached_property, classmethod, staticmethod, FunctionType)
    found = [(name, getattr(package, name)) for name in package.__all__]
    inner = [(f"{name}.{it}", vars(value)[it]) for name, value in found if inspect.isclass(value) for it in vars(value)]
    return found + [(name, it) for name, it in inner if isinstance(it, kinds) and "._" not in name]


@pytest.mark.parametrize("package", [objectives, rlzoo], ids=["objectives", "rlzoo"])
def test_every_public_name_has_a_docstring(package: Any) -> None:
    assert [name for name, value in public(package) if not inspect.getdoc(value)] == []


@pytest.mark.parametrize("schema", WHOLE)
def test_every_key_is_looked_up_with_all_that_is_said_of_it(schema: type[Any]) -> None:
    import key_pages

    text = key_pages.keys_page() if schema is Config else key_pages.commands_page()
    shown = rows(key_pages.table(keys(schema)))
    assert list(shown) == [key.name for key in keys(schema)]
    for key in keys(schema):
        default, allowed, meaning, *decides = shown[key.name]
        assert default and allowed and meaning, key.name
        assert decides == ([key.decides.value] if key.decides else [])
        assert any(line.startswith(f"| `{key.name}` |") and meaning in line for line in text.splitlines()), key.name
        assert all(word in allowed for word in (*(f"`{choice}`" for choice in key.choices if choice), key.range))


def test_every_parameter_of_a_part_is_looked_up_with_its_default_its_range_and_its_meaning() -> None:
    import method_pages

    page = method_pages.parts_page([name for name in objectives.names() if name.kind == "part"])
    sections = {text.split("\n")[0]: rows(text) for text in re.split(r"^### ", page, flags=re.MULTILINE)[1:]}
    assert sections.keys() == {name.name for name in objectives.names() if name.kind == "part" and ":" not in name.name}
    for name, shown in sections.items():
        assert shown.keys() == {one["name"] for one in PARTS[name]().parameters()}
        assert all(default and allowed and meaning for _, _, default, allowed, meaning in shown.values()), name
