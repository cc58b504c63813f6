"""What pages and guide claim of verdicts follows from the table of simulated pages that is committed."""

from pathlib import Path

import numpy as np

from rlzoo.statistics.spread import MODES_SHOWN_FROM

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "coverage" / "results"
TWO_MODES = ("one method in two modes", "the baseline in two modes", "one method collapses in a third")


def rows(name: str) -> list[dict[str, str]]:
    """The lines of a committed table."""
    heading, _, *lines = (RESULTS / name).read_text(encoding="utf-8").splitlines()
    names, *found = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (heading, *lines)]
    return [dict(zip(names, cells, strict=True)) for cells in found]


PAGES = {(row["scenario"], int(row["seeds"])): row for row in rows("verdicts.md")}


def errs_seldom(share: str, pages: str) -> bool:
    """True for a share [%] of pages of at most 5, as far as two standard errors show."""
    return float(share) <= 100 * (0.05 + 2 * np.sqrt(0.05 * 0.95 / float(pages)))


def test_at_most_5_percent_of_pages_have_a_false_verdict_where_each_row_has_one_mode() -> None:
    one_mode = {at: row for at, row in PAGES.items() if at[0] not in (*TWO_MODES, "two methods collapse")}
    assert len({name for name, _ in one_mode}) >= 18
    assert [at for at, row in one_mode.items() if row["false"] and not errs_seldom(row["false"], row["pages"])] == []


def test_clean_pages_refuse_at_most_5_percent_of_their_verdicts() -> None:
    """Clean is a page without a row that is unstable."""
    unstable = (*TWO_MODES, "two methods collapse", *(name for name, _ in PAGES if " x 5" in name))
    clean = {at: row for at, row in PAGES.items() if at[0] not in unstable}
    assert len({name for name, _ in clean}) == 11
    assert [at for at, row in clean.items() if not float(row["refused"]) <= 5] == []


def test_each_page_was_simulated_with_3_and_10_seeds_but_the_largest() -> None:
    with_three = ("47 methods", "avg@8 and area", "four measures", "3.6 points, three rows only")
    missing = {(name, seeds) for name, _ in PAGES for seeds in (3, 10) if (name, seeds) not in PAGES}
    assert missing == {(name, 10) for name, _ in PAGES if name.startswith(with_three)}


def test_rows_in_two_modes_err_as_seldom_from_the_number_of_seeds_that_pages_name() -> None:
    for name in TWO_MODES:
        enough, three = PAGES[name, MODES_SHOWN_FROM], PAGES[name, 3]
        assert errs_seldom(enough["false"], enough["pages"])
        assert 25 <= float(three["false"]) <= 35, "the guide says 25 to 35 %"


def test_three_seeds_find_two_fifths_of_3_6_points_and_twice_as_much_where_seeds_are_correlated() -> None:
    alone, correlated = (float(PAGES[it, 3]["found"]) for it in ("3.6 points", "3.6 points, correlation 0.7"))
    assert alone >= 40 and correlated >= 2 * alone
    guide = " ".join((ROOT / "docs" / "guides" / "compare.md").read_text(encoding="utf-8").split())
    assert f"three seeds find {alone:.0f} % of these differences ({correlated:.0f} % if runs" in guide
    few, wider = (float(PAGES[f"3.6 points, three rows only{it}", 3]["found"]) for it in ("", ", wider runs"))
    assert f"If only three of the seven differ, they find {few:.0f} %, or {wider:.0f} % if runs of a method" in guide


def test_looks_by_hand_that_are_counted_err_on_at_most_5_percent_of_grids() -> None:
    *_, line = (RESULTS / "by_hand.md").read_text(encoding="utf-8").splitlines()
    count, counted = line.split("|")[2:4]
    assert errs_seldom(counted, count)


def test_one_in_twenty_of_what_simulated_pages_list_is_false_at_most_and_more_is_found_than_by_verdicts() -> None:
    pages = rows("discoveries.md")
    assert len(pages) == 28
    for row in pages:
        assert errs_seldom(row["list: false share"], row["pages"]), row["scenario"]
        if row["list: found"]:
            assert float(row["list: found"]) >= float(row["verdicts: found"])
