"""The page holds what it shows, nothing from elsewhere, and whatever a model or a user wrote is text."""

import io
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from rich.console import Console

from rlzoo.comparing.grid import RowName
from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow
from rlzoo.comparing.results import ACCURACY, Place
from rlzoo.report import leaderboard_figures, leaderboard_statistics
from rlzoo.report.drawing import svg
from rlzoo.report.leaderboard import (
    comma_separated,
    frames,
    markdown,
    page,
    print_leaderboard,
)
from rlzoo.report.leaderboard_figures import (
    ON_WHITE,
    draw_differences,
    draw_leaderboard,
    leaderboard_figure,
    strokes,
)
from rlzoo.report.leaderboard_sentences import headlines, notes, verdict_words
from rlzoo.report.leaderboard_statistics import Statistic
from rlzoo.statistics.verdicts import Finding, Verdict
from tests.comparing.finished_runs import make_board
from tests.report.legible import assert_legible, overlapping

HOSTILE = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'>|`$x^2$[a](javascript:b)\u202e"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Leaderboard:
    """Two recipes, two seeds."""
    return make_board(tmp_path_factory.mktemp("runs"))


def hostile(board: Leaderboard) -> Leaderboard:
    """Everything that is text says something bad."""
    names = [RowName(HOSTILE + str(i), HOSTILE) for i in range(len(board.rows))]
    rows = [
        replace(row, name=name, training=replace(training, command=HOSTILE))
        for row, name, training in zip(board.rows, names, board.trainings.values(), strict=True)
    ]
    setting, environment = {HOSTILE: HOSTILE}, {HOSTILE: [HOSTILE]}
    return replace(
        board,
        title=HOSTILE,
        rows=rows,
        setting=setting,
        environment=environment,
        notes=[HOSTILE],
    )


class Elements(HTMLParser):
    """Counts the elements of a page and keeps their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attributes]


def test_hostile_text_adds_no_element_and_no_attribute(board: Leaderboard) -> None:
    harmless, attacked = Elements(page(board)), Elements(page(hostile(board)))
    assert set(attacked.tags) <= {*harmless.tags, "wbr"}
    assert attacked.tags.count("script") == 1 and "img" not in attacked.tags
    assert {name for name, _ in attacked.attributes} <= {name for name, _ in harmless.attributes}
    assert not any(name.startswith("on") for name, _ in attacked.attributes)


def test_the_label_of_a_figure_is_text() -> None:
    drawn = Elements(svg(lambda _: None, rf"\q{HOSTILE}"))
    assert ("aria-label", rf"\q{HOSTILE}") in drawn.attributes and not {"script", "img"} & set(drawn.tags)


def test_control_characters_and_marks_of_direction_are_seen_wherever_they_stand(board: Leaderboard) -> None:
    bad = "a\x1b[31m\u202e\u2066\x00b"
    rows = [replace(row, name=RowName(f"{bad}{i}", bad)) for i, row in enumerate(board.rows)]
    written = replace(board, title=bad, rows=rows, notes=[bad], setting={bad: bad})
    console = Console(file=io.StringIO(), width=80)
    print_leaderboard(written, console)
    for text in (page(written), markdown(written), comma_separated(written), console.file.getvalue()):  # type: ignore[attr-defined]
        assert not {"\x1b", "\u202e", "\u2066", "\x00"} & set(text) and "u202e" in text


def test_names_stay_whole_in_a_terminal_of_80_columns(board: Leaderboard) -> None:
    names = ["advantage_reweighting", "stapo(tau_p=0.005,q=0.8)+clip_higher"]
    rows = [replace(row, name=RowName(name)) for row, name in zip(board.rows, names, strict=True)]
    console = Console(file=io.StringIO(), width=80)
    print_leaderboard(replace(board, rows=rows), console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "advantage_reweighting " in shown and "stapo(tau_p=0.005,q=0.8)+" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_the_headlines_speak_for_every_decoding(board: Leaderboard) -> None:
    said = headlines(board)
    assert len(board.decodings) == 2
    for decoding, line in zip(board.decodings, said[:2], strict=True):
        assert str(decoding) in line
        for row in board.rows:
            if not row.is_baseline:
                verdict = row.results[decoding].average.verdict
                assert str(row.name) in line and verdict_words(verdict).split(":")[0] in line


@pytest.mark.parametrize("name", ["pass", "maj"])
def test_what_is_claimed_by_another_measure_is_said_at_its_decoding_and_nothing_else_is(
    board: Leaderboard, name: str
) -> None:
    def judged(row: LeaderboardRow, decoding: Place, finding: Finding) -> LeaderboardRow:
        result = row.results[decoding]
        measured = replace(result.measured[name], verdict=replace(result.measured[name].verdict, finding=finding))
        return replace(
            row, results={**row.results, decoding: replace(result, measured={**result.measured, name: measured})}
        )

    first, second = board.decodings
    quiet = Finding.NOT_DISTINGUISHABLE
    rows = [judged(judged(row, first, quiet), second, quiet) for row in board.rows]
    row = next(row for row in rows if not row.is_baseline)
    claimed = judged(row, first, Finding.WORSE)
    said = headlines(replace(board, rows=[claimed if it is row else it for it in rows]))
    by_name = [line for line in said if f"by {name}@" in line]
    difference = row.results[first].measured[name].difference
    assert difference
    assert by_name == [
        f"At {first}, by {name}@{board.samples_at[first]}, worse than {board.baseline.name}: "
        f"{row.name} ({100 * difference.mean:+.1f})."
    ]


def test_every_decoding_is_shown_with_its_own_number_of_samples(board: Leaderboard) -> None:
    written = replace(board, samples_at=dict(zip(board.decodings, (16, 32), strict=True)))
    for text in (page(written), markdown(written)):
        assert text.index("avg@16") < text.index("avg@32") and text.count("avg@32") == 1
        assert all(f"{name}@{count}" in text for name in ("pass", "maj") for count in (16, 32))


def test_the_terminal_has_ten_lines_of_three_objectives_with_the_headlines_and_the_warnings(board: Leaderboard) -> None:
    place, alike = board.decodings[0], Verdict(Finding.NOT_DISTINGUISHABLE)
    third = replace(board.rows[0], identity=("third", ()), name=RowName("third"))
    rows = []
    for row in (*board.rows, third):
        result = row.results[place]
        judged = replace(result, measured={ACCURACY: replace(result.average, verdict=alike)})
        rows.append(replace(row, results={**row.results, place: judged}))
    console = Console(file=io.StringIO(), width=80)
    board = replace(board, rows=rows, decodings=[place], untrained={place: [0.3, 0.4]})
    print_leaderboard(board, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len([line for line in lines if line.strip()]) <= 10
    text = " ".join(" ".join(lines).split())
    assert all(line in text for line in (*headlines(board), *notes(board)))


def test_differences_are_drawn_with_a_dot_for_each_seed_and_wide_intervals_leave_the_picture(
    board: Leaderboard,
) -> None:
    table = next(iter(frames(board).values())).assign(difference_low=-1.0, difference_high=1.0)
    axis = Figure().subplots()
    draw_differences(axis, table, ON_WHITE)
    shown = [row for row in board.rows if not row.is_baseline]
    dots = [line.get_xdata() for line in axis.lines if line.get_marker() == "."]
    assert sum(map(len, dots)) == sum(len(row.seeds) for row in shown)
    low, high = axis.get_xlim()
    assert all(low < dot < high for dot in np.concatenate(dots)) and low > -100 and high < 100


def test_a_browser_runs_only_scripts_that_the_policy_names_by_their_digests(board: Leaderboard) -> None:
    text = page(hostile(board))
    (policy,) = re.findall(r"script-src ([^;]*);", text)
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digests = [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
    assert digests and set(digests) <= set(policy.split()) and all(it.startswith("'sha256-") for it in policy.split())


def test_the_page_asks_nobody_for_anything(board: Leaderboard) -> None:
    text = page(board)
    assert "default-src 'none'" in text
    links = [value for name, value in Elements(text).attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(link.startswith("#") for link in links)
    assert not re.search(r"url\((?!#)|@import", text)


TEMPLATES = sorted(Path(leaderboard_figures.__file__).with_name("templates").glob("*.*"))
LOADS = re.compile(
    r"""(src|action|data|poster)\s*=|href\s*=(?!\s*["']?\#)|url\((?!\#)|@import|//\w+\.|\b(fetch|import|open|XMLHttpRequest)\s*\("""
    r"""|WebSocket|sendBeacon|EventSource|serviceWorker"""
)
"""What has a browser ask for something that is not in the page."""


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda it: it.name)
def test_no_page_of_any_kind_loads_anything_or_is_without_the_policy_that_forbids_it(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    if template.suffix != ".md":
        assert not LOADS.search(text)
    if "<body" in text or "{% extends" in text:
        policy = re.search(r'Content-Security-Policy"\s+content="([^"]*)"', text)
        assert '{% extends "layout.html" %}' in text or (policy and policy[1].startswith("default-src 'none';"))


def test_ids_are_unique_and_every_reference_has_its_target(board: Leaderboard) -> None:
    attributes = Elements(page(board)).attributes
    ids = [value for name, value in attributes if name == "id"]
    assert len(ids) == len(set(ids))
    used = {value.removeprefix("#") for name, value in attributes if name == "href"}
    used |= {target for _, value in attributes for target in re.findall(r"url\(#([^)]*)\)", value)}
    assert used <= set(ids)


def luminance(color: str) -> float:
    """Relative luminance (WCAG)."""
    parts = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("count", [1, 8, 20])
def test_every_colour_stands_out_on_light_and_on_dark(board: Leaderboard, count: int) -> None:
    rows = [replace(board.rows[0], identity=(f"objective{i}", ())) for i in range(count)]
    looks = strokes(rows)
    for paper in ("#ffffff", "#14171b"):
        for stroke in looks.values():
            high, low = sorted((luminance(paper) + 0.05, luminance(stroke.color) + 0.05), reverse=True)
            assert high / low >= 3
    assert len(set(looks.values())) == count


@pytest.mark.slow
def test_the_picture_takes_any_text(board: Leaderboard, tmp_path: Path) -> None:
    draw_leaderboard(tmp_path / "picture.png", HOSTILE, frames(hostile(board)), {HOSTILE: [0.1]})
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_statistic_that_is_declared_once_is_in_page_markdown_csv_and_picture(
    board: Leaderboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def middle(board: Leaderboard, row: LeaderboardRow, decoding: Place) -> float:
        return float(np.median(row.results[decoding].average.by_seed))

    median = Statistic("median_run", "median run", middle, "{:.4f}".format, pictured="the median run")
    declared = {**leaderboard_statistics.BY_DECODING, "runs": [median]}
    monkeypatch.setattr(leaderboard_statistics, "BY_DECODING", declared)
    monkeypatch.setattr(leaderboard_figures, "PICTURED", [median])
    for text in (page(board), markdown(board)):
        assert "median run" in text
        assert all(f"{middle(board, row, at):.4f}" in text for row in board.rows for at in board.decodings)
    assert "median_run" in comma_separated(board).splitlines()[0]
    titles = [axis.get_title(loc="left") for axis in leaderboard_figure("", frames(board), {}).findobj(Axes)]
    assert titles.count("the median run") == 1


def test_the_picture_has_axes_for_each_decoding_the_verdicts_in_words_and_marks_unstable_rows(
    board: Leaderboard,
) -> None:
    tables = frames(board)
    first = next(iter(tables.values()))
    tables[str(board.decodings[0])] = first.assign(verdict=["unstable: more seeds", "baseline"])
    drawn = leaderboard_figure(board.title, tables, {next(iter(tables)): [0.1, 0.3]})
    titles = [axis.get_title(loc="left") for axis in drawn.findobj(Axes)]
    assert titles.count("accuracy after the last step (%)") == len(board.decodings)
    labels = {label.get_text() for axis in drawn.findobj(Axes) for label in axis.get_yticklabels()}
    assert "untrained model" in labels and any(20.0 in line.get_xdata() for line in drawn.findobj(Line2D))
    assert {label for label in labels if "unstable" in label} == {f"{first.objective.iloc[0]}\nunstable"}
    words = [text.get_text() for axis in drawn.findobj(Axes) for text in axis.texts]
    assert words.count("unstable: more seeds") == 1


def test_the_picture_is_legible_and_cuts_no_name_that_takes_three_lines(board: Leaderboard) -> None:
    long = "grpo(beta=0.001)+clip_higher(high=0.24)+token_mean+top_entropy(fraction=0.2)"
    tables = {at: table.assign(objective=[long, "grpo-kl"]) for at, table in frames(board).items()}
    drawn = leaderboard_figure(board.title, tables, {})
    assert_legible(drawn)
    labels = [label for axis in drawn.findobj(Axes) for label in axis.get_yticklabels()]
    assert "".join(labels[0].get_text().split()) == long and not overlapping(labels[:2])


def test_the_number_of_seeds_that_find_a_difference_is_a_range(board: Leaderboard) -> None:
    ends, place = ("at least", "at most"), board.decodings[0]
    assert all(f"| seeds to find it, {end} |" in markdown(board) for end in ends)
    written = frames(board)[str(place)][[f"seeds_needed_{end.replace(' ', '_')}" for end in ends]].fillna(0).astype(int)
    ranges = {number: row.results[place].difference for number, row in enumerate(board.rows)}
    assert {it.seeds_range for it in ranges.values() if it} != {(0, 0)}
    for number, difference in ranges.items():
        if difference:
            assert tuple(written.iloc[number]) == difference.seeds_range
