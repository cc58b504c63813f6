"""What is said of a vLLM server that cannot serve a run, by a stand-in for it; tests/vllm trains with a real one."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlzoo.config import load_config
from rlzoo.errors import UserError
from rlzoo.model.policy import load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout import check_engine
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.vllm_server import VllmServer

MODELS = {"data": [{"id": "embedded:sums", "max_model_len": 64}]}
START = "start it with `VLLM_SERVER_DEV_MODE=1 python -m vllm.entrypoints.openai.api_server"
TAKES = (500, {"error": "Invalid init_info for NCCLWeightTransferEngine"})


def sampled(logp: float) -> tuple[int, dict[str, Any]]:
    """An answer of one token."""
    return 200, {"choices": [{"token_ids": [0], "logprobs": {"token_logprobs": [logp]}, "finish_reason": "length"}]}


@contextmanager
def listening(answers: Mapping[str, tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """The address of something that answers so, and with 404 to all else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = answers.get(self.path, (404, {}))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, ["it refused"]),
        ({"/v1/models": (200, {"data": [{"id": "other", "max_model_len": 8}]})}, ["it serves other, not model.name="]),
        ({"/v1/models": (200, MODELS)}, ["not in dev mode"]),
        (
            {"/v1/models": (200, MODELS), "/init_weight_transfer_engine": (500, {"error": "not configured"})},
            ["takes no weights by nccl"],
        ),
        (
            {"/v1/models": (200, MODELS), "/init_weight_transfer_engine": TAKES, "/v1/completions": sampled(-2.7)},
            ["its log-probs are not those of what it samples from"],
        ),
    ],
)
def test_a_server_that_cannot_serve_the_run_is_named_with_the_command_that_starts_one_that_can(
    answers: dict[str, Any], says: list[str]
) -> None:
    with listening(answers) as address:
        config = load_config(["rollout.engine=vllm_server", f"rollout.server={address}"])
        with pytest.raises(UserError) as error:
            VllmServer.check_server(config.rollout, config.model)
    assert all(part in str(error.value) for part in [f"rollout.server={address}", START, *says])
    assert "\n" not in str(error.value)


def test_a_server_that_can_serve_it_is_accepted() -> None:
    good = {"/v1/models": (200, MODELS), "/init_weight_transfer_engine": TAKES, "/v1/completions": sampled(0.0)}
    with listening(good) as address:
        config = load_config(["rollout.engine=vllm_server", f"rollout.server={address}"])
        VllmServer.check_server(config.rollout, config.model)


def test_a_server_whose_rows_are_shorter_than_the_run_s_is_refused() -> None:
    with listening({"/v1/models": (200, MODELS)}) as address:
        words = [f"rollout.server={address}", "rollout.max_response_tokens=64"]
        config = load_config(["rollout.engine=vllm_server", *words])
        tokenizer = load_tokenizer(config.model)
        policy = load_policy(config.model, tokenizer)
        with pytest.raises(UserError, match=r"--max-model-len=64 would cut a row of \d+ tokens; start it") as error:
            VllmServer(policy, tokenizer, config.rollout, config.model)
    assert "--max-model-len" not in str(error.value).partition(START)[2]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], ["needs rollout.server=http://HOST:PORT", "--served-model-name embedded:sums", "--port 8000"]),
        (["rollout.server=localhost:80"], ["rollout.server=localhost:80 is no address"]),
        (["rollout.server=http://127.0.0.1:9"], ["no server answers there", START, "--port 9"]),
    ],
)
def test_an_address_where_no_server_can_be_is_refused(words: list[str], says: list[str]) -> None:
    config = load_config(["rollout.engine=vllm_server", *words])
    with pytest.raises(UserError) as error:
        VllmServer.check_server(config.rollout, config.model)
    assert all(part in str(error.value) for part in says)


def test_an_address_without_an_engine_that_asks_there_is_refused() -> None:
    with pytest.raises(UserError, match=r"rollout\.server=http://a:1 has no effect with rollout\.engine=transformers"):
        check_engine(load_config(["rollout.server=http://a:1"]))


def test_threads_together_hold_no_more_connections_than_rows_sampled_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, held, most = load_config(["rollout.rows_per_batch=2"]), [], []

    def answer(engine: VllmServer, method: str, path: str, content: Any = None) -> dict[str, Any]:
        if path == "weight_info":
            return {"weight_version": "1"}
        held.append(path)
        time.sleep(0.01)
        most.append(len(held))
        held.pop()
        return sampled(0.0)[1]

    monkeypatch.setattr("rlzoo.rollout.vllm_server._served", lambda _: {config.model.name: 128})
    monkeypatch.setattr(VllmServer, "_connected", lambda _: None)
    monkeypatch.setattr(VllmServer, "sync", lambda engine, *_: setattr(engine, "given", "1"))
    monkeypatch.setattr(VllmServer, "_call", answer)
    tokenizer = load_tokenizer(config.model)
    engine = VllmServer(load_policy(config.model, tokenizer), tokenizer, config.rollout, config.model)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(engine.generate, [[1], [2], [3]], 1, Sampling(8), 0) for _ in range(4)]
    assert all(len(one.result().tokens) == 3 for one in asked) and max(most) == 2


def test_weights_are_sent_once_the_device_has_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    engine = object.__new__(VllmServer)
    config = load_config([])
    engine.config, engine.model, engine.source = config.rollout, config.model, SimpleNamespace(policy=None)  # type: ignore[assignment]
    engine.transfer = SimpleNamespace(is_sender=True, send_weights=lambda: events.append("sent"))
    monkeypatch.setattr(VllmServer, "_call", lambda self, method, path, content=None: {"weight_version": "1"})
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: events.append(f"waited for {device}"))
    for device in ("cuda:1", "cpu"):
        policy: Any = SimpleNamespace(device=torch.device(device))
        engine.sync(policy, version=1)
    assert events == ["waited for cuda:1", "sent", "sent"]
