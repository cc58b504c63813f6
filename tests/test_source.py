"""The digest of a user's source: an edit of what a name uses changes it, remarks and other definitions do not."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rlzoo
from rlzoo.errors import UserError
from rlzoo.source import _CALLS, Definition, code_digest, used_source
from rlzoo.tasks.outside import definition

FILES = {
    "method.py": '''
"""A module."""
import math
from dataclasses import dataclass
from helper import bound, Base
import tables

LIMIT = 0.9
OTHER = {"a": 1}

def floor(value):
    return max(value, LIMIT)

class Mine(Base):
    """Says what it does."""
    size: int = 3

    def keeps(self, batch):
        from later import late  # imported when it is called
        return bound(floor(batch)) + tables.ROWS[0] + late()

class Second:
    def keeps(self, batch):
        return unused(OTHER)

def unused(value):
    return value
''',
    "helper.py": """
from deep.inner import depth

class Base:
    def weight(self):
        return 1

def bound(value):
    return min(value, depth)

def nothing():
    return math
""",
    "tables.py": "ROWS = [1, 2]\n",
    "later.py": "def late():\n    return 5\n",
    "deep/__init__.py": "from .other import unrelated\n",
    "deep/inner.py": "from . import sibling\ndepth = sibling.value\n",
    "deep/sibling.py": "value = 7\n",
    "deep/other.py": "def unrelated():\n    pass\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's files."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def used(folder: Path, name: str = "Mine") -> dict[str, str]:
    """File -> digest."""
    found = used_source(Definition(folder / "method.py", "method", name))
    return {path.relative_to(folder).as_posix(): text for path, text in found.items()}


def test_every_file_that_a_name_uses_counts_and_no_other(folder: Path) -> None:
    assert set(used(folder)) == {
        *("method.py", "helper.py", "tables.py", "later.py"),
        *("deep/__init__.py", "deep/inner.py", "deep/sibling.py", "deep/other.py"),
    }
    assert set(used(folder, "Second")) == {"method.py"}


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("method.py", "LIMIT = 0.9", "LIMIT = 0.8"),
        ("method.py", "max(value, LIMIT)", "min(value, LIMIT)"),
        ("method.py", "+ tables", "- tables"),
        ("method.py", "size: int = 3", "size: int = 4"),
        ("method.py", "class Mine(Base)", "class Mine"),
        ("method.py", "class Second:", "Mine.keeps = unused\n\nclass Second:"),
        ("method.py", "class Second:", "import random\nrandom.seed(7)\n\nclass Second:"),
        ("method.py", "OTHER =", "import helper_with_effects\nOTHER ="),
        ("method.py", "OTHER =", "_ = math.seed(0)\nOTHER ="),
        ("helper.py", "return 1", "return 2"),
        ("helper.py", "min(value, depth)", "max(value, depth)"),
        ("tables.py", "[1, 2]", "[2, 2]"),
        ("later.py", "5", "6"),
        ("deep/__init__.py", "from", "print()\nfrom"),
        ("deep/sibling.py", "7", "8"),
        ("deep/other.py", "pass", "return 3"),
    ],
)
def test_an_edit_of_what_a_name_uses_changes_that_file_s_digest_alone(
    folder: Path, file: str, old: str, new: str
) -> None:
    before = used(folder)
    assert old in FILES[file]
    (folder / file).write_text(FILES[file].replace(old, new))
    after = used(folder)
    assert [name for name in {**before, **after} if before.get(name) != after.get(name)] == [file]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("method.py", '"""Says what it does."""', '"""Says it better."""  # with a remark'),
        ("method.py", "return unused(OTHER)", "return OTHER"),
        ("method.py", '"a": 1', '"b": 2'),
        ("method.py", "def unused(value):", "def more():\n    return 3\n\ndef unused(value):"),
        ("method.py", "max(value, LIMIT)", "max(\n        value,\n        LIMIT,\n    )"),
        ("method.py", "import tables", "import tables\nALL = {'paper': (Second(),)}\nrecipe('mine', variants=ALL)"),
        ("method.py", "import tables", "import tables\nif __name__ == '__main__':\n    print(unused(3))\n"),
        (
            "method.py",
            "    return value\n",
            "    return value\n\nimport rlzoo\nrlzoo.train(objective='grpo', seed=3)\n",
        ),
    ],
)
def test_remarks_layout_and_what_a_name_does_not_use_change_nothing(
    folder: Path, file: str, old: str, new: str
) -> None:
    before = used(folder)
    assert old in FILES[file]
    (folder / file).write_text(FILES[file].replace(old, new))
    assert used(folder) == before


def test_what_is_found_by_name_at_run_time_makes_the_whole_file_count(folder: Path) -> None:
    (folder / "method.py").write_text(
        FILES["method.py"].replace("return bound", "globals()['unu' + 'sed'](3)\n        return bound")
    )
    before = used(folder)
    (folder / "method.py").write_text(
        (folder / "method.py").read_text().replace("    return value\n", "    return 3\n")
    )
    assert used(folder) != before


def test_libraries_and_this_project_are_no_user_s_files(folder: Path) -> None:
    (folder / "method.py").write_text(
        "import torch, json, rlzoo.files, objectives\ndef Mine():\n    return torch, json\n"
    )
    assert set(used(folder)) == {"method.py"}


def test_a_file_named_by_its_path_finds_those_beside_it_wherever_python_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    start = definition(f"{folder}/method.py:Mine")
    assert start is not None and {path.name for path in used_source(start)} >= {"method.py", "helper.py", "tables.py"}


def test_code_that_was_edited_since_it_was_imported_is_refused_until_it_is_reloaded(folder: Path) -> None:
    module = importlib.import_module("method")
    before = used(folder)
    (folder / "method.py").write_text(FILES["method.py"].replace("LIMIT = 0.9", "LIMIT = 0.8"))
    with pytest.raises(UserError, match=r"method\.py has been edited since .*; importlib\.reload\(method\)"):
        used(folder)
    importlib.reload(module)
    assert used(folder) != before


def test_a_class_of_a_notebook_is_known_by_its_compiled_code() -> None:
    def made(source: str) -> type:
        cell: dict[str, Any] = {"__name__": "__main__"}
        exec(source, cell)
        found: type = cell["Mine"]
        return found

    source = "LIMIT = 3\ndef floor(x):\n    return x\n"
    source += "class Mine:\n    top = 1\n    def keeps(self, x):\n        return floor(x) - LIMIT\n"
    digest = code_digest(made(source))
    assert code_digest(made("# a remark\n\n" + source)) == digest
    for old, new in (("LIMIT = 3", "LIMIT = 4"), ("return x", "return -x"), ("top = 1", "top = 2"), ("- L", "+ L")):
        assert code_digest(made(source.replace(old, new))) != digest


def test_a_script_ends_at_every_call_that_does_not_return_where_it_is_read() -> None:
    assert {name for name in rlzoo.__all__ if hasattr(getattr(rlzoo, name), "__wrapped__")} == {*_CALLS}
