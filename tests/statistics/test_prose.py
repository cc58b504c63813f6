"""What the guide says that verdicts find and miss is what the tables of the coverage benchmark have."""

import re
from pathlib import Path

from rlzoo.statistics.modes import SHOWN_FROM, could_miss

ROOT = Path(__file__).parents[2]


def measured() -> dict[tuple[str, int], dict[str, float]]:
    """Figures of the table of pairing and modes, by scenario and seeds."""
    lines = (ROOT / "benchmarks/coverage/results/modes.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    figures = [dict(zip(rows[0][2:], row[2:], strict=True)) for row in rows[2:]]
    return {
        (row[0], int(row[1])): {name: float(text) for name, text in own.items() if text}
        for row, own in zip(rows[2:], figures, strict=True)
    }


def test_the_power_in_the_guide_is_stated_with_spread_and_decodings_and_is_that_of_the_table() -> None:
    guide = " ".join((ROOT / "docs/guides/compare.md").read_text(encoding="utf-8").split())
    said = re.search(r"deviate by 1.1 points, two decodings and eight rows, 3.6 points are found in (\d+) %", guide)
    paired = re.search(r"and in (\d+) % where runs of a seed are correlated by 0.7", guide)
    table = measured()
    assert said and int(said[1]) == round(table["3.6 points", 3]["found"])
    assert paired and int(paired[1]) == round(table["3.6 points, correlation 0.7", 3]["found"])


def test_pages_with_two_modes_err_as_few_as_80_pages_can_show_from_the_number_of_seeds_that_is_stated() -> None:
    table = measured()
    limit = 5 + 200 * (0.05 * 0.95 / 80) ** 0.5
    names = ("one method in two modes", "the baseline in two modes", "one method collapses in a third")
    assert all(table[name, SHOWN_FROM]["false"] <= limit for name in names)
    assert table["3.6 points", 3]["refused"] <= 5
    assert table["3.6 points, correlation 0.7", 3]["found"] >= 2 * table["3.6 points", 3]["found"]


def test_readme_and_guide_name_the_rate_of_collapse_that_few_seeds_miss() -> None:
    rates = {seeds: f"{100 * could_miss(seeds):.0f} %" for seeds in (3, 5, 10)}
    readme, guide = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guides/compare.md"))
    assert rates[3] in readme and all(rate in guide for rate in rates.values())
