"""Data in the columns of other trainers: the model reads what their prompts say, and each gold answer is right."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlzoo.config.sections import ColumnsConfig, TaskConfig
from rlzoo.tasks import Problem, load_task
from rlzoo.tasks.dataset import DatasetGrader
from tests.model.families import FAMILIES, tokenizer_of

TOKENIZER = tokenizer_of(FAMILIES["chatml"])
ROLES = "Zoey is a knight, and Owen is a knave."
GOLDS = (
    "7",
    "3/4",
    "10:30",
    "2\\sqrt{3}",
    "\\frac12",
    "(A)",
    "12 cm^2",
    "-5",
    "x=4",
    "\\{1, 2\\}",
    "1,234",
    "90^\\circ",
)
HASHES = ' Let\'s think step by step and output the final answer after "####".'
LAST_LINE = (
    "Solve the problem. The last line of your response should be of the form Answer: $Answer (without quotes).\n\n"
)
TAGS = " The answer goes into <answer> </answer> tags."

Row = dict[str, Any]


def asked(text: str, *before: tuple[str, str]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in (*before, ("user", text))]


def rendered(text: str) -> str:
    return str(TOKENIZER.backend.apply_chat_template(asked(text), tokenize=False, add_generation_prompt=True))


def of_verl(source: str, prompt: Any, gold: Any) -> Row:
    extra = {"split": "train", "index": 1}
    model = {"style": "rule", "ground_truth": gold}
    return {"data_source": source, "prompt": prompt, "ability": "math", "reward_model": model, "extra_info": extra}


def a_row(trainer: str, ask: str, gold: str) -> tuple[Row, Any, str]:
    """A row, what its model is to read, and a response that gives the gold answer as the prompt asks."""
    solution, boxed = f"We see that it is $\\boxed{{{gold}}}$.", f"So it is \\boxed{{{gold}}}."
    system = ("system", "Please reason step by step, and put your final answer within \\boxed{}.")
    if trainer == "trl":
        return {"prompt": asked(ask), "solution": solution}, asked(ask), boxed
    if trainer == "trl, standard":
        return {"prompt": ask, "answer": gold}, asked(ask), boxed
    if trainer == "verl, gsm8k":
        prompt = asked(ask + HASHES)
        return of_verl("openai/gsm8k", prompt, gold), prompt, f"So it is\n#### {gold}"
    if trainer == "verl, dapo":
        prompt = asked(LAST_LINE + ask)
        return of_verl("math_dapo", prompt, gold), prompt, f"So it is.\nAnswer: {gold}"
    if trainer == "logic-rl":
        text = rendered(ask + TAGS)
        truth = {"solution_text_format": ROLES, "statements": "(('telling-truth', 1),)"}
        prompt = asked(text)
        return of_verl("kk_logic", prompt, truth), text, f"<think>1</think><answer>{ROLES}</answer>"
    if trainer == "openrlhf":
        return {"input": asked(ask), "label": gold}, asked(ask), boxed
    if trainer == "open-r1":
        row = {"problem": ask, "solution": solution, "answer": gold, "messages": asked(ask)}
        return row, asked(ask), boxed
    if trainer == "prime-rl":
        return {"question": ask, "answer": gold, "info": '{"level": 1}', "task": "math"}, asked(ask), boxed
    return {"prompt": asked(ask, system), "answer": gold, "task": "math"}, asked(ask, system), boxed  # verifiers


TRAINERS = (
    "trl",
    "trl, standard",
    "verl, gsm8k",
    "verl, dapo",
    "logic-rl",
    "openrlhf",
    "open-r1",
    "prime-rl",
    "verifiers",
)
IN_CSV = ("trl, standard", "prime-rl")
"""Whose rows are texts alone; a cell of CSV holds no messages."""


def written(rows: list[Row], path: Path) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, rows[0])
            table.writeheader()
            table.writerows(rows)
    return str(path)


def read(name: str, trainer: str) -> list[Problem]:
    columns = ColumnsConfig("input", "label") if trainer == "openrlhf" else ColumnsConfig()
    task = load_task(TaskConfig(name, columns=columns))
    return sorted([*task.train, *task.held_out], key=lambda problem: int(problem.id.rpartition("/")[2]))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_prompts_are_the_trainers_and_golds_are_right_against_themselves(
    trainer: str, kind: str, tmp_path: Path
) -> None:
    if kind == "csv" and trainer not in IN_CSV:
        trainer = IN_CSV[len(trainer) % 2]
    rows = [a_row(trainer, f"What is it in case {number}?", gold) for number, gold in enumerate(GOLDS)]
    problems = read(written([row for row, *_ in rows], tmp_path / f"rows.{kind}"), trainer)
    assert [problem.prompt for problem in problems] == [prompt for _, prompt, _ in rows]
    backend = TOKENIZER.backend
    for problem, (_, prompt, response) in zip(problems, rows, strict=True):
        fed = (
            backend(prompt)["input_ids"]
            if isinstance(prompt, str)
            else backend.apply_chat_template(prompt, add_generation_prompt=True, return_dict=False)
        )
        assert TOKENIZER.encode(problem.prompt) == fed
        assert DatasetGrader()(problem, response).correct == 1, (problem.answer, response)
        assert DatasetGrader()(problem, response.replace(problem.answer, "9999")).correct == 0
