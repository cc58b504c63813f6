"""What the command says fits a terminal, can be typed, and is in its exit status."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import rlzoo
from objectives import parse
from rlzoo.commands import main
from rlzoo.doctor.detectors import DETECTORS, Detection, Examination, examine
from rlzoo.doctor.indicators import Table
from rlzoo.files import write_json_lines
from rlzoo.report.doctor import as_data, print_examination, suggested
from tests.conftest import error_of
from tests.doctor.tables import STEPS, changed, healthy
from tests.doctor.test_detectors import FIRST, SICK, sick


def kept(table: Table, path: Path) -> Path:
    """The table as a file of JSON lines."""
    rows = zip(*(values.tolist() for values in table.values()), strict=True)
    write_json_lines(path, (dict(zip(table, row, strict=True)) for row in rows))
    return path


def test_the_status_says_whether_anything_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(kept(healthy(), tmp_path / "a.jsonl"))]) == 0
    assert "nothing found in 30 steps" in capsys.readouterr().out
    assert main(["doctor", str(kept(changed(FIRST, **SICK["truncation"]), tmp_path / "b.jsonl"))]) == 1
    assert "1 finding in 30 steps" in capsys.readouterr().out
    assert "does not exist" in error_of(capsys, "doctor", "nowhere")


@pytest.mark.parametrize("name", SICK)
def test_a_finding_has_evidence_rates_and_what_to_do_in_80_columns(name: str) -> None:
    examination = examine(sick(name))
    console = Console(width=80, file=io.StringIO())
    print_examination("runs/a", examination, console)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    shown = " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80
    finding = next(it for it in examination.findings if it.name == name)
    assert name.replace("_", " ") in shown and f"step {finding.step}: {finding.value:.3g}" in shown
    assert f"{finding.threshold:g} is a finding" in shown and ("healthy runs" in shown or "not measured" in shown)
    assert finding.setting in shown


def test_a_program_reads_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = kept(changed(FIRST, **SICK["entropy_collapse"]), tmp_path / "a.jsonl")
    assert main(["doctor", str(source), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["name"] == "entropy_collapse" and finding["step"] == FIRST + 3
    assert finding["rates"]["healthy"] > 0
    assert finding["try"] and all(parse(word.partition("=")[2]) for word in finding["try"])


def test_json_has_no_infinity() -> None:
    finding = replace(examine(changed(FIRST, truncated=0.9)).findings[0], value=np.inf)
    data = as_data("a", Examination(STEPS, (finding,), {}))
    assert json.loads(json.dumps(data, allow_nan=False))["findings"][0]["value"] is None


@pytest.mark.parametrize("detector", [it for it in DETECTORS if it.failure_mode], ids=lambda it: it.name)
def test_what_is_suggested_has_a_paper_and_can_be_typed(detector: object) -> None:
    tag = detector.failure_mode  # type: ignore[attr-defined]
    finding = Detection("x", 1, 0.0, 0.0, False, "", "", tag, "")
    remedies = suggested(finding)
    assert remedies
    for remedy in remedies:
        assert remedy.paper and tag in {it for part in parse(remedy.expression).parts for it in part.failure_modes}


@pytest.mark.slow
def test_a_run_of_ours_is_examined_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("rollout.prompts_per_step=2", "rollout.responses_per_prompt=4", "train.steps=1", "task.problems=50")
    held_out = ("evaluation.problems=4", "evaluation.samples=1")
    run = rlzoo.train(*small, *held_out, "objective=grpo", output=tmp_path / "run", progress=False)
    assert main(["doctor", str(run.folder), "--json"]) in (0, 1)
    examination = json.loads(capsys.readouterr().out)
    assert examination["steps"] == 1
    assert not any("there is no" in reason for reason in examination["unseen"].values())
