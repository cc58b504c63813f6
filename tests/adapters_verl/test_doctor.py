"""The doctor finds a fault in what verl's own metrics and loggers write, in each kind of log."""

from pathlib import Path

import pytest
import torch
from verl import DataProto
from verl.trainer.ppo.metric_utils import compute_data_metrics
from verl.utils.tracking import Tracking

from rlzoo.doctor.detectors import examine
from rlzoo.doctor.readers import read_table, table_of

ROWS, LENGTH, STEPS = 16, 8, 6


def metrics_of(step: int, ended: int) -> dict[str, float]:
    """The metrics that verl's trainer logs for a step in which `ended` responses end before the limit."""
    draw = torch.Generator().manual_seed(step)
    length = torch.full((ROWS,), LENGTH)
    length[:ended] = torch.randint(2, LENGTH, (ended,), generator=draw)
    mask = (torch.arange(LENGTH) < length[:, None]).long()
    score = torch.zeros(ROWS, LENGTH)
    score[:, -1] = torch.rand(ROWS, generator=draw).round()
    tensors = {
        "prompts": torch.ones(ROWS, 3, dtype=torch.long),
        "responses": torch.ones(ROWS, LENGTH, dtype=torch.long),
        "attention_mask": torch.cat([torch.ones(ROWS, 3, dtype=torch.long), mask], 1),
        "response_mask": mask,
        **dict.fromkeys(("token_level_scores", "token_level_rewards", "advantages", "returns"), score),
    }
    actor = {"actor/entropy": 0.7, "actor/grad_norm": 0.3, "actor/pg_loss": 0.01, "actor/lr": 1e-6}
    return {**compute_data_metrics(DataProto.from_single_dict(tensors), use_critic=False), **actor}


def test_responses_that_reach_the_limit_are_found_in_each_log_of_verl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name, value in {"WANDB_DIR": "", "TENSORBOARD_DIR": "board", "VERL_FILE_LOGGER_PATH": "log.jsonl"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    tracking = Tracking("sums", "first", ["console", "file", "tensorboard", "wandb"], {"trainer": {}})
    for step in range(1, STEPS + 1):
        tracking.log(metrics_of(step, ended=0), step)
    tracking.finish()
    (tmp_path / "console.txt").write_text(capsys.readouterr().out, encoding="utf-8")
    (wandb,) = tmp_path.glob("wandb/offline-run-*/")
    for left in (tmp_path / "console.txt", tmp_path / "log.jsonl", tmp_path / "board", wandb):
        table = read_table(left)
        assert list(table["step"]) == list(range(1, STEPS + 1)), left
        assert [finding.step for finding in examine(table).findings if finding.name == "truncation"] == [3], left


def test_nothing_is_found_where_responses_end() -> None:
    records = [{**metrics_of(step, ended=ROWS), "step": step} for step in range(1, STEPS + 1)]
    assert not examine(table_of(records)).findings
