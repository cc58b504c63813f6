"""An episode of an environment of `verifiers`: the package's own rollout, whose client is the policy.

The package's loop asks a client for each turn. Here the client hands the question to rlzoo, which samples the turn as
tokens, and waits for its text. So the environment's hooks, stop conditions, clean-up and rubric run as they do in the
package.
"""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import verifiers
from verifiers.types import Response, ResponseMessage, ToolCall

from rlzoo.errors import one_line
from rlzoo.tasks.environments import Answer, Turn
from rlzoo.tasks.tools import CALLS, Call, calls_in, read_call, shortened


class PolicyClient(verifiers.OpenAIChatCompletionsClient):
    """What the package asks for turns. It asks no server: `asked` has the messages, `turns` takes the responses."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked: asyncio.Queue[Sequence[Any]] = asyncio.Queue()
        self.turns: asyncio.Queue[Response | None] = asyncio.Queue()

    async def get_response(self, prompt: Sequence[Any], *_: Any, **__: Any) -> Response:
        """The turn that follows the messages. Raises OverlongPromptError, which ends a rollout, if there is none."""
        await self.asked.put(prompt)
        response = await self.turns.get()
        if response is None:
            raise verifiers.OverlongPromptError("the episode has no further turn")
        return response


class VerifiersEpisode:
    """One rollout of an environment, in the form of `task.environment` with `step` in place of tools."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment
        self.tools = [tool.name for tool in environment.tool_defs or ()]
        self.client = PolicyClient()
        self.read: list[Call | Answer] = []
        self.failures: list[str] = []
        """What the tools of this turn raised, as the environment words it."""
        if worded := getattr(environment, "error_formatter", None):
            environment.error_formatter = lambda error: self._noted(worded(error))

    async def reset(self, **columns: Any) -> str:
        """Begins the rollout of a row. Gives what the environment has added to its last message."""
        if isinstance(info := columns.get("info"), Mapping) and info.get("tool_defs"):
            raise ValueError("info.tool_defs: tools that only one row has cannot be shown to the model")
        rollout = self.environment.run_rollout(columns, self.client, "policy", {})
        self.rollout = asyncio.ensure_future(rollout)
        self.messages = await self._next()
        given, first = columns["prompt"], [_fields(message) for message in self.messages]
        told = [(message["role"], message["content"]) for message in given]
        shown = first[-1][1].removeprefix(told[-1][1]) if first else ""
        if first[:-1] != told[:-1] or not first or first[-1] != (told[-1][0], told[-1][1] + shown):
            raise ValueError("its first messages are not those of its dataset, with text added to the last one at most")
        return shown

    async def step(self, turn: Turn) -> list[Answer]:
        """Gives the messages of the environment after a turn; none once it has ended.

        A turn all of whose calls are malformed does not reach the environment, which could not read them either.
        """
        calls = [] if turn.is_truncated or not self.tools else calls_in(turn.text)
        self.read, self.failures = [read_call(call, self.tools) for call in calls], []
        if calls and not any(isinstance(call, Call) for call in self.read):
            return [call for call in self.read if isinstance(call, Answer)]
        await self.client.turns.put(_response(turn, self.read))
        before, self.messages = self.messages, await self._next()
        if not self.messages:
            return []
        if [*map(_fields, self.messages[: len(before)])] != [*map(_fields, before)]:
            raise ValueError("it changes messages that were said before, and tokens that were sampled stay as they are")
        return self._answers(self.messages[len(before) + 1 :])

    async def get_reward(self) -> float:
        """Ends the rollout. Raises RuntimeError for an error of the environment."""
        while not self.rollout.done():
            await self.client.turns.put(None)
            await self._next()
        output = self.rollout.result()
        if output.get("error"):
            raise RuntimeError(one_line(repr(output["error"])))
        reward: float = output["reward"]
        return reward

    async def _next(self) -> Sequence[Any]:
        """The messages that are to be answered; none once the rollout has ended. Raises what the environment raises."""
        asked = asyncio.ensure_future(self.client.asked.get())
        await asyncio.wait({asked, self.rollout}, return_when=asyncio.FIRST_COMPLETED)
        if asked.done():
            return asked.result()
        asked.cancel()
        self.rollout.result()
        return []

    def _answers(self, messages: Sequence[Any]) -> list[Answer]:
        """The new messages, with what was wrong with malformed calls at the place of these calls."""
        by_call = {message.tool_call_id: message for message in messages if message.role == "tool"}
        malformed = {f"call_{place}": call for place, call in enumerate(self.read) if isinstance(call, Answer)}
        answers = {name: self._answer(message) for name, message in by_call.items()} | malformed
        in_order = sorted(answers, key=lambda name: int(name.removeprefix("call_")))
        return [answers[name] for name in in_order] + [
            self._answer(message) for message in messages if message.role != "tool"
        ]

    def _answer(self, message: Any) -> Answer:
        role, text = _fields(message)
        if role not in ("tool", "user"):
            raise ValueError(f"the environment answers as {role}; chat templates take tool and user behind a turn")
        return Answer(shortened(text), is_error=role == "tool" and text in self.failures, role=role)

    def _noted(self, text: str) -> str:
        self.failures.append(text)
        return text


def _response(turn: Turn, calls: Sequence[Call | Answer]) -> Response:
    """A turn as a server's answer: text, and the calls that could be read."""
    asked = [
        ToolCall(id=f"call_{place}", name=call.name, arguments=json.dumps(call.arguments))
        for place, call in enumerate(calls)
        if isinstance(call, Call)
    ]
    message = ResponseMessage(
        content=turn.text.partition(CALLS)[0] if asked else turn.text,
        tool_calls=asked or None,
        finish_reason="length" if turn.is_truncated else "tool_calls" if asked else "stop",
        is_truncated=turn.is_truncated,
    )
    return Response(id="turn", created=int(time.time()), model="policy", message=message)


def _fields(message: Any) -> tuple[str, str]:
    """The role and the text of a message. Raises ValueError for pictures and sound."""
    content = message.content or ""
    if isinstance(content, str):
        return message.role, content
    texts = [part["text"] if isinstance(part, Mapping) else getattr(part, "text", None) for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a message has a part that is no text, which no policy here can read")
    return message.role, "".join(map(str, texts))
