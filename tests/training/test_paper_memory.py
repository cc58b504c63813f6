"""What `rlzoo fit` says of the papers' settings is what their pages say, and on 64 GPUs they fit."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from objectives import parse
from rlzoo.config import load_config
from rlzoo.config.command_keys import FitConfig
from rlzoo.rollout.memory import GIB, set_aside_gib, shape_of
from rlzoo.training.fit import arithmetic, fit, free_for_cache, host_bytes, whole_responses

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "papers"
TITLES = ["What it needs", "Data", "What differs from the paper", "What to expect", "What counts as reproduced"]
PAPERS = {path.stem: path for path in sorted((ROOT / "configs").glob("*_qwen*.yaml"))}


@pytest.mark.parametrize("name", PAPERS)
def test_every_papers_setting_fits_sixty_four_gpus_and_its_cache_has_what_is_free_of_nine_tenths(name: str) -> None:
    config = load_config([str(PAPERS[name]), "train.sharding=fsdp"] if "1.7b" not in name else [str(PAPERS[name])])
    shape, objective = shape_of(config.model), parse(config.objective)
    assert fit(config, shape, objective, 64, 80 * GIB).fits
    least = replace(config, rollout=replace(config.rollout, kv_cache_gib=None))
    gpus = 8 if fit(least, shape, objective, 8, 80 * GIB).fits else 64
    found, room = fit(least, shape, objective, gpus, 72 * GIB), whole_responses(least, shape, gpus)
    longest = config.rollout.max_prompt_tokens + config.rollout.max_response_tokens
    usual, size = (set_aside_gib(each.rollout, 4.0, each.model, shape, longest) for each in (least, config))
    assert size == max(usual, free_for_cache(found, *room))


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize("memory", [80, 141])
@pytest.mark.parametrize("name", [it for it in PAPERS if load_config([str(PAPERS[it])]).train.sharding == "none"])
def test_the_papers_settings_fit_or_it_is_said_what_makes_them_fit(name: str, memory: int, gpus: int) -> None:
    config = load_config([str(PAPERS[name])])
    found = fit(config, shape_of(config.model), parse(config.objective), gpus, memory * GIB)
    assert found.fits or found.remedy
    again = load_config([str(PAPERS[name]), *found.remedy])
    assert fit(again, shape_of(again.model), parse(again.objective), gpus, memory * GIB).fits


def test_the_page_on_gpus_says_what_makes_the_papers_settings_fit() -> None:
    lines = (ROOT / "benchmarks" / "gpu" / "README.md").read_text().splitlines()
    rows = [line.split(" | ")[1:] for line in lines if line.startswith(("| STAPO,", "| Lopti,", "| STARE,"))]
    for name, row in zip(("stapo_qwen3_1.7b", "lopti_qwen2.5_3b", "stare_qwen2.5_math_7b"), rows, strict=True):
        config = load_config([str(PAPERS[name])])
        shape, objective = shape_of(config.model), parse(config.objective)
        said = []
        for gpus in (1, 8):
            found, host = fit(config, shape, objective, gpus, 80 * GIB), host_bytes(config, shape, objective, gpus)
            said += [found.phases[0].total, found.largest.total, gpus * max(host["start"], host["resume"])]
        assert row[:6] == [f"{size / GIB:.1f}" for size in said]
        for (gpus, memory), cell in zip(product((1, 8), (80, 141)), row[6:], strict=True):
            found = fit(config, shape, objective, gpus, memory * GIB)
            assert cell.strip(" |`") == (" ".join(found.remedy) or "fits")


@pytest.mark.parametrize("name", PAPERS)
def test_a_papers_page_says_the_memory_and_the_hours_that_are_predicted(name: str) -> None:
    config = load_config([str(PAPERS[name])])
    shape, objective = shape_of(config.model), parse(config.objective)
    largest, of_64 = (fit(config, shape, objective, gpus, 80 * GIB).largest.total / GIB for gpus in (8, 64))
    hours = arithmetic(config, shape, objective).hours(config.train.steps, 8e12 * FitConfig().teraflops)
    said = [f"{largest:.1f} GiB", f"{hours:.{0 if hours >= 10 else 1}f}"]
    (row,) = (it for it in (PAGES / "index.md").read_text().splitlines() if it.startswith(f"| [{name}]"))
    text = " ".join((PAGES / f"{name}.md").read_text().split())
    assert said[0] in row and row.endswith(f"| {said[1]} |")
    assert said[0] in text and f"takes {said[1]} hours of eight H200" in text
    assert config.train.sharding == "none" or f"and {of_64:.1f} GiB on each of 64" in text
    assert [it for it in TITLES if f"**{it}.**" not in text] == []
