"""A short form of benchmarks/faults: what is killed at random moments leaves what an undisturbed run leaves."""

from pathlib import Path

import pytest

from benchmarks.faults.comparing import differences
from benchmarks.faults.striking import End, Strike, read
from tests.processes import ONE, launch


@pytest.mark.exhaustive
def test_what_is_killed_and_asked_to_end_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    wanted = 5
    launch([*ONE, "-m", "tests.training.some_kills", tmp_path, str(wanted)])
    records = {path.stem: list(read(path)) for path in tmp_path.glob("*.jsonl")}
    assert set(records) == {"SIGKILL-lopti", "SIGKILL-eval", "SIGTERM-stare"}
    for name, found in records.items():
        strikes = [it for it in found if isinstance(it, Strike)]
        ends = [it for it in found if isinstance(it, End)]
        assert len(strikes) >= wanted and isinstance(found[-1], End)
        assert all(it.status == 0 and it.differences == [] for it in ends), name
        assert all(it.left == 0 for it in strikes), name
        assert all(it.lost == 0 and it.status == 143 for it in strikes if name.startswith("SIGTERM")), name


def test_whatever_an_interrupted_run_left_otherwise_is_named(tmp_path: Path) -> None:
    whole, struck = tmp_path / "whole", tmp_path / "struck"
    for folder in (whole, struck):
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text('{"step": 1, "reward": 0.5}\n')
        (folder / "checkpoints" / "model.safetensors").write_bytes(b"weights")
        (folder / "timings.jsonl").write_text(folder.name)
    assert differences(whole, struck) == []
    (struck / "metrics.jsonl").write_text('{"step": 1, "reward": 0.25}\n')
    (struck / "checkpoints" / "model.safetensors").unlink()
    (struck / "checkpoints" / ".step-000002.abc.rlzoo-partial").touch()
    assert sorted(differences(whole, struck)) == [
        "checkpoints/.step-000002.abc.rlzoo-partial is left over",
        "checkpoints/model.safetensors is missing",
        "metrics.jsonl differs",
    ]
