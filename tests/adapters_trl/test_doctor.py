"""The doctor finds its faults in what TRL's own trainer logs: as it trains, and in each tracker's files afterwards."""

import logging
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import AutoTokenizer, TrainerControl, TrainerState
from trl import GRPOTrainer

from rlzoo.doctor.detectors import examine
from rlzoo.doctor.readers import read_table
from rlzoo.doctor.trl import DoctorCallback
from tests.adapters_trl.rig import MODEL, embedded, settings


def no_reward(completions: list[str], **_: object) -> list[float]:
    return [0.0] * len(completions)


def test_faults_show_while_trl_trains_and_in_what_its_trackers_write(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path)
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "tensorboard"))
    others = {"max_completion_length": 2, "max_steps": 5, "save_strategy": "steps", "save_steps": 5}
    args = settings(tmp_path / "out", 4, 1, report_to=["tensorboard", "wandb", "trackio"], **others)
    data = Dataset.from_dict({"prompt": ["12+34="] * 32})
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    trainer = GRPOTrainer(embedded(), no_reward, args=args, train_dataset=data, processing_class=tokenizer)
    trainer.add_callback(DoctorCallback())
    with caplog.at_level(logging.WARNING, logger="rlzoo"):
        trainer.train()
    (message,) = [record.message for record in caplog.records if "truncation at step 3" in record.message]
    assert "(max_completion_length)" in message
    (wandb,), (trackio,) = tmp_path.glob("wandb/offline-run-*/"), tmp_path.glob("*.db")
    for left in (tmp_path / "out", tmp_path / "tensorboard", wandb, trackio):
        found = {finding.name: finding for finding in examine(read_table(left)).findings}
        assert found["truncation"].step == 3, left


def test_what_is_logged_before_training_begins_is_looked_at(tmp_path: Path) -> None:
    state = TrainerState(is_world_process_zero=True, global_step=1)
    callback = DoctorCallback()
    callback.on_log(settings(tmp_path, 4, 1), state, TrainerControl(), {"reward": 0.5})
    assert [record["step"] for record in callback.following.records] == [1]
