"""Every engine is held to the laws, also one from outside, which takes one file; tests/vllm holds vLLM to them."""

from pathlib import Path

import pytest

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.identity import read_objective
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.rollout import check_engine, engine_class
from tests.rollout.engine_laws import EngineLaws
from tests.training.test_ahead import run

FROM_OUTSIDE = f"{Path(__file__).parent / 'plain_engine.py'}:PlainEngine"


class TestTransformersEngine(EngineLaws):
    engine_name = "transformers"


class TestEngineFromOutside(EngineLaws):
    engine_name = FROM_OUTSIDE


@pytest.mark.slow
def test_an_engine_from_outside_trains_as_ours_does_on_the_same_draws(tmp_path: Path) -> None:
    words = ("train.steps=2", "rollout.ahead=1")
    runs = [run(tmp_path / name, f"rollout.engine={engine}", *words) for name, engine in ENGINES.items()]
    metrics = [read_json_lines(folder.metrics) for folder in runs]
    assert metrics[0] == [pytest.approx(line, rel=1e-3, abs=1e-4) for line in metrics[1]]
    assert list(read_objective(tmp_path / "outside").code.task) == [FROM_OUTSIDE]
    assert "PlainEngine" in RunFolder(tmp_path / "outside").read_config().rollout.engine


ENGINES = {"ours": "transformers", "outside": FROM_OUTSIDE}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("class Mine: ...", "has no sees_entropy, no apart, no shares_weights"),
        ("Mine = 3", "is no class"),
        ("class Other: ...", "has no Mine"),
        ("import nothing_of_that_name", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_what_is_no_engine_is_named_before_a_model_loads(code: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(code)
    with pytest.raises(UserError, match=says) as error:
        check_engine(load_config([f"rollout.engine={tmp_path / 'mine.py'}:Mine"]))
    assert "\n" not in str(error.value)


def test_a_name_that_no_engine_has_is_said_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"rollout.engine=vlm is not one of transformers, .*; did you mean vllm\?"):
        engine_class("vlm")


def test_a_key_that_the_engine_does_not_read_is_refused_of_one_from_outside_too() -> None:
    with pytest.raises(UserError, match=r"rollout.server=http://a:1 has no effect with rollout.engine=.*PlainEngine"):
        check_engine(load_config([f"rollout.engine={FROM_OUTSIDE}", "rollout.server=http://a:1"]))
