"""A list at a false discovery rate is as wrong as it says, where rows are many."""

from pathlib import Path

import pytest

from rlzoo.statistics.differences import false_discovery_rates

TABLE = Path(__file__).parents[2] / "benchmarks" / "coverage" / "results" / "discoveries.md"


def test_rates_of_false_discoveries_are_benjamini_and_hochbergs() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]
    rates = [0.01 * 4 / 2, 0.04, 0.04, 0.005 * 4]  # 0.03 * 4 / 3 is no less than the rate of what comes after it
    assert false_discovery_rates(p_values) == pytest.approx(rates)
    assert false_discovery_rates(p_values, looks=2) == pytest.approx([2 * rate for rate in rates])
    assert false_discovery_rates([]) == []


def test_one_in_twenty_of_what_simulated_pages_list_is_false_at_most_and_more_is_found_than_by_verdicts() -> None:
    heading, _, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    names = [name.strip() for name in heading.split("|")[1:-1]]
    rows = [dict(zip(names, (cell.strip() for cell in line.split("|")[1:-1]), strict=True)) for line in lines]
    assert len(rows) == 28
    for row in rows:
        error = 100 * (0.05 * 0.95 / float(row["pages"])) ** 0.5
        assert float(row["list: false share"]) <= 5 + 2 * error, row["scenario"]
        if row["list: found"]:
            assert float(row["list: found"]) >= float(row["verdicts: found"])
