"""A server on this machine that stands in for the hub, for the tests of push and for benchmarks/fuzz."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Hub:
    """The calls of the hub's API that a commit makes, and what the commits hold."""

    created: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    metadata: list[str] = field(default_factory=list)
    token: str = "token"


class Stand(BaseHTTPRequestHandler):
    """Answers as the hub does."""

    hub: Hub

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self._answer({"error": "Invalid credentials"}, 401)
        if self.path == "/api/repos/create":
            made = json.loads(sent)
            self.hub.created.append(made)
            return self._answer({"url": f"{self._address()}/{made['organization']}/{made['name']}"})
        if self.path == "/api/validate-yaml":
            self.hub.metadata.append(json.loads(sent)["content"])
            return self._answer({"errors": [], "warnings": []})
        if self.path.endswith("/preupload/main"):
            named = [file["path"] for file in json.loads(sent)["files"]]
            modes = {name: "lfs" if name.endswith((".safetensors", ".png")) else "regular" for name in named}
            answered = [{"path": name, "uploadMode": mode, "shouldIgnore": False} for name, mode in modes.items()]
            return self._answer({"files": answered})
        if self.path.endswith("/info/lfs/objects/batch"):
            uploads = [self._upload(wanted) for wanted in json.loads(sent)["objects"]]
            return self._answer({"transfer": "basic", "objects": uploads})
        assert self.path.endswith("/commit/main"), self.path
        for line in map(json.loads, sent.decode().splitlines()):
            if line["key"] == "file":
                self.hub.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            if line["key"] == "lfsFile":
                self.hub.files[line["value"]["path"]] = self.hub.large[line["value"]["oid"]]
        return self._answer({"commitUrl": f"{self._address()}/someone/model/commit/1", "commitOid": "1" * 40})

    def do_PUT(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.large[hashlib.sha256(sent).hexdigest()] = sent
        self._answer({})

    def _upload(self, wanted: dict[str, Any]) -> dict[str, Any]:
        return {**wanted, "actions": {"upload": {"href": f"{self._address()}/upload/{wanted['oid']}"}}}

    def _address(self) -> str:
        return f"http://{self.headers['Host']}"

    def _answer(self, value: dict[str, Any], status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[dict[str, Any]]:
    """While it answers; yields the constants by which huggingface_hub finds it. `Stand.hub` keeps what it is given."""
    Stand.hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stand)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield {"ENDPOINT": address, "HF_HUB_DISABLE_XET": True, "HF_HUB_OFFLINE": False}
    finally:
        server.shutdown()
        server.server_close()
