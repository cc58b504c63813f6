"""The area under the curve: a measure with verdicts where all runs were evaluated while they trained."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from rlzoo.comparing.results import ACCURACY, AREA
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.report.leaderboard import markdown, page, records
from rlzoo.statistics.verdicts import Finding
from tests.comparing.finished_runs import DECODINGS, STEPS, board_of, evaluate_between, make_run, row_of

STARTS, SLOW, SOON = 0.2, 0.3, 0.75


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows that end alike, answer by answer; dapo gets there sooner."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1, 2):
        for name, halfway in (("grpo", SLOW), ("dapo", SOON)):
            run = make_run(folder / f"{name}-{seed}", name, seed, 0.6)
            evaluate_between(run, {0: STARTS, 2: halfway + 0.01 * seed})
        for path in (folder / f"grpo-{seed}" / "evaluation").glob(f"step-{STEPS:06d}-*"):
            shutil.copy(path, folder / f"dapo-{seed}" / "evaluation")
    return folder


@pytest.fixture
def folder(made_once: Path, tmp_path: Path) -> Path:
    """These runs, in a folder of the test's own."""
    return shutil.copytree(made_once, tmp_path / "runs")


def test_the_area_is_the_mean_of_the_accuracy_over_the_steps_and_tells_rows_apart_that_end_alike(folder: Path) -> None:
    dapo = row_of(board_of(folder), "dapo")
    for decoding in DECODINGS:
        measured = dapo.results[decoding].measured
        assert measured[ACCURACY].verdict.finding is Finding.SAME_RESPONSES
        assert measured[AREA].verdict.finding is Finding.BETTER
        for seed, area in zip(dapo.seeds, measured[AREA].by_seed, strict=True):
            run = RunFolder(folder / f"dapo-{seed}")
            points = {
                step: Evaluation.load(run.evaluation(step, decoding)).column("correct").mean() for step in (0, 2, STEPS)
            }
            finely = np.interp(np.linspace(0, STEPS, 100_001), list(points), list(points.values()))
            assert area == pytest.approx(finely.mean(), abs=1e-4)


@pytest.mark.slow
def test_there_is_no_area_where_a_run_was_evaluated_before_and_after_alone(folder: Path) -> None:
    for path in (folder / "dapo-1" / "evaluation").glob("step-000002-*"):
        path.unlink()
    board = board_of(folder)
    assert all(AREA not in result.measured for row in board.rows for result in row.results.values())
    assert "area under avg@" not in markdown(board) and "area under the curve<" not in page(board)
    assert all(record["held_out_area"] is None for record in records(board))


def test_the_area_counts_the_steps_that_all_runs_have(folder: Path) -> None:
    evaluate_between(folder / "dapo-0", {3: 1.0})
    before = row_of(board_of(folder), "dapo").results[DECODINGS[0]].measured[AREA]
    for path in (folder / "dapo-0" / "evaluation").glob("step-000003-*"):
        path.unlink()
    assert row_of(board_of(folder), "dapo").results[DECODINGS[0]].measured[AREA] == before
