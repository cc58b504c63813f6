"""What the pages of the papers say of days and hours follows from the hours of a run that they name."""

import re
from pathlib import Path

import pytest

from objectives import parse
from rlzoo.comparing.grid_words import with_schedule
from rlzoo.config import load_config
from rlzoo.config.command_keys import FitConfig
from rlzoo.rollout.memory import shape_of
from rlzoo.training.fit import arithmetic

ROOT = Path(__file__).parents[2]
RATE = FitConfig().teraflops * 1e12
RUNS = {"stapo_qwen3_1.7b": (90, 1), "stare_qwen2.5_math_7b": (250, 2), "lopti_qwen2.5_3b": (90, 6)}
"""Page -> steps and runs of what a day can show."""


@pytest.mark.parametrize("name", RUNS)
def test_what_a_day_can_show_is_calculated_from_the_hours_of_a_run_and_fits_into_a_day(name: str) -> None:
    text = " ".join((ROOT / "docs" / "papers" / f"{name}.md").read_text(encoding="utf-8").split())
    (hours,) = map(float, re.findall(r"takes ([\d.]+) hours of eight H200", text))
    whole, (steps, runs) = load_config([str(ROOT / "configs" / f"{name}.yaml")]).train.steps, RUNS[name]
    day = hours * steps / whole * runs
    said = re.search(r"take ([\d.]+) hours, or ([\d.]+) if sampling takes as long again", text)
    assert said and said.groups() == (f"{day:.1f}", f"{2 * day:.1f}") and 2 * day <= 24
    assert f"train.steps={steps} " in f"{text} "


def test_six_runs_of_stapo_are_three_with_the_mask_and_three_without() -> None:
    text = " ".join((ROOT / "docs" / "papers" / "stapo_qwen3_1.7b.md").read_text(encoding="utf-8").split())
    config = load_config([str(ROOT / "configs" / "stapo_qwen3_1.7b.yaml")])
    shape, steps = shape_of(config.model), config.train.steps
    whole, less = (arithmetic(config, shape, parse(it)).hours(steps, 8 * RATE) for it in ("stapo", "justrl"))
    without = round(less)
    assert round(whole) == 386
    hours = 3 * (386 + without)
    said = f"{(1 - less / whole) * 100:.0f} % less, {without}. Together {hours:,} hours"
    assert f"{said}, {hours / 24:.0f} days of eight H200" in text
    assert f"hours, {60 * 386 / 3000:.1f} minutes" in text


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*_qwen*.yaml")), ids=lambda path: path.stem)
def test_a_comparison_of_a_papers_configuration_keeps_its_rate_constant(path: Path) -> None:
    settings = with_schedule([str(path)])
    assert load_config([str(path)]).train.schedule == load_config(settings).train.schedule == "constant"
