"""A tool that runs Python for the model, in the container of a sandbox server and never in a process of ours.

    docker run --rm -p 127.0.0.1:8080:8080 volcengine/sandbox-fusion:server-20250609
    python examples/code_sandbox.py "print(6 * 7)"              # 42, once the server is there
    rlzoo train configs/stare_tools_qwen2.5_7b.yaml

The server is ByteDance's SandboxFusion. Its container is all that holds a program: it may reach whatever network the
container reaches, and programs that run at once see each other. Another address is SANDBOX_URL=http://HOST:PORT.
"""

import json
import os
import sys
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

RUN_SECONDS, MEMORY_MB = 30, 1024
"""What a program may take: hp-luo/STARE@bffb9e7, examples/sglang_multiturn/config/tool_config/
sandbox_fusion_tool_config.yaml:8-10."""
WAIT_SECONDS = 60
"""How long the server may say nothing. task.tool_timeout lies between: a program that takes too long costs its own call
alone, and a server that hangs makes the further calls of a step shorter, as every tool does."""
LONGEST_BODY = 16 * 2**20
"""Bytes that are read of what the server says; it keeps a mebibyte of each stream."""
LONGEST_OUTPUT = 256
"""Characters that the model reads of a program's output: verl/trainer/config/rollout/rollout.yaml:169 there."""


class Straight(HTTPRedirectHandler):
    """Follows no redirect: a program may have taken the server's place, and would send us anywhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


def code_interpreter(code: str) -> str:
    """A tool for executing code.

    Args:
        code: The code to execute.
    """
    url = os.environ.get("SANDBOX_URL", "http://localhost:8080").rstrip("/") + "/run_code"
    limits = {"run_timeout": RUN_SECONDS, "memory_limit_MB": MEMORY_MB}
    return shortened(output_of(answer_of(url, {"code": code, "language": "python", **limits}), url))


def answer_of(url: str, asked: dict[str, Any]) -> bytes:
    """What the server says. Raises ConnectionError where it says nothing, or an error."""
    try:
        request = Request(url, json.dumps(asked).encode(), {"Content-Type": "application/json"})
        with build_opener(Straight).open(request, timeout=WAIT_SECONDS) as answer:
            body: bytes = answer.read(LONGEST_BODY + 1)
    except (OSError, HTTPException, ValueError) as error:
        reason = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
        raise ConnectionError(f"the sandbox at {url} fails: {reason}") from None
    if len(body) > LONGEST_BODY:
        raise ConnectionError(f"the sandbox at {url} fails: it says more than {LONGEST_BODY:,} bytes")
    return body


def output_of(body: bytes, url: str) -> str:
    """What the program wrote, errors last. Raises TimeoutError if it took too long, RuntimeError if it did not run."""
    try:
        answer = json.loads(body)
        ran = answer["run_result"] or {"status": answer["status"], "stdout": "", "stderr": answer["message"]}
        status, output = ran["status"], (ran["stdout"] or "") + (ran["stderr"] or "")
    except (ValueError, TypeError, KeyError):
        raise RuntimeError(f"{url} is no SandboxFusion: it says {body[:100]!r}") from None
    if status == "TimeLimitExceeded":
        raise TimeoutError(f"the program took more than {RUN_SECONDS} seconds")
    if status != "Finished":
        raise RuntimeError(f"the sandbox did not run the program: {shortened(output)}")
    return output


def shortened(text: str) -> str:
    """Its beginning and its end, as verl shortens what tools say (tool_agent_loop.py:445-446 there)."""
    half = LONGEST_OUTPUT // 2
    return text if len(text) <= LONGEST_OUTPUT else f"{text[:half]}...(truncated)...{text[-half:]}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit('usage: python examples/code_sandbox.py "print(6 * 7)"')
    try:
        print(code_interpreter(sys.argv[1]), end="")
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
