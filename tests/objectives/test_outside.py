"""Parts and recipes from outside the package, as a user writes them: by import path, and announced by a package."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import objectives
from objectives import ObjectiveError, names, parse
from objectives.zoo import _announced
from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.files import read_json_lines
from rlzoo.report.terminal import Terminal
from rlzoo.tasks.outside import load_outside
from rlzoo.training.run import train
from tests.objectives.batches import random_case, token_batch
from tests.objectives.comparison import at_current

PAGE = (Path(__file__).parents[2] / "objectives" / "README.md").read_text(encoding="utf-8")
METHOD = PAGE.split("```python\n")[1].split("```")[0]
"""The file that the page on adding a method shows."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a method file in it."""
    (tmp_path / "my_method.py").write_text(METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("my_method", None)  # of a test before, whose file registered nothing
    return tmp_path


def test_the_page_adds_a_method_in_at_most_25_lines_with_what_the_package_exports() -> None:
    assert len(METHOD.splitlines()) <= 25
    imports = re.findall(r"^(?:from|import) (\S+)", METHOD, re.MULTILINE)
    assert set(imports) == {"objectives"}


def test_the_names_on_the_page_are_exported() -> None:
    text = " ".join(PAGE.split("**What an author needs**")[1].split("**In a package**")[0].split())
    promised = re.findall(r"`([a-zA-Z]\w*)`", text.split("`reads` names")[0])
    assert len(promised) > 15
    assert set(promised) - {"objectives"} <= set(objectives.__all__)


def test_the_mask_on_the_page_works(folder: Path) -> None:
    lines = PAGE.split("A mask that looks at")[1].split("**In a package**")[0].splitlines()
    source = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))
    head = "from dataclasses import dataclass\nfrom objectives import Mask, parameter, register\n"
    (folder / "my_method.py").write_text(head + source)
    objective = parse("grpo+my_method:confident(limit=0.75)")
    plan = objective.plan(objective.prepare(at_current(token_batch(random_case(1, moved=True)))))
    assert torch.equal(plan.touched["confident"], plan.batch.mask & (plan.batch.logp.exp() > 0.75))
    assert plan.touched["confident"].any()


def test_a_part_is_reached_by_import_path_and_its_canonical_form_reads_back(folder: Path) -> None:
    objective = parse("dapo+my_method:rare_bonus(threshold=0.05)")
    assert str(objective) == "dapo+my_method:rare_bonus(threshold=0.05)"
    assert parse(str(objective)) == objective == parse("dapo+rare_bonus(threshold=0.05)")
    assert parse("grpo+my_method:rare_bonus") == parse("my_method:rare_bonus") == parse("my_method:rare_grpo")
    assert parse("my_method:rare_grpo-my_method:rare_bonus") == parse("grpo")


def test_an_outside_recipe_changes_no_other_canonical_form(folder: Path) -> None:
    before = str(parse("justrl+top_entropy"))
    assert str(parse("my_method:rare_grpo(bonus=3.5)")) == "my_method:rare_grpo(bonus=3.5)"
    assert str(parse("justrl+top_entropy")) == before
    assert str(parse("justrl+my_method:rare_grpo")) == "justrl+my_method:rare_bonus"


@pytest.mark.slow
def test_a_new_process_trains_it_from_the_working_directory(folder: Path) -> None:
    objective = "objective=grpo+my_method:rare_bonus(threshold=0.999)"
    words = ["train.steps=1", "rollout.prompts_per_step=8", "evaluation.problems=2", "evaluation.samples=1"]
    command = [sys.executable, "-P", "-m", "rlzoo", "train"]
    done = subprocess.run([*command, objective, "output=run", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = read_json_lines(folder / "run" / "metrics.jsonl")
    assert 0 < line["touched/rare_bonus/tokens"] < 1


def test_an_installed_package_announces_its_parts(folder: Path) -> None:
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[objectives]\nrare_bonus = my_method\n")
    _announced.cache_clear()
    assert str(parse("dapo+rare_bonus")) == "dapo+rare_bonus"
    assert "rare_bonus" in {name.name for name in names()}


@pytest.mark.parametrize(
    ("source", "expression", "message"),
    [
        (METHOD, "grpo+my_method:rare_bonis", "did you mean|it has rare_bonus"),
        (METHOD, "grpo+no_such_module:rare_bonus", "cannot import no_such_module"),
        ("import nothing_there", "grpo+my_method:x", "cannot import my_method .*nothing_there"),
        ("def f(:", "grpo+my_method:x", "cannot import my_method .*SyntaxError"),
        ("x = 1", "grpo+my_method:x", "registers no part or recipe named 'x'; decorate"),
        (METHOD.replace('"rare_bonus"\n', '"clip"\n'), "grpo+my_method:clip", "both register a part named clip"),
        (
            METHOD.replace('"rare_bonus"\n', '"stapo"\n'),
            "grpo+my_method:stapo",
            "a part named stapo, which is a recipe of",
        ),
        (METHOD.replace('"rare_grpo"', '"s2t"'), "grpo+my_method:s2t", "a recipe named s2t, a part of"),
        (METHOD, "grpo+my_method:rare_bonus(threshold=2)", r"outside \(0, 1\)"),
    ],
)
def test_mistakes_are_one_error_that_names_them(source: str, expression: str, message: str, folder: Path) -> None:
    (folder / "my_method.py").write_text(source)
    with pytest.raises(ObjectiveError, match=message) as raised:
        parse(expression)
    assert "\n" not in str(raised.value)


def test_a_formula_says_none_and_an_error_names_the_part_whose_formula_does_not_fit(folder: Path) -> None:
    (folder / "my_method.py").write_text(
        "from dataclasses import dataclass\n"
        "from objectives import Mask, parameter, register\n"
        "@dataclass(frozen=True)\n"
        "class Limited(Mask):\n"
        "    limit: float | None = parameter(None, None, 'the most')\n"
        "    def keeps(self, batch):\n"
        "        return batch.mask\n"
        "@register\n"
        "class BelowLimit(Limited):\n"
        "    printed = 'keep p < {limit:g}'\n"
        "@register\n"
        "class BelowMost(Limited):\n"
        "    printed = 'keep p < {most:g}'\n"
    )
    formulas = {part.name: part.formula for part in parse("grpo+my_method:below_limit+my_method:below_most").parts}
    assert formulas["below_limit"]() == "keep p < none"
    with pytest.raises(ObjectiveError, match=r"below_most: printed = 'keep p < \{most:g\}' does not fit .*'most'"):
        formulas["below_most"]()


def test_a_name_is_the_classs_in_snake_case_unless_a_base_that_is_no_part_has_one(folder: Path) -> None:
    (folder / "my_method.py").write_text(
        "from objectives import Mask, register\n"
        "class Base(Mask):\n"
        "    name = 'of_base'\n"
        "    def keeps(self, batch):\n"
        "        return batch.mask\n"
        "@register\n"
        "class OfMine(Base):\n"
        "    pass\n"
        "@register\n"
        "class MyKLMask(OfMine):\n"
        "    pass\n"
    )
    assert {"of_base", "my_kl_mask"} <= {
        part.name for part in parse("grpo+my_method:of_base+my_method:my_kl_mask").parts
    }


def test_a_part_of_a_file_is_written_as_the_error_says(folder: Path) -> None:
    (folder / "my_method.py").write_text(METHOD)
    with pytest.raises(ObjectiveError, match=r"; write my_method:rare_bonus, and start where my_method\.py lies"):
        parse("grpo+./my_method.py:rare_bonus")
    assert parse("grpo+my_method:rare_bonus")


def test_a_file_that_is_two_modules_is_named_with_the_remedy(folder: Path) -> None:
    (folder / "my_method.py").write_text(METHOD + "\n\ndef reward(completions, **others):\n    return [0.0]\n")
    parse("grpo+my_method:rare_bonus")
    with pytest.raises(UserError, match=r"both are .*my_method\.py; put the part into a file of its own"):
        load_outside("task.reward", f"{folder}/my_method.py:reward")


def test_a_part_with_postponed_annotations_works(folder: Path) -> None:
    (folder / "my_method.py").write_text("from __future__ import annotations\n" + METHOD)
    assert str(parse("grpo+my_method:rare_bonus(threshold=0.05)")).endswith("rare_grpo(threshold=0.05)")


@pytest.mark.slow
def test_it_runs_in_the_loop_of_this_process(folder: Path) -> None:
    words = ["objective=stapo+my_method:rare_bonus(threshold=0.999)", "train.steps=1", "rollout.prompts_per_step=8"]
    words += ["evaluation.problems=2", "evaluation.samples=1", f"output={folder / 'run'}"]
    run = train(load_config(words), Terminal(Console(quiet=True)))
    assert read_json_lines(run.metrics)[0]["touched/rare_bonus/mass"] > 0
