"""A stranger's path: an installed wheel, an empty folder, data and a reward of one's own, and vLLM at its end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REWARD = """
def reward(response, gold, **columns):
    return float(response.rpartition(")")[2] == gold)
"""
SMALL = (
    "rollout.prompts_per_step=4",
    "rollout.responses_per_prompt=4",
    "evaluation.problems=4",
    "evaluation.samples=2",
    "train.learning_rate=1e-4",
)
OWN = ("task.name=sums.jsonl", "task.reward=./reward.py:reward", *SMALL)
ASK = """
import sys
from vllm import LLM, SamplingParams
if __name__ == "__main__":  # which vLLM asks for
    model = LLM(sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=64, kv_cache_memory_bytes=2**28)
    (answer,) = model.generate("12+34=", SamplingParams(temperature=0.0, max_tokens=8))
    print("answer:", answer.outputs[0].text)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the wheel of this checkout is installed; what it needs is in the environment."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT], check=True)
    (wheel,) = wheels.glob("rlzoo_llm-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", target, wheel], check=True)
    return target


@pytest.mark.timeout(900)
def test_a_stranger_comes_from_an_empty_folder_to_a_model_in_vllm(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}

    def python(*words: str | Path) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-3000:]
        return done.stdout

    def rlzoo(*words: str) -> str:
        return python("-m", "rlzoo", *words)

    assert str(installed) in python("-c", "import rlzoo; print(rlzoo.__file__)")
    sums = [(a, b) for a in range(11, 27) for b in range(31, 33)]
    rows = [json.dumps({"question": f"{a}+{b}=", "answer": str(a + b)}) for a, b in sums]
    (tmp_path / "sums.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "reward.py").write_text(REWARD)

    assert "11+31=" in rlzoo("task", *OWN[:2])
    train = ("train", "objective=stapo", *OWN, "output=run", "checkpoint.every=1")
    interrupt([sys.executable, "-m", "rlzoo", *train, "train.steps=500"], tmp_path, environment, until=tmp_path / "run")
    done = len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert 1 <= done < 500
    rlzoo(*train, f"train.steps={done + 1}", "resume=true")
    rlzoo("eval", "run", "evaluation.decodings=[0/1]", "trust=run/config.yaml")
    rlzoo("inspect", "run", "against=entropy20", "trust=run/config.yaml")
    compared = rlzoo("compare", "grpo", "dapo", "seeds=0,1", "train.steps=1", "output=grid", *OWN)
    assert "grpo" in compared and (tmp_path / "grid" / "leaderboard.html").exists()
    checkpoint = tmp_path / "run" / "checkpoints" / f"step-{done + 1:06d}"
    (tmp_path / "ask.py").write_text(ASK)
    assert "answer: " in python("ask.py", checkpoint)


def interrupt(words: list[str], folder: Path, environment: dict[str, str], until: Path) -> None:
    """Runs it until the run in `until` has done two steps, and ends it by Ctrl-C."""
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job's children ignore it
    )
    metrics, start = until / "metrics.jsonl", time.monotonic()
    while process.poll() is None and time.monotonic() < start + 200:
        if metrics.exists() and metrics.read_text().count("\n") >= 2:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert b"Traceback" not in said, said.decode()
