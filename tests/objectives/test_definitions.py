"""Parts of the user's own modules: a plain script is one, and each part is known by one name everywhere."""

import sys
import types
from pathlib import Path

import pytest

from objectives import ObjectiveError, end_reading, parse
from objectives.zoo import PARTS, RECIPES

SCRIPT = """
from dataclasses import dataclass
import objectives
from objectives import Mask, Stage, end_reading, parse, recipe, register

@register
@dataclass(frozen=True)
class Mine(Mask):
    name = "scripted"

    def keeps(self, batch):
        return batch.mask

VARIANTS = {"paper": (*parse("grpo").parts, Mine())}
recipe("scripted_recipe", paper="", summary="Mine", variants=VARIANTS, contribution=("scripted",))
end_reading()
passed = True
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script in it."""
    (tmp_path / "my_script.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the script had been started."""
    main = types.ModuleType("__main__")
    main.__file__, main.__spec__ = str(folder / "my_script.py"), None
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec(SCRIPT, main.__dict__)
    assert main.__dict__["passed"]


def test_a_part_of_the_running_script_is_the_one_that_other_processes_import(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported = [parse(f"grpo+my_script:{name}") for name in ("scripted", "scripted_recipe")]
    sys.modules.pop("my_script")
    PARTS.pop("scripted")
    RECIPES.pop("scripted_recipe")
    started(folder, monkeypatch)
    for word in ("grpo+scripted", "grpo+my_script:scripted", "my_script:scripted_recipe"):
        assert parse(word).key == imported[0].key and "my_script:" in str(parse(word))
    assert "my_script" not in sys.modules


def test_a_script_is_read_up_to_its_call_of_a_trainer_and_once() -> None:
    kind = type(next(part for part in parse("grpo+my_script:scripted").parts if part.name == "scripted"))
    assert not hasattr(sys.modules["my_script"], "passed")
    assert type(next(part for part in parse("my_script:scripted+kl").parts if part.name == "scripted")) is kind
    end_reading()  # nothing is read any more


def test_a_module_that_is_not_there_is_said_with_where_to_go() -> None:
    with pytest.raises(ObjectiveError, match=r"No module named 'nowhere'; go to the folder where nowhere lies, or put"):
        parse("grpo+nowhere:part")
    Path("needs.py").write_text("import what_is_not_installed\n")
    with pytest.raises(ObjectiveError, match=r"cannot import needs .*No module named 'what_is_not_installed'$"):
        parse("grpo+needs:part")


def test_a_part_of_no_kind_is_refused() -> None:
    Path("kindless.py").write_text(
        "from objectives import Part, Stage, register\n\n@register\nclass Bare(Part):\n    name = 'bare'\n"
        "    stage = Stage.MASK\n\n    def keeps(self, batch):\n        return batch.mask\n"
    )
    with pytest.raises(ObjectiveError, match=r"kindless\.Bare is no part: derive it from Mask, Weight or another kind"):
        parse("grpo+kindless:bare")
