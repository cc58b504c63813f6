"""A run that its user made here names code of its own without `trust=`; one that anything of is changed does not."""

import json
import os
from pathlib import Path

import pytest

from rlzoo.config import flat, load_config
from rlzoo.config.recorded import RecordedKeys, check_recorded
from rlzoo.errors import UserError
from rlzoo.experiment.claim import claim
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.ownership import SIGNED, is_own, sign

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
    assert (Path("state") / "rlzoo" / "key").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("change", ["code", "config", "key", "folder", "signature", "copied file"])
def test_a_run_of_which_anything_is_changed_needs_trust(
    change: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config.resolve()
    if change == "code":
        Path("reward.py").write_text(REWARD.replace("1.0", "2.0"), encoding="utf-8")
    elif change == "config":
        config.write_text(config.read_text(encoding="utf-8").replace("seed: 0", "seed: 1"), encoding="utf-8")
    elif change == "key":
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of_another"))
    elif change == "folder":
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
    elif change == "signature":
        (config.parent / SIGNED).unlink()
    else:
        (config.parent / "responses.jsonl").write_bytes(config.read_bytes() + b"\n")
        config = config.parent / "responses.jsonl"
    assert not is_own(config)
    with pytest.raises(UserError, match="was not executed"):
        check_recorded([RecordedKeys(config, flat(KEYS))])


@pytest.mark.parametrize("waits", ["a file that is named", "the record"])
def test_nothing_is_read_for_a_record_that_another_wrote(waits: str, config: Path) -> None:
    os.mkfifo("pipe")
    signed = config.parent / SIGNED
    if waits == "the record":
        signed.unlink()
        os.mkfifo(signed)
    else:
        record = json.loads(signed.read_text(encoding="utf-8"))
        signed.write_text(json.dumps({**record, "files": {str(Path("pipe").resolve()): ""}}), encoding="utf-8")
    assert not is_own(config)


def test_no_key_can_be_kept_without_a_home_and_a_cut_one_signs_nothing(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("state", "rlzoo", "key").write_bytes(b"")
    sign(config, [])
    assert not is_own(config)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("os.path.expanduser", lambda path: path)  # as where the system does not know the user either
    sign(config, [])
    assert not is_own(config)
