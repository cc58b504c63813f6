"""The evaluation before the first step is made once for a seed, and is what a run by itself would make."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from safetensors.torch import load_file, save_file

from rlzoo.commands import main
from rlzoo.comparing.grid import Grid, GridCell, read_grid
from rlzoo.comparing.initial_eval import share_initial_eval
from rlzoo.config.decoding import read_decodings
from rlzoo.evaluation.evaluate import Evaluation
from rlzoo.experiment.claim import content_of, kept_content
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import write_json
from rlzoo.report.leaderboard import markdown, page, print_leaderboard
from rlzoo.report.leaderboard_sentences import headlines
from tests.comparing.finished_runs import DECODINGS, SAMPLES, board_of, evaluate_between, make_run, records
from tests.conftest import save_tiny_model

SMALL = (
    "rollout.prompts_per_step=2",
    "rollout.responses_per_prompt=2",
    "train.steps=1",
    "train.schedule=linear",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "evaluation.decodings=[1/1,0.7/0.9]",
    "task.problems=50",
)


def grid_of(output: Path, *words: str) -> Grid:
    """Of small runs."""
    grid, _ = read_grid([*SMALL, *words, f"output={output}"])
    return grid


def untrained(folder: RunFolder) -> list[Path]:
    """The evaluations before the first step."""
    return [folder.evaluation(0, decoding) for decoding in read_decodings(["1/1", "0.7/0.9"])]


def evaluated(cell: GridCell) -> GridCell:
    """With something in the place of its evaluations."""
    for path in untrained(cell.folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        Evaluation(records(np.random.default_rng([cell.seed, len(path.stem)]), 0.5), SAMPLES).save(path)
    write_json(cell.folder.content, content_of(cell.config))
    return cell


def has_evaluations(cell: GridCell) -> bool:
    return any(path.exists() for path in untrained(cell.folder))


def test_a_cell_gets_the_evaluation_of_another_with_its_seed(tmp_path: Path) -> None:
    *others, cell = grid_of(tmp_path, "grpo", "dapo", "seeds=0,1").cells
    for other in others:
        evaluated(other)
    share_initial_eval(cell, others)
    (same_seed,) = (other for other in others if other.seed == cell.seed)
    assert [path.read_text() for path in untrained(cell.folder)] == [
        path.read_text() for path in untrained(same_seed.folder)
    ]
    assert cell.folder.read_config() == cell.config


def test_only_settings_that_the_evaluation_reads_keep_it_from_a_cell(tmp_path: Path) -> None:
    first, trained_faster = grid_of(
        tmp_path, *(f"grpo train.learning_rate={rate}" for rate in ("1e-4", "1e-3")), "seeds=0"
    ).cells
    _, sampled_more = grid_of(tmp_path / "other", "grpo", "dapo", "evaluation.samples=4", "seeds=0").cells
    for cell in (trained_faster, sampled_more):
        share_initial_eval(cell, [evaluated(first)])
    assert has_evaluations(trained_faster) and not has_evaluations(sampled_more)


@pytest.mark.parametrize("change", ["model", "answers", "record"])
def test_what_another_model_or_other_data_made_under_the_same_name_is_not_shared(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = save_tiny_model(tmp_path / "model")
    Path("own.jsonl").write_text("".join(f'{{"question": "{n}+1=", "answer": {n + 1}}}\n' for n in range(10, 40)))
    words = [word for word in SMALL if not word.startswith("task.")]
    grid, _ = read_grid(
        [
            *words,
            "grpo",
            "rloo",
            "seeds=0",
            f"model.name={model}",
            "task.name=own.jsonl",
            "rollout.max_response_tokens=24",
            "output=grid",
        ]
    )
    first, second = grid.cells
    evaluated(first)
    if change == "model":
        weights = load_file(model / "model.safetensors")
        save_file({name: weight + 1 for name, weight in weights.items()}, model / "model.safetensors")
    elif change == "answers":
        Path("own.jsonl").write_text(Path("own.jsonl").read_text().replace('answer": 2', 'answer": 3'))
    else:
        first.folder.content.unlink()
    share_initial_eval(second, [first])
    assert not second.folder.path.exists()
    share_initial_eval(second, [evaluated(first)])  # as it is made of what is there now
    assert has_evaluations(second) and kept_content(second.folder) == content_of(second.config)


SPOILT: dict[str, Callable[[Path, Path], object]] = {
    "no text": lambda first, second: first.write_bytes(b"\xff\xfe"),
    "no record": lambda first, second: first.write_bytes(b'{"problem": 1}\n'),
    "empty": lambda first, second: first.write_bytes(b""),
    "half of the decodings": lambda first, second: second.unlink(),
    "a link": lambda first, second: second.symlink_to(second.rename(second.with_name("elsewhere"))),
}


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_damaged_missing_or_a_link_is_not_shared(name: str, tmp_path: Path) -> None:
    first, second = grid_of(tmp_path, "grpo", "dapo", "seeds=0").cells
    SPOILT[name](*untrained(evaluated(first).folder))
    share_initial_eval(second, [first])
    assert not second.folder.path.exists()


def test_a_cell_that_has_begun_or_tells_a_tracker_or_runs_code_from_outside_evaluates_itself(tmp_path: Path) -> None:
    first, begun, tells, outside = grid_of(tmp_path, "grpo", "dapo", "stapo", "justrl", "seeds=0").cells
    begun.folder.path.mkdir()
    tells = replace(tells, config=replace(tells.config, log=replace(tells.config.log, trackers=["trackio"])))
    code = outside.entry.code
    assert code is not None
    code = replace(code, parts={"theirs:Part": {"theirs.py": "digest"}})
    outside = replace(outside, entry=replace(outside.entry, code=code))
    for cell in (begun, tells, outside):
        share_initial_eval(cell, [evaluated(first)])
        assert not has_evaluations(cell)


@pytest.mark.slow
def test_a_shared_evaluation_and_the_run_after_it_are_those_of_a_run_by_itself(tmp_path: Path) -> None:
    first, shared = grid_of(tmp_path / "together", "grpo", "dapo", "seeds=0").cells
    _, alone = grid_of(tmp_path / "alone", "grpo", "dapo", "seeds=0").cells
    main(["train", *first.words])
    share_initial_eval(shared, [first])
    assert has_evaluations(shared)
    for cell in (shared, alone):
        main(["train", *cell.words])
    paths = [*untrained(alone.folder), alone.folder.metrics, *(alone.folder / "evaluation").glob("step-000001-*.jsonl")]
    for path in paths:
        assert path.read_bytes() == (shared.folder / str(path.relative_to(alone.folder.path))).read_bytes()


def test_the_untrained_model_is_a_row_and_what_is_not_above_it_is_named(tmp_path: Path) -> None:
    for name, accuracy in (("grpo", 0.7), ("stapo", 0.2)):
        folder = make_run(tmp_path / name, name, 0, accuracy)
        evaluate_between(folder, {0: 0.4})
    board = board_of(tmp_path)
    assert board.untrained.keys() == set(DECODINGS)
    start = f"{100 * board.start(DECODINGS[0]):.1f}"
    said = next(line for line in headlines(board) if "untrained" in line)
    assert said == f"At T=1, top-p=1, stapo is not above the untrained model, which has {start}."
    console = Console(width=80, file=io.StringIO())
    print_leaderboard(board, console)
    for shown in (markdown(board), page(board), console.file.getvalue()):
        row = shown[shown.index("untrained model") :]
        assert start in row[:100]
