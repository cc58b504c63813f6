"""A real server of vLLM's, started by the command that every error names, samples for runs that train."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import torch
from rich.console import Console

from rlzoo.config import Config, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.progress import read_progress
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.files import read_json_lines
from rlzoo.model.policy import Policy, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.report.terminal import Terminal
from rlzoo.rollout import check_engine, load_engine
from rlzoo.rollout.base import Sampling
from rlzoo.training.run import train
from tests.rollout.engine_laws import EngineLaws
from tests.vllm.gloo_server import GlooServer

SMALL = ("rollout.prompts_per_step=4", "evaluation.problems=4", "evaluation.samples=1", "train.learning_rate=1e-3")


def served(address: str, *words: str) -> Config:
    """A run of seconds on the embedded model, if the server is quick."""
    return load_config(
        ["rollout.engine=tests.vllm.gloo_server:GlooServer", f"rollout.server={address}", *SMALL, *words]
    )


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    """The address of a server for such runs, which logs into a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found = f"http://127.0.0.1:{free.getsockname()[1]}"
    config = served(found, *words)
    environment = {name: value for name, value in os.environ.items() if name != "VLLM_ENABLE_V1_MULTIPROCESSING"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    command = GlooServer.command(config.rollout, config.model).replace(" python", "; exec python", 1)
    log = folder / "log"
    with (
        log.open("w") as written,
        subprocess.Popen(
            ["bash", "-c", f"export {command}"], env=environment, stdout=written, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            while not answers(found):
                assert process.poll() is None, log.read_text()[-3000:]
                time.sleep(1)
            yield found
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as found:
        yield found


def answers(address: str) -> bool:
    """Whether the server has started."""
    try:
        return requests.get(f"{address}/health", timeout=5).ok
    except requests.RequestException:
        return False


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("ahead", [0, 1])
def test_two_steps_train_on_what_the_server_samples_with_weights_that_change(
    ahead: int, address: str, tmp_path: Path
) -> None:
    config = served(address, "train.steps=2", f"rollout.ahead={ahead}", f"output={tmp_path / 'run'}")
    folder = train(config, Terminal(Console(quiet=True)))
    metrics = read_json_lines(folder.metrics)
    assert folder.finished(config) and [line["step"] for line in metrics] == [1, 2]
    assert all(line["gradient_norm"] > 0 for line in metrics)
    compared = [line["sampler/largest_difference"] for line in metrics if "sampler/largest_difference" in line]
    assert len(compared) == 2 - ahead and max(compared) < 1e-4, "what an older policy sampled is not compared"
    checkpoint = RunFolder(folder.path).last_checkpoint()
    assert checkpoint is not None
    given = requests.get(f"{address}/weight_info", timeout=60).json()["weight_version"]
    assert given.endswith(f"/{read_progress(checkpoint).updates}")


@pytest.fixture(scope="module")
def policy() -> Policy:
    model = load_config([]).model
    return load_policy(model, load_tokenizer(model))


@pytest.fixture
def engine(policy: Policy, address: str) -> Iterator[GlooServer]:
    config = served(address)
    made = load_engine(config.rollout, config.model, policy, policy.tokenizer)
    assert isinstance(made, GlooServer)
    yield made
    made.close()


@pytest.mark.timeout(1500)
def test_a_response_depends_on_its_number_and_its_log_probs_are_the_policys_own(
    engine: GlooServer, policy: Policy
) -> None:
    prompts = [policy.tokenizer.encode(question) for question in ("9137+4788=", "51+8=", "9+97=", "9137+4788=")]
    sampling = Sampling(12, temperature=1.5)
    together = engine.generate(prompts, 4, sampling, seed=3)
    alone = engine.generate(prompts[1::2], 4, sampling, seed=3, numbers=[1, 3])
    width = alone.tokens.shape[1]
    assert torch.equal(alone.tokens, together.tokens.view(4, 4, -1)[1::2].flatten(0, 1)[:, :width])
    assert not torch.equal(together.tokens[:4], together.tokens[12:]), "equal prompts are not equal problems"
    assert len(set(map(tuple, together.tokens[:4].tolist()))) > 1
    with torch.no_grad():
        stats = policy(together.responses(), 1.5)
    torch.testing.assert_close(together.logp, stats.logp, rtol=0, atol=1e-4)


@pytest.mark.timeout(1500)
def test_weights_that_another_run_gave_the_server_are_noticed(engine: GlooServer, address: str) -> None:
    requests.post(f"{address}/update_weight_version", json={"new_version": "another"}, timeout=60).raise_for_status()
    with pytest.raises(UserError, match=r"rollout\.server=.*another run gave it other weights.*resume=true"):
        engine.generate([[3]], 1, Sampling(2), seed=0)


@pytest.mark.timeout(1500)
def test_a_server_of_another_model_is_refused(address: str) -> None:
    with pytest.raises(UserError, match=r"it serves embedded:sums, not model\.name=embedded:knights; start it"):
        check_engine(served(address, "model.name=embedded:knights"))


@pytest.mark.slow
@pytest.mark.timeout(1500)
class TestServer(EngineLaws):
    """The server is held to the laws for engines."""

    engine_name = "tests.vllm.gloo_server:GlooServer"

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, policy: Policy, address: str) -> Iterator[GlooServer]:
        config = served(address)
        check_engine(config)
        made = load_engine(config.rollout, config.model, policy, policy.tokenizer)
        assert isinstance(made, GlooServer)
        yield made
        made.close()
