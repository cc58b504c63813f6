"""A run that its user made here names code of its own without `trust=`; one that anything of is changed does not."""

import os
from pathlib import Path

import pytest

from rlzoo.config import flat, load_config
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.experiment.claim import claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.ownership import is_own, keep_as_own

REWARD = "def reward(response, gold):\n    return 1.0\n"
KEYS = {"task.reward": ["./reward.py:reward"]}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The config.yaml of a run of mine with a reward of mine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("reward.py").write_text(REWARD, encoding="utf-8")
    folder = RunFolder(Path("run"))
    claim(folder, load_config(["task.reward=./reward.py:reward", "output=run"])).close()
    return folder.config


def test_my_run_may_name_my_code(config: Path) -> None:
    check_recorded([RecordedKeys(config, flat(KEYS))])
    check_recorded([RecordedKeys(config, flat(KEYS))], trust=["run"])


@pytest.mark.parametrize("change", ["code", "config", "user", "folder", "another file"])
def test_a_run_of_which_anything_is_changed_needs_trust(
    change: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config.resolve()
    if change == "code":
        Path("reward.py").write_text(REWARD.replace("1.0", "2.0"), encoding="utf-8")
    elif change == "config":
        config.write_text(config.read_text(encoding="utf-8").replace("seed: 0", "seed: 1"), encoding="utf-8")
    elif change == "user":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of_another"))
    elif change == "folder":
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    else:
        (config.parent / "responses.jsonl").write_bytes(config.read_bytes() + b"\n")
        config = config.parent / "responses.jsonl"
    assert not is_own(config)
    with pytest.raises(UserError, match="was not executed"):
        check_recorded([RecordedKeys(config, flat(KEYS))])


def test_a_pipe_in_place_of_a_configuration_is_not_waited_for(config: Path) -> None:
    config.unlink()
    os.mkfifo(config)
    assert not is_own(config)


def test_nothing_is_kept_without_a_home_and_a_cut_record_says_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kept,) = Path("state", "rlzoo", "made_here").iterdir()
    kept.write_bytes(b"")
    assert not is_own(config)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where the system does not know the user either
    keep_as_own(config, [])
    assert not is_own(config)
