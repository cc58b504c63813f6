"""What `rlzoo eval` measured of runs, on a leaderboard: paired, averaged over problem sets, judged as training is."""

import csv
from pathlib import Path

import numpy as np
import pytest

from rlzoo.api import leaderboard
from rlzoo.comparing.finished_runs import (
    FinishedRun,
    read_folders,
    read_run,
    read_runs,
    runs_evaluated,
    with_evaluations,
)
from rlzoo.comparing.grid import read_grid
from rlzoo.comparing.leaderboard import Leaderboard, make_leaderboard
from rlzoo.comparing.results import SetDecoding
from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.evaluation.kept import read_results, record_result
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.report.leaderboard import comma_separated, markdown, page
from rlzoo.report.leaderboard_sentences import headlines
from rlzoo.statistics.verdicts import Finding
from tests.comparing.finished_runs import AS_MADE, SAMPLES, STEPS, evaluate_between, make_run, records

HOT = Decoding(1.0, 1.0)
AIME, MATH = SetDecoding.of("aime24", HOT), SetDecoding.of("math500", HOT)


def make_evaluation(
    run: Path, name: str, accuracy: float, folder: Path | None = None, samples: int = SAMPLES, **settings: object
) -> Path:
    """As `rlzoo eval RUN benchmarks=NAME` leaves it."""
    path = (folder or run / "evaluation") / f"{name}-T1-p1-k{samples}.jsonl"
    seed = finished(run).config.seed
    Evaluation(records(np.random.default_rng([seed, len(name)]), accuracy, samples), samples).save(path)
    decided = {"problem_set": name, "decoding": {"temperature": 1.0, "top_p": 1.0}, "seed": seed, "problems": 12}
    decided |= {"model": {"weights": run.name, "precision": "float32"}}
    entry = {"model": "m", "run": {"folder": str(run), "step": STEPS}, "settings": decided | settings, "figures": {}}
    record_result(path, entry)
    return path


def finished(run: Path) -> FinishedRun:
    """A run of `make_run`."""
    return read_run(RunFolder(run))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """A baseline and a better method, three seeds each, evaluated before training and on two benchmarks."""
    found = []
    for objective, accuracy in (("grpo", 0.3), ("stapo", 0.7)):
        for seed in (0, 1, 2):
            run = make_run(tmp_path / f"{objective}-{seed}", objective, seed)
            evaluate_between(run, {0: 0.2})
            make_evaluation(run, "aime24", accuracy)
            make_evaluation(run, "math500", accuracy + 0.1)
            found.append(run)
    return found


def board(runs: list[Path], *benchmarks: str) -> Leaderboard:
    """Of the runs' evaluations."""
    places = [run / "evaluation" for run in runs]
    found, notes = with_evaluations([finished(run) for run in runs], places, benchmarks)
    return make_leaderboard(found, notes=notes)


@pytest.mark.slow
def test_benchmarks_have_a_macro_average_before_them_and_are_judged_as_training_is(runs: list[Path]) -> None:
    found = board(runs)
    macro = found.decodings[0]
    assert [str(it) for it in found.decodings] == ["macro average, T=1, top-p=1", str(AIME), str(MATH)]
    assert found.problems == 24 and found.samples == SAMPLES
    best, baseline = found.rows
    assert (str(best.name), str(baseline.name), best.seeds) == ("stapo", "grpo", (0, 1, 2))
    for row in found.rows:
        parts = [row.results[it] for it in (AIME, MATH)]
        assert row.results[macro].accuracy.mean == pytest.approx(np.mean([it.accuracy.mean for it in parts]))
        assert row.results[macro].measured["pass"].estimate.mean == pytest.approx(
            np.mean([it.pass_at[SAMPLES] for it in parts])
        )
    difference = best.results[macro].difference
    assert difference is not None and difference.low < difference.mean < difference.high
    assert best.results[macro].average.verdict.finding is Finding.BETTER
    files = [Evaluation.load(next((run / "evaluation").glob("aime24*.jsonl"))) for run in runs]
    means = [it.column("correct").mean() for it in files]
    assert best.results[AIME].difference.mean == pytest.approx(np.mean(means[3:]) - np.mean(means[:3]))  # type: ignore[union-attr]


def test_benchmarks_that_are_named_count_alone(runs: list[Path]) -> None:
    found = board(runs, "math500")
    assert [str(it) for it in found.decodings] == [str(MATH)]
    assert not found.untrained and all(line.startswith(f"At {MATH}") for line in headlines(found))


def test_what_not_all_runs_have_is_left_out_and_said_or_refused_where_it_is_asked_for(runs: list[Path]) -> None:
    make_evaluation(runs[0], "amc23", 0.5)
    found = board(runs)
    assert "Not all runs are evaluated on amc23, T=1, top-p=1; left out." in found.notes
    with pytest.raises(UserError, match=r"grpo-1 is not evaluated on amc23 as the others are; rlzoo eval .* bench"):
        board(runs, "amc23", "aime24")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problems": 13}, "cannot be compared: problems is 12 in one and 13 in the other"),
        ({"model": {"weights": "w", "precision": "bfloat16"}}, "model.precision is float32 in one and bfloat16"),
    ],
)
def test_evaluations_that_other_settings_decided_are_not_compared(
    runs: list[Path], settings: dict[str, object], message: str
) -> None:
    make_evaluation(runs[-1], "aime24", 0.5, **settings)
    with pytest.raises(UserError, match=message):
        board(runs)


def test_evaluations_are_not_compared_if_one_was_graded_again_with_another_version(runs: list[Path]) -> None:
    path = next((runs[-1] / "evaluation").glob("aime24*.jsonl"))
    entry, versions = read_results(path.parent)[path.stem], {"rlzoo-llm": "0.9.0", "commit": "0123abc"}
    record_result(path, entry | {"regraded_with": versions})
    message = r"aime24.* they are graded with different versions, rlzoo-llm is None in one and 0\.9\.0"
    with pytest.raises(UserError, match=message):
        board(runs)
    for run in runs:
        path = next((run / "evaluation").glob("aime24*.jsonl"))
        of_grader = {"environment": versions} if run == runs[0] else {"regraded_with": versions | {"threads": run.name}}
        record_result(path, read_results(path.parent)[path.stem] | of_grader)
    assert board(runs).decodings


def test_an_evaluation_of_an_earlier_step_or_of_no_run_is_refused(runs: list[Path], tmp_path: Path) -> None:
    path = make_evaluation(runs[0], "aime24", 0.5)
    entry = read_results(path.parent)[path.stem]
    record_result(path, entry | {"run": {"folder": str(runs[0]), "step": 2}})
    with pytest.raises(UserError, match=rf"is of step 2 of {STEPS}; only last steps are compared"):
        board(runs)
    record_result(path, entry | {"run": None, "model": "Qwen/Qwen3-0.6B"})
    with pytest.raises(UserError, match=r"is of Qwen/Qwen3-0\.6B, which is not the model of a run"):
        runs_evaluated([path])


@pytest.mark.slow
def test_folders_and_files_of_evaluations_find_their_runs(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = [make_evaluation(run, "amc23", 0.5, tmp_path / "away" / run.name) for run in runs]
    assert {folder.path for folder in runs_evaluated(elsewhere)} == set(runs)
    words = [str(path) for path in (*elsewhere[:3], *(path.parent for path in elsewhere[3:]))]
    leaderboard(*words, f"output={tmp_path / 'board'}")
    assert "amc23" in capsys.readouterr().out
    with (tmp_path / "board" / "leaderboard.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert {(line["problem_set"], line["seeds"]) for line in lines} == {("amc23", "0 1 2")}
    assert {"seeds_needed_at_least"} <= lines[0].keys()


def test_sets_with_other_numbers_of_samples_are_one_table(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, name) for name in ("grpo", "stapo")]
    for run in runs:
        make_evaluation(run, "aime24", 0.5, samples=2 * SAMPLES)
        make_evaluation(run, "math500", 0.5)
    text = comma_separated(board(runs))
    lines = {line["problem_set"]: line for line in csv.DictReader(text.splitlines())}
    assert lines["aime24"][f"pass@{2 * SAMPLES}"] and not lines["math500"][f"pass@{2 * SAMPLES}"]


def test_a_grid_and_its_evaluations_may_be_named_together_and_those_of_rows_with_settings_alone(tmp_path: Path) -> None:
    found, _ = read_grid(
        [*(f"grpo train.learning_rate={rate}" for rate in ("1e-5", "1e-4")), "seeds=0", f"output={tmp_path}", *AS_MADE]
    )
    found.save()
    places = []
    for cell in found.cells:
        rate = f"train.learning_rate={cell.config.train.learning_rate}"
        make_run(cell.folder.path, cell.entry.expression, cell.seed, 0.5, rate)
        places.append(make_evaluation(cell.folder.path, "aime24", 0.5).parent)
    for names in ([str(tmp_path), *map(str, places)], list(map(str, places))):
        runs, _, _ = read_folders(names, ())
        assert [run.settings for run in runs] == [cell.entry.settings for cell in found.cells]
        assert list(make_leaderboard(runs, "grpo train.learning_rate=1e-5").decodings) == [AIME]


@pytest.mark.slow
def test_what_is_known_of_a_benchmarks_contamination_is_on_its_board_and_on_no_other(runs: list[Path]) -> None:
    found = board(runs)
    for text in (page(found), markdown(found)):
        assert "2507.10532" in text and "2505.23281" in text and "math500: contaminated for Qwen2.5" in text
    own, _, _ = read_runs([str(run) for run in runs])
    assert "contaminat" not in markdown(make_leaderboard(own))
