"""A run that goes on is told the same as one that is done, each finding once."""

from pathlib import Path

import pytest

from rlzoo.doctor.detectors import examine
from rlzoo.doctor.following import LOOKS, Following
from rlzoo.doctor.indicators import Table
from rlzoo.doctor.readers import Record
from rlzoo.files import append_json_line
from tests.doctor.tables import changed, healthy
from tests.doctor.test_detectors import FIRST, SICK, sick, slow
from tests.thinned import thinned


def records(table: Table) -> list[Record]:
    """A record for each step."""
    rows = zip(*(values.tolist() for values in table.values()), strict=True)
    return [dict(zip(table, row, strict=True)) for row in rows]


@pytest.mark.parametrize("name", SICK)
def test_each_finding_is_said_once_at_the_step_at_which_it_shows(name: str) -> None:
    table = sick(name)
    follow = Following(16, 8, "grpo")
    said = [(finding, record["step"]) for record in records(table) for finding in follow(record)]
    assert [finding for finding, _ in said] == list(examine(table).findings)
    assert all(finding.step == step for finding, step in said)


def test_a_run_that_is_resumed_is_not_told_again_and_knows_how_it_began() -> None:
    table = changed(FIRST, entropy=0.05)
    lines = records(table)
    follow = Following(16, 8, "grpo", lines[:20])
    assert not [finding for line in lines[20:] for finding in follow(line)]
    follow = Following(16, 8, "grpo", lines[:8])
    assert tuple(finding for line in lines[8:] for finding in follow(line)) == examine(table).findings


@pytest.mark.parametrize(("old_logp", "says"), [("engine", "rollout.old_logp=policy"), ("policy", ""), ("", "")])
def test_where_the_ratio_is_to_the_engine_a_mismatch_names_what_mends_it(old_logp: str, says: str) -> None:
    follow = Following(16, 8, "grpo", old_logp=old_logp)
    findings = [finding for record in records(sick("sampler_mismatch")) for finding in follow(record)]
    (finding,) = [finding for finding in findings if finding.name == "sampler_mismatch"]
    assert says in finding.reason and bool(says) == bool(finding.reason)
    assert finding.reason in finding.summary


def test_repetition_is_told_while_the_run_goes_on(tmp_path: Path) -> None:
    table = {name: values for name, values in healthy().items() if name != "repetition"}
    lines, responses = records(table)[:40], tmp_path / "responses.jsonl"

    def add(step: float, text: str) -> None:
        append_json_line(responses, {"step": step, "response": text})

    def told(begun: int) -> list[str]:
        responses.unlink(missing_ok=True)
        for line in lines[:begun]:
            add(line["step"], "so it is 12, and then 7")
        follow, said = Following(16, 8, "grpo", lines[:begun], responses), []
        for place, line in enumerate(lines[begun:], begun):
            add(line["step"], "so it is 12, and then 7" if place < 15 else f"so it is {'12 ' * 99}")
            said += [f"{finding.name} {finding.step}" for finding in follow(line)]
            if place == 30:  # as log.response_steps has it
                responses.write_text("".join(responses.read_text().splitlines(keepends=True)[-3:]))
        return said

    assert told(0) == told(10) == [f"repetition {int(lines[17]['step'])}"]


@pytest.mark.parametrize("seeds", thinned([range(start, start + 6) for start in range(0, 60, 6)], 0, 2))
def test_a_slow_run_that_goes_on_raises_nothing(seeds: range) -> None:
    for seed in seeds:
        follow = Following(16, 8, "grpo")
        assert not [finding for record in records(slow(seed)) for finding in follow(record)]


def test_a_long_run_is_looked_at_rarely() -> None:
    follow, looks = Following(16, 8, "grpo", records(healthy()) * 10), 0
    findings = follow._findings

    def counted() -> tuple:  # type: ignore[type-arg]
        nonlocal looks
        looks += 1
        return findings()

    follow._findings = counted  # type: ignore[method-assign]
    for line in records(healthy()) * 10:
        follow(line)
    assert 0 < looks <= LOOKS
