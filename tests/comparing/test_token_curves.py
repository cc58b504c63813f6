"""Curves are those of what was sampled, over what was spent; rows are compared when all had spent the same."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.token_curves import TokenCurves
from rlzoo.errors import UserError
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines, write_json_lines
from tests.comparing.finished_runs import DECODINGS, SAMPLES, STEPS, board_of, make_run
from tests.comparing.finished_runs import records as answers

STEPS_LONG, TOKENS = 60, 1000
FAST, HIGH = (0.66, 9_000.0), (0.78, 18_000.0)
"""Accuracy that a row rises to from 0.42, and the tokens for half of that."""
SEEDS = (0, 1, 2)


def accuracy_after(spent: np.ndarray, ceiling: float, half: float) -> np.ndarray:
    """A sigmoid over the logarithm of the tokens."""
    return np.asarray(0.42 + (ceiling - 0.42) / (1 + (half / np.maximum(spent, 1e-9)) ** 1.6))


def make_long(folder: Path, objective: str, seed: int, truth: tuple[float, float], tokens: int = TOKENS) -> Path:
    """A run whose training rollouts follow a curve of its seed, over `tokens` a step."""
    make_run(folder, objective, seed, 0.5, f"train.steps={STEPS_LONG}")
    run, generator = RunFolder(folder), np.random.default_rng([seed, len(objective)])
    own = (truth[0] + 0.01 * (seed - 1), truth[1] * 1.05 ** (seed - 1))
    curve = accuracy_after(tokens * np.arange(STEPS_LONG), *own) + 0.01 * generator.normal(size=STEPS_LONG)
    first = read_json_lines(run.metrics)[0]
    lines = [{**first, "step": step, "accuracy": value} for step, value in enumerate(curve.tolist(), start=1)]
    write_json_lines(run.metrics, lines)
    write_json_lines(run.timings, [{"step": line["step"], "tokens": tokens, "seconds": 0.5} for line in lines])
    for decoding in DECODINGS:
        run.evaluation(STEPS, decoding).rename(run.evaluation(STEPS_LONG, decoding))
    run.end.write_text(json.dumps({"step": STEPS_LONG}))
    return folder


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A faster and a higher row; the higher one spends half the tokens a step."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in SEEDS:
        make_long(folder / f"grpo-{seed}", "grpo", seed, FAST)
        make_long(folder / f"stapo-{seed}", "stapo", seed, HIGH, tokens=2 * TOKENS)
    return folder


@pytest.fixture
def folder(made_once: Path, tmp_path: Path) -> Path:
    """These runs, in a folder of the test's own."""
    return shutil.copytree(made_once, tmp_path / "runs")


def curves_of(board: Leaderboard) -> TokenCurves:
    """The curves of a leaderboard that has some."""
    assert board.token_curves
    return board.token_curves


def by_name(board: Leaderboard, of_rows: Mapping[object, object]) -> dict[str, object]:
    """What rows have, by their names."""
    return {str(row.name): of_rows[row.identity] for row in board.rows if row.identity in of_rows}


def changed(folder: Path, name: str, change: Mapping[str, float]) -> None:
    """Further figures in every line of the metrics of a row's runs."""
    for seed in SEEDS:
        metrics = RunFolder(folder / f"{name}-{seed}").metrics
        write_json_lines(metrics, [{**line, **change} for line in read_json_lines(metrics)])


def test_rollouts_count_for_the_policy_that_sampled_them_and_what_it_had_cost(folder: Path) -> None:
    """The first step's are the untrained model's."""
    row = curves_of(board_of(folder)).rows
    spent = {float(it.tokens[1]): it.tokens for it in row.values()}
    assert set(spent) == {TOKENS, 2.0 * TOKENS}
    assert all(tokens[0] == 0 and len(tokens) == STEPS_LONG for tokens in spent.values())
    assert spent[TOKENS][-1] == (STEPS_LONG - 1) * TOKENS


def test_equal_tokens_are_the_fewest_that_a_row_spent(folder: Path) -> None:
    curves = curves_of(board := board_of(folder))
    assert curves.tokens == (STEPS_LONG - 1) * TOKENS and curves.steps == STEPS_LONG - 1
    at_tokens = by_name(board, {row: it.at_equal_tokens for row, it in curves.rows.items()})
    at_steps = by_name(board, {row: it.at_equal_steps for row, it in curves.rows.items()})
    spent = np.array([curves.tokens])
    assert at_tokens["grpo"].mean == at_steps["grpo"].mean  # type: ignore[attr-defined]
    assert at_tokens["stapo"].mean == pytest.approx(accuracy_after(spent, *HIGH)[0], abs=0.01)  # type: ignore[attr-defined]
    assert at_steps["stapo"].mean == pytest.approx(accuracy_after(2 * spent, *HIGH)[0], abs=0.02)  # type: ignore[attr-defined]
    assert at_steps["stapo"].mean > at_tokens["stapo"].mean  # type: ignore[attr-defined]


@pytest.mark.slow
def test_held_out_evaluations_count_where_all_runs_have_enough_of_them(folder: Path) -> None:
    generator = np.random.default_rng(0)
    for run in folder.iterdir():
        for step in range(0, STEPS_LONG, 10):
            saved = Evaluation(answers(generator, 0.4 + 0.004 * step), SAMPLES)
            saved.save(RunFolder(run).evaluation(step, DECODINGS[0]))
    curves = curves_of(board_of(folder))
    assert curves.is_held_out and curves.steps == STEPS_LONG
    assert all(list(row.tokens / row.tokens[1]) == list(range(7)) for row in curves.rows.values())
    for run in (folder / f"grpo-{seed}" for seed in SEEDS):
        RunFolder(run).evaluation(20, DECODINGS[0]).unlink()
    RunFolder(folder / "grpo-0").evaluation(30, DECODINGS[0]).unlink()
    assert not curves_of(board_of(folder)).is_held_out


def test_groups_that_are_dropped_count_as_far_as_they_were_sampled(folder: Path) -> None:
    changed(folder, "grpo", {"groups_dropped": 0.5, "sampled/accuracy": 0.3, "sampled/tokens": 3 * TOKENS})
    board = board_of(folder)
    grpo = by_name(board, curves_of(board).rows)["grpo"]
    assert np.all(grpo.accuracy == pytest.approx(0.3)) and grpo.tokens[1] == 3 * TOKENS  # type: ignore[attr-defined]


def test_a_row_that_did_not_record_what_it_dropped_has_no_curve(folder: Path) -> None:
    changed(folder, "grpo", {"groups_dropped": 0.5})
    curves = curves_of(board := board_of(folder))
    assert set(by_name(board, curves.rows)) == {"stapo"}
    assert curves.tokens == 2 * (STEPS_LONG - 1) * TOKENS


def test_timings_that_lost_a_step_are_named(folder: Path) -> None:
    timings = RunFolder(folder / "grpo-1").timings
    write_json_lines(timings, read_json_lines(timings)[:-1])
    with pytest.raises(UserError, match=r"grpo-1.timings.jsonl is damaged: it has lost step 60; leave this run out"):
        board_of(folder)
