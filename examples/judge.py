"""A reward that asks a judge: any model behind an OpenAI-compatible endpoint, a vLLM server for example.

    vllm serve Qwen/Qwen3-8B
    export JUDGE_URL=http://localhost:8000/v1 JUDGE_MODEL=Qwen/Qwen3-8B    # and JUDGE_KEY where it asks for one
    rlzoo train task.name=my.jsonl task.reward=examples/judge.py:reward task.grader_workers=16 task.grader_timeout=60

Each of the processes that grade asks one question at a time. An answer that says no number is an error.

Scores that are those of rules or a judge, as JustRL publishes them (CompassVerifier-3B, arXiv:2508.03686), are made of
the responses that an evaluation has kept; the judge is asked only about what the rules refuse, and can only raise them:

    vllm serve opencompass/CompassVerifier-3B
    rlzoo grade regrade=true reward=examples/judge.py:rules_or_judge workers=16 timeout=60 runs/math/evaluation/*.jsonl

JustRL's own grader gives its verifier an empty question; here it is given the question.
"""

import json
import os
import re
from urllib.request import Request, urlopen

import rlzoo

QUESTION = """Question: {question}
Gold answer: {gold}
Response: {response}

How good is the response, from 0 (wrong) to 10 (right)? Answer with the number alone."""

VERDICT = """You compare a student's final answer with the standard answer of a question. The standard answer is right.
Judge the final answer alone, not the reasoning; the same value written in another way is the same answer.

Question:
{question}

Standard answer:
{gold}

The student wrote:
{response}

Reply with one letter: A if the final answer agrees with the standard answer, B if it does not, C if there is none."""


def reward(response: str, question: str, gold: str) -> float:
    """The judge's mark, from 0 to 1; an empty response earns 0 without a question."""
    if not response.strip():
        return 0.0
    said = ask(QUESTION.format(question=question, gold=gold, response=response))
    numbers = re.findall(r"\d+(?:\.\d+)?", said)
    if not numbers:
        raise ValueError(f"the judge said no number: {said}")
    return min(float(numbers[-1]), 10.0) / 10


def rules_or_judge(response: str, question: str, gold: str) -> float:
    """1 if the rules accept the response, or else the judge; an empty one is 0 without a question."""
    if not response.strip() or rlzoo.grade(gold, response, prompt=question).correct == 1:
        return float(bool(response.strip()))
    letter = re.match(r"\W*([ABC])\b(?!\s+\w)", ask(VERDICT.format(question=question, gold=gold, response=response)))
    return float(letter is not None and letter[1] == "A")


def ask(text: str) -> str:
    """What the judge says, sampled greedily."""
    body = {
        "model": os.environ["JUDGE_MODEL"],
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
    }
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('JUDGE_KEY', 'none')}"}
    request = Request(os.environ["JUDGE_URL"].rstrip("/") + "/chat/completions", json.dumps(body).encode(), headers)
    with urlopen(request) as answer:
        said: str = json.load(answer)["choices"][0]["message"]["content"]
    return said
