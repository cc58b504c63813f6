"""The shapes in which trainers' data have their prompts are read as what they ask."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest
from hypothesis import given
from hypothesis import strategies as some

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks import Problem, load_task
from rlzoo.tasks.dataset import DatasetGrader, problem_to_grade
from rlzoo.tasks.rows import loaded_rows, parted, prompt_of
from rlzoo.tasks.text import asked, directed, instructed, question
from tests.model.families import FAMILIES, tokenizer_of

WORDS = some.text(min_size=1, max_size=9).filter(str.strip)
ASKS = {"role": "user", "content": "1+1?"}
BEGUN = {"role": "assistant", "content": "It is \\boxed{"}


def of_file(path: Path, *rows: dict[str, Any], **keys: Any) -> list[Problem]:
    """The problems of a file, as a run would have them."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = load_task(TaskConfig(str(path), **keys))
    return sorted([*task.train, *task.held_out], key=lambda problem: problem.id)


@given(parts=some.lists(WORDS, min_size=1, max_size=3), system=some.just("") | WORDS)
def test_parts_of_text_and_empty_system_messages_are_text(parts: list[str], system: str) -> None:
    written = [{"type": "text", "text": text, "image": None} for text in parts]
    rows = [{"role": "system", "content": system, "name": None}, {"role": "user", "content": written, "name": None}]
    assert prompt_of(rows) == [{"role": "system", "content": system}, {"role": "user", "content": "".join(parts)}]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "has no question"),
        ([], "has no question"),
        ([{"role": "user", "content": None}], "has no question"),
        ([{"role": "system", "content": "1"}, {"role": "user", "content": ""}], "has no question"),
        ([{"role": "assistant", "content": ""}], "has no question"),
        (" \n\t", "has no question"),
        ([{"role": "system", "content": "1"}, {"role": "user", "content": "  "}], "has no question"),
        ([{"content": "1"}], "has a message without a role"),
        (["1"], "neither text nor chat messages"),
        (5, "neither text nor chat messages"),
        *((str_of([ASKS]), "spells chat messages; save them as a list") for str_of in (json.dumps, repr)),
        ([{"role": "user", "content": [{"type": "image", "image": "1.png"}]}], "content is no text"),
        ([{"role": "user", "content": 5}], "content is no text"),
    ],
)
def test_what_is_no_prompt_is_said_in_words_that_fit(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prompt_of(value)


def test_a_reward_model_that_is_text_is_said_to_be_text(tmp_path: Path) -> None:
    row = {"prompt": "1+1?", "reward_model": json.dumps({"ground_truth": "2"})}
    with pytest.raises(UserError, match="row 1 has a reward_model that is text; save it as an object"):
        of_file(tmp_path / "data.jsonl", row)


def test_what_else_a_message_has_reaches_the_template() -> None:
    calls = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]
    messages = [ASKS, {"role": "assistant", "content": None, "tool_calls": calls}, {"role": "tool", "content": "2"}]
    assert prompt_of([*messages, ASKS]) == [
        ASKS,
        {"role": "assistant", "content": "", "tool_calls": calls},
        messages[2],
        ASKS,
    ]


@pytest.mark.parametrize("text", [r"So it is \boxed{2}.", "It is two.\n#### 2"])
def test_an_answer_behind_the_question_is_the_solution_and_no_prompt(text: str) -> None:
    solved = [ASKS, {"role": "assistant", "content": text}]
    assert parted(solved, "prompt") == ([ASKS], text)
    assert parted([ASKS, BEGUN], "prompt") == ([ASKS, BEGUN], None)
    assert parted([ASKS, BEGUN], "messages") == ([ASKS], BEGUN["content"])
    assert parted([ASKS], "messages") == ([ASKS], None)


def test_a_conversation_by_itself_has_its_answer_in_its_last_message(tmp_path: Path) -> None:
    rows = [
        [{"role": "user", "content": f"{n}+1?"}, {"role": "assistant", "content": f"\\boxed{{{n + 1}}}"}]
        for n in range(8)
    ]
    problems = of_file(tmp_path / "sft.jsonl", *({"messages": row} for row in rows))
    assert [(problem.prompt, problem.answer) for problem in problems] == [
        (row[:1], str(n + 1)) for n, row in enumerate(rows)
    ]
    named = of_file(
        tmp_path / "named.jsonl",
        *({"messages": row, "solution": "5"} for row in rows),
        columns=TaskConfig().columns.__class__("messages", "solution"),
    )
    assert [problem.prompt for problem in named] == [row[:1] for row in rows] and {it.answer for it in named} == {"5"}


def test_a_prompt_that_the_model_has_begun_is_gone_on_with_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [{"prompt": [{"role": "user", "content": f"{n}+1?"}, BEGUN], "answer": n + 1} for n in range(8)]
    with caplog.at_level(logging.WARNING):
        problems = of_file(tmp_path / "begun.jsonl", *rows, system_prompt="Be brief.", instruction=" Box it.")
    assert "8 of 8 prompts end with words of the model's, which it goes on with" in caplog.text
    assert [problem.prompt for problem in problems] == [
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"{n}+1? Box it."}, BEGUN]
        for n in range(8)
    ]
    assert question(problems[3].prompt) == asked(problems[3].prompt) == "3+1? Box it."  # type: ignore[arg-type]


def test_a_response_that_closes_a_box_which_its_prompt_has_opened_is_right() -> None:
    tokenizer = tokenizer_of(FAMILIES["thinking"])
    environment: Any = Sampler(None, None, tokenizer)  # type: ignore[arg-type]
    for prompt, begun in (([ASKS, BEGUN], BEGUN["content"]), ([ASKS], "<think>\n")):
        problem = replace(problem_to_grade("2", prompt=prompt), id="1")
        known = environment._with_what_is_begun(problem, tokenizer.encode(prompt))
        assert known.data["begun"] == begun
        assert [DatasetGrader()(known, text).correct for text in ("2}.", "3}.", "")] == [begun[:2] == "It", 0, 0]


def test_a_tokenizer_says_which_prompts_are_rendered(tmp_path: Path) -> None:
    text = "[BOT]1+1?[/BOT]"
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(json.dumps({"question": f"{text}{n}", "answer": n}) + "\n" for n in range(4)))
    (theirs, *_) = load_task(TaskConfig(str(path)), is_rendered=lambda text: text.startswith("[BOT]")).train
    (ours, *_) = load_task(TaskConfig(str(path))).train
    assert isinstance(theirs.prompt, str) and theirs.prompt.startswith(text) and not isinstance(ours.prompt, str)
    for change in (directed, instructed):
        with pytest.raises(Exception, match="rendered with a chat template already"):
            change(theirs.prompt, "Be brief.")


@pytest.mark.parametrize("name", ["images", "image", "videos", "video"])
@pytest.mark.parametrize("takes_rows", [False, True])
def test_a_row_with_an_image_in_its_prompt_is_refused_as_a_message_with_one_is(
    name: str, takes_rows: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "reward.py").write_text("def reward(response):\n    return 0\n")
    keys = {"reward": [f"{tmp_path}/reward.py:reward"]} if takes_rows else {}
    marked = f"<{name.removesuffix('s')}>Find x."
    rows = [
        {"question": marked, "answer": "1", name: [{"path": "a.png"}]},
        {"question": [{"role": "user", "content": marked}], "answer": "2", name: "a.png"},
        *({"question": marked, "answer": str(n), name: value} for n, value in enumerate(([], None, "", [None]), 3)),
        {"question": "Find y.", "answer": "7", name: [{"bytes": "x", "path": None}]},
        {"question": "What does <image> say in HTML?", "answer": "8"},
    ]
    kept = of_file(tmp_path / "data.jsonl", *rows, **keys)
    assert {problem.answer for problem in kept} == {"3", "4", "5", "6", "7", "8"}
    assert "2 of 8 rows are dropped: row 1 has a message whose content is no text ..." in caplog.text


def test_images_of_the_hub_are_not_decoded() -> None:
    features = datasets.Features({"question": datasets.Value("string"), "image": datasets.Image()})
    columns = {"question": ["1?", "2?"], "image": [{"bytes": b"no picture", "path": None}, None]}
    rows = loaded_rows(datasets.Dataset.from_dict(columns, features=features))
    assert list(rows.read(["question", "image"])) == [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ]


def test_tools_of_rows_are_told_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tools: list[Any] = [[{"type": "function"}], '[{"type": "function"}]', [], "[]", None]
    rows = [{"question": f"{n}?", "answer": "1", "tools": value} for n, value in enumerate(tools)]
    assert len(of_file(tmp_path / "data.jsonl", *rows)) == 5
    assert caplog.text.count("2 rows have tools in the column tools, which is not read") == 1
    assert caplog.text.count("in the column tools") == 1
