"""What a run's folder says of the run: how far it is, and whether it is done."""

import shlex
from pathlib import Path

import pytest

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.experiment.claim import forget_after, forget_old_responses
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import append_json_line, read_json_lines, slug
from tests.comparing.finished_runs import DECODINGS, STEPS, make_run


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A finished run."""
    return RunFolder(make_run(tmp_path / "run"))


def test_a_run_is_finished_where_training_says_so_and_its_evaluations_are_there(folder: RunFolder) -> None:
    config = load_config([str(folder.config)])
    assert folder.finished(config)
    for needed in (folder.end, *(folder.evaluation(STEPS, decoding) for decoding in DECODINGS)):
        content = needed.read_bytes()
        needed.unlink()
        assert not folder.finished(config)
        needed.write_bytes(content)
    config.train.steps += 1
    assert not folder.finished(config)


def test_a_run_is_resumed_from_another_folder_by_what_is_printed(tmp_path: Path) -> None:
    there = RunFolder(make_run(tmp_path / "a {run} of mine"))
    config = load_config(shlex.split(there.resumed)[2:])
    assert config.resume and Path(config.output.format()) == there.path


def test_a_run_that_ended_before_training_said_so_is_finished_with_its_curves(folder: RunFolder) -> None:
    config = load_config([str(folder.config)])
    folder.end.unlink()
    assert not folder.finished(config)
    folder.curves.write_bytes(b"")
    assert folder.finished(config)


def test_the_end_of_an_earlier_last_step_is_not_that_of_a_later_one(folder: RunFolder) -> None:
    config = load_config([str(folder.config)])
    for decoding in DECODINGS:
        folder.evaluation(STEPS, decoding).rename(folder.evaluation(STEPS + 1, decoding))
    config.train.steps += 1
    assert not folder.finished(config)


def test_a_checkpoint_is_found_by_its_step_once_it_has_its_name(folder: RunFolder) -> None:
    assert folder.last_checkpoint() is None and folder.checkpoint(0) is None
    for name in ("step-000002", ".step-000004.7.new", ".step-000004.7.old", "step-000006.copy"):
        (folder / f"checkpoints/{name}/training").mkdir(parents=True)
    assert folder.last_checkpoint() == folder.checkpoint(2) == folder / "checkpoints/step-000002"
    with pytest.raises(UserError, match=r"step=4: .* has no checkpoint of that step; it has 0, 2"):
        folder.checkpoint(4)


def test_what_comes_after_a_checkpoint_is_forgotten(folder: RunFolder) -> None:
    early = folder.evaluation(2, DECODINGS[0])
    early.write_bytes(folder.evaluation(STEPS, DECODINGS[0]).read_bytes())
    forget_after(folder, 2)
    assert [line["step"] for line in read_json_lines(folder.metrics)] == [1, 2]
    assert [line["step"] for line in read_json_lines(folder.timings)] == [1, 2]
    assert folder.evaluations(DECODINGS[0]) == {2: early} and folder.evaluations(DECODINGS[1]) == {}


@pytest.mark.parametrize("name", ["./own.jsonl", "../nest/own.jsonl", ".own", "-own", "own: a"])
def test_no_name_of_a_folder_hides_it_or_looks_like_an_option(name: str) -> None:
    assert slug(name)[0] not in ".-" and slug(name).endswith(("own", "own.jsonl", "own-a"))


def respond(folder: RunFolder, first: int, last: int, newest: int) -> list[int]:
    """Records two responses to each of these steps; the steps that are kept then."""
    for step in range(first, last + 1):
        for number in range(2):
            append_json_line(folder.responses, {"step": step, "number": number})
        forget_old_responses(folder, step, newest)
    return [line["step"] for line in read_json_lines(folder.responses)]


@pytest.mark.parametrize(("newest", "kept"), [(0, 11), (1, 1), (4, 7), (20, 11)])
def test_responses_of_the_newest_steps_are_kept_and_of_twice_as_many_at_most(
    newest: int, kept: int, tmp_path: Path
) -> None:
    expected = [step for step in range(12 - kept, 12) for _ in range(2)]
    assert respond(RunFolder(tmp_path), 1, 11, newest) == expected
    for killed in (4, 9):
        for checkpoint in range(killed):
            folder = RunFolder(tmp_path / f"{killed}-{checkpoint}")
            folder.path.mkdir()
            respond(folder, 1, killed, newest)
            forget_after(folder, checkpoint)
            respond(folder, checkpoint + 1, 11, newest)
            assert folder.responses.read_bytes() == RunFolder(tmp_path).responses.read_bytes()
