"""The papers' own settings can start: they name an engine that serves them, and keep to the ranges."""

from pathlib import Path

import pytest

from objectives import parse
from rlzoo.config import load_config
from rlzoo.config.decoding import read_decodings
from rlzoo.experiment.check import check_keys

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*_qwen*.yaml"))


def test_there_are_twelve() -> None:
    assert len(CONFIGS) == 12


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_papers_configuration_is_whole(path: Path) -> None:
    config = load_config([str(path)])
    check_keys(config)
    assert parse(config.objective).parts
    assert config.rollout.engine == "vllm" and config.rollout.drop_long_prompts
    comment = path.read_text().split("objective:")[0]
    assert ("DAPO-Math-17k" in comment) == ('"Answer: ..."' in comment)


def test_the_settings_that_only_one_paper_has() -> None:
    found = {path.stem: load_config([str(path)]) for path in CONFIGS}
    lopti, stare = found["lopti_qwen2.5_3b"], found["stare_qwen2.5_math_7b"]
    assert [(it.temperature, it.top_p) for it in read_decodings(lopti.evaluation.decodings)] == [(0, 1), (1, 1)]
    assert stare.train.weight_decay == 0.01
    assert stare.task.instruction.startswith("\nPlease") and stare.task.name.endswith("-cleaned")
