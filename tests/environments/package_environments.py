"""Environments as users of `verifiers` write them, with `load_environment`; and servers of OpenEnv."""

VERIFIERS = '''
import random

import verifiers as vf
from datasets import Dataset

ROWS = [{"question": f"What is {n}+3?", "answer": str(n + 3)} for n in range(24)]

def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: a number.
        b: another one.
    """
    return a + b

def fail() -> str:
    """Fails."""
    raise ValueError("no such luck")

async def said_five(completion) -> float:
    return float(sum(message.role == "tool" and message.content == "5" for message in completion))

async def turns(state) -> float:
    return float(len(state["trajectory"]))

class Guessing(vf.MultiTurnEnv):
    """Says hot or cold to each turn, until it has heard three."""

    async def setup_state(self, state, **kwargs):
        state["heard"], state["secret"] = [], random.randrange(10**9)
        return state

    @vf.stop
    async def heard_enough(self, state, **kwargs) -> bool:
        return len(state["heard"]) == 3

    async def env_response(self, messages, state, **kwargs):
        state["heard"].append(messages[-1].content)
        return [{"role": "user", "content": f"cold {len(state['heard'])} {state['secret']}"}]

class Failing(Guessing):
    async def env_response(self, messages, state, **kwargs):
        raise vf.ToolError("not today")

class Rewriting(Guessing):
    async def get_prompt_messages(self, state):
        if not state["trajectory"]:
            return state["prompt"]
        return [*state["prompt"][:-1], {"role": "user", "content": f"Anew {len(state['trajectory'])}"}]

async def heard(state) -> float:
    return sum(map(len, state["heard"])) / 100

def load_environment(kind: str = "tools", has_eval: bool = False):
    rows = Dataset.from_list(ROWS)
    held_out = {"eval_dataset": Dataset.from_list(ROWS[:2])} if has_eval else {}
    if kind == "tools":
        rubric = vf.Rubric(funcs=[said_five, turns], weights=[1.0, 0.25])
        return vf.ToolEnv(dataset=rows, tools=[add, fail], rubric=rubric, max_turns=4, system_prompt="Add.", **held_out)
    kinds = {"turns": Guessing, "failing": Failing, "rewriting": Rewriting}
    return kinds[kind](dataset=rows, rubric=vf.Rubric(funcs=[heard]), **held_out)

def load_group_scored():
    async def best(completions) -> list[float]:
        return [0.0] * len(completions)
    return vf.SingleTurnEnv(dataset=Dataset.from_list(ROWS), rubric=vf.Rubric(funcs=[best]))

def load_nothing():
    return None
'''

OPENENV = '''
import os
import sys
import time

import uvicorn
from fastapi import Response
from fastmcp import FastMCP
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation

class Add(Action):
    """Adds two numbers."""
    a: int
    b: int

class Sum(Observation):
    sum: int = 0
    secret: int = 0

class Adding(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self.count, self._state = 0, State()

    def reset(self, seed=None, kind=None, **kwargs):
        self.count, self.secret = 0, seed or 0
        return Sum(secret=self.secret)

    def step(self, action):
        if action.a == 500:
            raise RuntimeError("five hundred")
        if action.a == 99:
            time.sleep(30)
        if action.a == 666:
            os._exit(1)
        self.count += 1
        return Sum(sum=action.a + action.b, secret=self.secret, reward=0.25, done=self.count == 3)

    @property
    def state(self):
        return self._state

    def close(self):
        with open("closed", "a") as closed:
            closed.write("1")

class Listing(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("adding")

        @mcp.tool
        def add(a: int, b: int) -> int:
            """Adds two numbers."""
            if a == 500:
                raise RuntimeError("five hundred")
            return a + b

        super().__init__(mcp)
        self._state = State()

    def reset(self, seed=None, **kwargs):
        return Observation()

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation()

    @property
    def state(self):
        return self._state

kind, port = sys.argv[1], int(sys.argv[2])
if kind == "adding":
    app = create_fastapi_app(Adding, Add, Sum, max_concurrent_envs=64)
else:
    app = create_fastapi_app(Listing, CallToolAction, CallToolObservation, max_concurrent_envs=64)
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
'''
