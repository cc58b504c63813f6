"""A server on this machine that speaks as an OpenAI-compatible endpoint does, for `examples/judge.py`."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

JUDGE = Path(__file__).parents[1] / "examples" / "judge.py"


@contextmanager
def judging(reply: Callable[[str], str]) -> Iterator[list[dict[str, Any]]]:
    """While it answers what it is asked with `reply`, and the variables lead there; yields the bodies it was sent."""
    sent: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            message = {"role": "assistant", "content": reply(sent[-1]["messages"][0]["content"])}
            body = json.dumps({"choices": [{"message": message}]}).encode()
            self.send_response(200 if self.path == "/v1/chat/completions" else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, pytest.MonkeyPatch.context() as patch:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        patch.setenv("JUDGE_URL", f"http://127.0.0.1:{server.server_port}/v1")
        patch.setenv("JUDGE_MODEL", "judge")
        yield sent
        server.shutdown()
