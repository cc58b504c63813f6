"""What a run's folder says of the run: how far it is, and whether it is done."""

from pathlib import Path

import pytest

from rlzoo.config import load_config, to_yaml
from rlzoo.errors import UserError
from rlzoo.experiment.claim import claim, forget_after
from rlzoo.experiment.progress import PROGRESS
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines, slug
from tests.comparing.finished_runs import DECODINGS, STEPS, make_run


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A finished run."""
    return RunFolder(make_run(tmp_path / "run"))


def test_a_run_is_finished_with_its_evaluations_and_its_curves(folder: RunFolder) -> None:
    config = load_config([str(folder.config)])
    assert folder.finished(config)
    for needed in (folder.curves, *(folder.evaluation(STEPS, decoding) for decoding in DECODINGS)):
        content = needed.read_bytes()
        needed.unlink()
        assert not folder.finished(config)
        needed.write_bytes(content)
    config.train.steps += 1
    assert not folder.finished(config)


def test_a_checkpoint_counts_only_if_it_is_whole(folder: RunFolder) -> None:
    assert folder.last_checkpoint() is None and folder.checkpoint(0) is None
    for step in (2, 4):
        (folder / f"checkpoints/step-{step:06d}/training").mkdir(parents=True)
    (folder / f"checkpoints/step-000002/{PROGRESS}").write_text('{"step": 2}')
    assert folder.last_checkpoint() == folder.checkpoint(2) == folder / "checkpoints/step-000002"
    with pytest.raises(UserError, match=r"step=4: .* has no checkpoint of that step; it has 0, 2"):
        folder.checkpoint(4)


def test_a_run_that_goes_on_says_that_the_code_of_its_reward_has_changed(
    folder: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reward = tmp_path / "my_reward.py"
    folder.config.write_text(to_yaml(load_config([str(folder.config), f"task.reward={reward}:right"])))
    config = load_config([str(folder.config), "resume=true"])
    for code, says in (("right = float", ""), ("right = float", ""), ("right = len", f"{reward}:right has changed")):
        reward.write_text(code)
        caplog.clear()
        claim(folder, config).close()
        assert (says in caplog.text) if says else not caplog.records


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
