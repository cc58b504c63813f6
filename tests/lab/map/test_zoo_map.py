"""`rlzoo map` from the command line and from Python: files, values, own parts, mistakes in one line."""

import csv
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import rlzoo
from objectives import names, with_examples
from objectives.zoo import PARTS
from rlzoo.commands import main
from rlzoo.lab.keys import MapRegime
from rlzoo.lab.map.figures import bias_figure, plane_figure
from rlzoo.lab.map.regimes import QUANTITIES, REGIMES
from rlzoo.lab.map.view import change, markdown
from rlzoo.lab.map.zoo_map import ZooMap
from tests.report.legible import assert_legible, overlapping, words
from tests.report.test_page import HOSTILE

ROOT = Path(__file__).parents[3]
OWN = '''
from dataclasses import dataclass
from objectives import Mask, register


@register
@dataclass(frozen=True)
class Improbable(Mask):
    """Leaves out tokens that were improbable."""

    name = "improbable_out"
    reads = frozenset({"logp_old"})

    def keeps(self, batch):
        return batch.logp_old > -2.0
'''


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> ZooMap:
    """Four objectives in one regime."""
    output = tmp_path_factory.mktemp("map")
    names = ["dr_grpo", "grpo-kl", "justrl", "stapo"]
    return rlzoo.map_objectives(names, regimes="on_policy", batches=24, output=output, progress=False)


def test_the_command_writes_the_map_of_two_expressions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "map"
    assert main(["map", "grpo", "stapo(tau_p=0.05)", "regimes=hard", "batches=8", f"output={output}"]) == 0
    assert {path.name for path in output.iterdir()} == {"map.md", "map.csv"}
    said = capsys.readouterr().out
    assert "2 objectives" in said and "policy gradient" in said
    with (output / "map.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["objective"] for row in rows] == ["grpo", "stapo(tau_p=0.05)"]
    assert all(row[f"{name}_exact"] for row in rows for name in QUANTITIES)
    assert "`stapo(tau_p=0.05)`" in (output / "map.md").read_text(encoding="utf-8")


def test_values_are_there_from_python(found: ZooMap) -> None:
    assert tuple(REGIMES) == get_args(MapRegime)
    (regime,) = found.regimes
    assert regime.cosines.shape == (4, 4) and np.diag(regime.cosines) == pytest.approx(np.ones(4))
    assert regime.row("dr_grpo").cosine.mean == pytest.approx(1, abs=0.03)
    assert regime.row("grpo-kl").cosine.high < 0.97


def test_what_a_user_wrote_is_text(found: ZooMap) -> None:
    (regime,) = found.regimes
    first = replace(regime.behaviours[0], expression=HOSTILE)
    attacked = replace(regime, behaviours=[first, *regime.behaviours[1:]], left_out={HOSTILE: HOSTILE})
    outside_code = re.sub(r"(`+) ?.*?\1", "", markdown(replace(found, regimes=[attacked])))
    assert "\\<img" in outside_code and not re.search(r"(?<!\\)<", outside_code)


def test_what_is_the_same_here_is_said_and_what_does_not_act(found: ZooMap) -> None:
    (regime,) = found.regimes
    group = next(group for group in regime.groups if "stapo" in group)
    assert "justrl" in group and "grpo-kl" not in group
    assert "s2t" in regime.row("stapo").idle


def test_pictures_are_legible_and_no_name_covers_another(found: ZooMap) -> None:
    (regime,) = found.regimes
    names = ["grpo-kl+token_mean+sampler_correction(level=product)", *(f"objective_{number}" for number in range(59))]
    behaviours = [replace(regime.behaviours[0], expression=name) for name in names]
    many = replace(regime, behaviours=behaviours, cosines=np.eye(len(names)))
    plane, bias = plane_figure([many]), bias_figure(replace(found, regimes=[many] * len(REGIMES)))
    assert_legible(plane)
    assert_legible(bias)
    named = [text for text in words(plane) if "  objective_" in text.get_text()]
    assert len(named) == 59 and not overlapping(named)
    beside = bias.axes[0].get_yticklabels()
    assert {"".join(text.get_text().split()) for text in beside} == {*names} and not overlapping(beside)


def test_known_biases_are_sure(found: ZooMap) -> None:
    """A mean over each response's tokens lets wrong answers grow (Dr. GRPO's paper), a constant does not."""
    (regime,) = found.regimes
    assert regime.row("grpo-kl").changes["length_wrong"].sign_beside == 1
    assert regime.row("dr_grpo").changes["length_wrong"].sign_beside == 0
    assert all(it.changes["reward"].sign == 1 for it in regime.behaviours)
    assert all(it.changes["reward"].sign_beside <= 0 for it in regime.behaviours)


def test_an_exact_change_is_near_its_first_order(found: ZooMap) -> None:
    for row in found.regimes[0].behaviours:
        for known in row.changes.values():
            assert known.exact == pytest.approx(known.expected.mean, rel=0.4, abs=0.02)


def test_a_sign_that_is_not_sure_stands_in_brackets(found: ZooMap) -> None:
    for known in found.regimes[0].behaviours[0].changes.values():
        unsure = replace(known, expected=replace(known.expected, low=-1.0, high=1.0))
        assert known.sign and not change(known).startswith("(") and change(unsure).startswith("(")


def test_the_committed_map_has_every_recipe_of_one_turn() -> None:
    with (ROOT / "benchmarks" / "map" / "results" / "map.csv").open(encoding="utf-8", newline="") as file:
        shown = {row["objective"] for row in csv.DictReader(file)}
    recipes = {with_examples(name) for name in names() if name.kind == "recipe"}
    assert recipes - shown == {"gigpo", "echo"}, "make map draws it again"


def test_own_parts_go_on_the_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_map_parts.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    words = ["grpo", "grpo+my_map_parts:improbable_out", "regimes=stale", "batches=8", "output=map"]
    try:
        assert main(["map", *words]) == 0
    finally:
        PARTS.pop("improbable_out", None)  # other tests look at the whole zoo
    text = Path("map/map.md").read_text(encoding="utf-8")
    assert "`grpo+my_map_parts:improbable_out`" in text


def test_the_same_seed_gives_the_same_map_and_a_row_does_not_depend_on_the_others(tmp_path: Path) -> None:
    def row(*names: str, seed: int) -> tuple[float, float]:
        keys = {"regimes": "sharp", "batches": 8, "seed": seed, "output": tmp_path / "map", "progress": False}
        found = rlzoo.map_objectives(names, **keys).regimes[0].row("grpo")  # type: ignore[arg-type]
        return found.cosine.mean, found.changes["entropy"].exact

    assert row("grpo", seed=1) == row("dapo", "grpo", seed=1) != row("grpo", seed=2)


def test_what_a_regime_cannot_give_has_no_row_and_a_reason(tmp_path: Path) -> None:
    keys = {"regimes": "small_groups", "batches": 8, "output": tmp_path, "progress": False}
    (regime,) = rlzoo.map_objectives(["grpo", "passk"], **keys).regimes  # type: ignore[arg-type]
    assert regime.expressions == ["grpo"]  # pass@4 of two responses
    assert regime.left_out == {"passk": "it has no gradient in any batch"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grpo regimes=mars", "regimes=mars is not one of on_policy"),
        ("grpo batches=2", "batches=2 must be at least 8"),
        ("grpo step=1", "step=1 must be greater than 0 and at most 0.1"),
        ("grpoo", "unknown objective 'grpoo'"),
        ("grpo train.steps=3", "unknown key train.steps=3"),
        ("dro", "drift(beta=NUMBER)"),
    ],
)
def test_a_mistake_is_one_line(words: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", *words.split(), f"output={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("rlzoo: error: ") and said in error and error.count("\n") == 1
