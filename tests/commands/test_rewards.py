"""Rewards of every form train the embedded model, and one that is broken ends the run with one line and status 2."""

import itertools
import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from objectives import Part, TokenBatch
from objectives.zoo import PARTS
from rlzoo.commands import main
from rlzoo.files import read_json_lines
from tests.conftest import error_of
from tests.judge import JUDGE, judging
from tests.thinned import thinned

REWARDS = """
def ours(response, gold, **columns):
    return float(response.rpartition(")")[2] == gold) - 0.25

def trl(prompts, completions, answer, **columns):
    return [float(it.rpartition(")")[2] == gold) for it, gold in zip(completions, answer, strict=True)]

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"score": len(solution_str) / 10, "acc": solution_str.rpartition(")")[2] == ground_truth}

def broken(response):
    return [1.0][len(response)]

def nan(response):
    return float("nan")

def text(response):
    return "good"

def two(completions, **columns):
    return [1.0, 2.0]
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A run of two small steps on 24 questions of one's own, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("rewards.py").write_text(REWARDS)
    rows = [{"problem": f"{a}+{b}=", "answer": str(a + b)} for a in range(10, 18) for b in (7, 21, 33)]
    Path("own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    steps = ["train.steps=2", "rollout.prompts_per_step=4", "evaluation.problems=2", "evaluation.samples=2"]
    return ["objective=grpo", "task.name=own.jsonl", "output=run", *steps]


@pytest.mark.slow
@pytest.mark.parametrize("rewards", thinned(["ours,compute_score", "ours", "trl", "compute_score"], 4))
def test_every_form_trains_the_embedded_model(rewards: str, words: list[str]) -> None:
    names = rewards.split(",")
    written = ",".join(f"./rewards.py:{name}" for name in names)
    weights = ["task.reward_weights=[2, 0.5]"] * (len(names) > 1)
    assert main(["train", *words, f"task.reward=[{written}]", *weights]) == 0
    steps = read_json_lines(Path("run/metrics.jsonl"))
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["gradient_norm"] > 0 and step["updates_skipped"] == 0 for step in steps)
    for record in read_json_lines(Path("run/responses.jsonl")):
        is_right = record["response"].rpartition(")")[2] == record["answer"]
        length = len(record["response"]) / 10
        single = {"ours": is_right - 0.25, "trl": float(is_right), "compute_score": length}
        expected = single[names[0]] if len(names) == 1 else 2 * single["ours"] + 0.5 * length
        correct = 0.0 if rewards == "ours" else float(is_right)  # a reward of 0.75 is below 1
        assert (record["reward"], record["correct"]) == (pytest.approx(expected), correct)


@pytest.mark.slow
@pytest.mark.parametrize("names", [["ours"], ["ours", "compute_score"]])  # a single one comes weighted
def test_the_rewards_of_several_functions_come_to_the_objective_apart(
    names: list[str], words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, of = [], PARTS["decoupled_norm"].of  # type: ignore[attr-defined]

    def recorded(part: Part, batch: TokenBatch) -> Tensor:
        seen.append(batch)
        return of(part, batch)

    monkeypatch.setattr(PARTS["decoupled_norm"], "of", recorded)
    weights = [-2.0, 0.5][: len(names)]
    written = f"task.reward=[{','.join(f'./rewards.py:{name}' for name in names)}]"
    assert main(["train", *words[1:], "objective=gdpo", written, f"task.reward_weights={weights}"]) == 0
    batch = seen[-1]
    rewards = batch.require("rewards", "test")
    assert rewards.shape == (len(batch.mask), len(names))
    weighted = rewards if batch.reward_weights is None else rewards * torch.tensor(batch.reward_weights)
    torch.testing.assert_close(weighted.sum(1), batch.require("reward", "test"))
    assert len(names) == 1 or not torch.equal(rewards[:, 0], rewards[:, 1])


@pytest.mark.slow
@pytest.mark.parametrize("written", ["./rewards.py:ours", "./rewards.py:ours,./rewards.py:compute_score"])
def test_a_run_of_another_objective_is_inspected_by_one_that_reads_the_rewards_apart(
    written: str, words: list[str]
) -> None:
    assert main(["train", *words, f"task.reward=[{written}]"]) == 0
    assert main(["inspect", "run", "objective=gdpo", "step=0", "trust=run/config.yaml"]) == 0


@pytest.mark.slow
def test_a_judge_over_http_trains_the_embedded_model(words: list[str]) -> None:
    marks = itertools.cycle((0, 10))
    with judging(lambda prompt: f"It is {next(marks)}") as asked:
        assert main(["train", *words, f"task.reward={JUDGE}:reward"]) == 0
    assert asked[0]["model"] == "judge" and "Gold answer: " in asked[0]["messages"][0]["content"]
    steps = read_json_lines(Path("run/metrics.jsonl"))
    assert len(steps) == 2 and all(0 < step["reward"] < 1 and step["gradient_norm"] > 0 for step in steps)


@pytest.mark.parametrize(
    ("reward", "says"),
    [
        ("broken", "raised IndexError: list index out of range (rewards.py line 12)"),
        ("nan", "returned nan"),
        ("text", "returned 'good'"),
        ("two", "returned [1.0, 2.0]"),
    ],
)
def test_a_broken_reward_ends_the_run_with_one_line(
    reward: str, says: str, words: list[str], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    message = error_of(capsys, "train", *words, f"task.reward=./rewards.py:{reward}")
    assert f"task.reward=./rewards.py:{reward} {says}" in message and "for the question '1" in message
