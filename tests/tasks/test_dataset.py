import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import Problem, Task, dataset, load_task
from rlzoo.tasks.dataset import gold_of

KK_PROMPT = "<|im_start|>user\nWho is who?<|im_end|>\n<|im_start|>assistant\n<think>"


def verl(question: str, gold: Any, data_source: str = "math") -> dict[str, Any]:
    return {
        "prompt": [{"role": "system", "content": "Think."}, {"role": "user", "content": question}],
        "data_source": data_source,
        "ability": "math",
        "reward_model": {"ground_truth": gold, "style": "rule"},
        "extra_info": {"index": 0},
    }


def parquet(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return str(path)


def jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def task(name: str, **keys: Any) -> Task:
    return load_task(TaskConfig(name=name, **keys))


def questions(problems: Sequence[Problem]) -> list[str]:
    return [
        problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"] for problem in problems
    ]


def test_a_folder_in_verls_schema_gives_its_two_splits(tmp_path: Path) -> None:
    parquet(tmp_path / "math" / "train.parquet", [verl("1+1?", "2"), verl("1+2?", "3")])
    parquet(tmp_path / "math" / "test.parquet", [verl("2+2?", r"\boxed{4}")])
    loaded = task(str(tmp_path / "math"), instruction="Box it.")
    assert questions(loaded.train) == ["1+1?\n\nBox it.", "1+2?\n\nBox it."]
    (problem,) = loaded.held_out
    assert problem.answer == "4"
    assert [message["role"] for message in problem.prompt if not isinstance(message, str)] == ["system", "user"]
    assert loaded.grader(problem, r"\boxed{4}").reward == 1.0
    assert loaded.grader(problem, "4").reward == 0.0


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2+2?", "answer": "4"},
        {"Problem": "2+2?", "Solution": r"It is \boxed{5}, no: \boxed{4}.", "Answer": "4"},
        {"problem": "2+2?", "solution": r"It is \boxed{5}, no: \boxed{4}."},
        {"question": "2+2?", "answer": "2 and 2 is <<2+2=4>>4\n#### 4"},
        {"question": "2+2?", "final_answer": ["4"]},
        {"prompt": "2+2?", "answer": 4},
    ],
)
def test_plain_columns_are_found_by_their_usual_names(row: dict[str, Any], tmp_path: Path) -> None:
    (problem,) = task(jsonl(tmp_path / "data.jsonl", [row])).held_out
    assert problem.prompt == [{"role": "user", "content": "2+2?"}]
    assert problem.answer == "4"


def test_a_file_can_be_cut_into_splits(tmp_path: Path) -> None:
    name = jsonl(tmp_path / "data.jsonl", [{"question": f"{n}?", "answer": n} for n in range(10)])
    loaded = task(name, split="train[:80%]", held_out_split="train[80%:]")
    assert questions(loaded.train) == [f"{n}?" for n in range(8)]
    assert questions(loaded.held_out) == ["8?", "9?"]


def test_json_holds_a_list(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps([{"question": "2+2?", "answer": "4"}]))
    assert questions(task(str(tmp_path / "data.json")).held_out) == ["2+2?"]


def test_held_out_questions_are_not_trained_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = jsonl(tmp_path / "train.jsonl", [{"question": f"{n}?", "answer": n} for n in range(5)])
    held_out = jsonl(tmp_path / "test.jsonl", [{"question": "3?", "answer": 3}, {"question": "9?", "answer": 9}])
    with caplog.at_level(logging.WARNING):
        loaded = task(name, held_out=held_out)
        assert questions(loaded.train) == ["0?", "1?", "2?", "4?"]
    assert "1 of 5 problems are held out" in caplog.text


def test_a_repeated_question_keeps_its_weight_in_training_and_counts_once_in_evaluation(tmp_path: Path) -> None:
    rows = [{"question": "1?", "answer": 1}, {"question": "2?", "answer": 2}, {"question": "1?", "answer": 1}]
    name = jsonl(tmp_path / "train.jsonl", rows)
    held_out = jsonl(tmp_path / "test.jsonl", [{"question": "3?", "answer": 3}] * 2)
    loaded = task(name, held_out=held_out)
    assert questions(loaded.train) == ["1?", "2?", "1?"]
    assert loaded.train[0] is loaded.train[2]
    assert questions(loaded.held_out) == ["3?"]


def test_rows_without_question_or_answer_are_dropped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [verl("1?", "1"), verl("2?", ""), verl("", "3"), verl("4?", None), verl("5?", "We see. " * 200)]
    with caplog.at_level(logging.WARNING):
        assert questions(task(parquet(tmp_path / "data.parquet", rows)).held_out) == ["1?"]
    assert "4 of 5 rows are dropped: row 2 has no answer" in caplog.text
    with pytest.raises(UserError, match=r"row 1 has a text of more than 1000 characters for an answer; box"):
        _ = task(parquet(tmp_path / "prose.parquet", rows[-1:])).held_out


def test_knights_and_knaves_prompts_are_rendered_already_and_graded_by_their_own_rules(tmp_path: Path) -> None:
    gold = {"solution_text_format": "(1) Zoey is a knight", "statements": "..."}
    row = verl("", gold, "kk_logic3") | {"prompt": [{"role": "user", "content": KK_PROMPT}]}
    name = parquet(tmp_path / "kk.parquet", [row])
    loaded = task(name)
    assert loaded.held_out[0].prompt == KK_PROMPT
    assert loaded.grader(loaded.held_out[0], "so</think><answer>(1) Zoey is a knight</answer>").reward == 3.0
    with pytest.raises(UserError, match=r"task\.wrong_reward=-1\.0 has no effect"):
        _ = task(name, wrong_reward=-1.0).held_out
    with pytest.raises(UserError, match=r"task\.instruction='Box it\.' cannot be appended"):
        _ = task(name, instruction="Box it.").held_out


def test_gsm8k_in_verls_schema_may_answer_behind_hashes(tmp_path: Path) -> None:
    loaded = task(parquet(tmp_path / "gsm8k.parquet", [verl("?", "1000", "openai/gsm8k")]), wrong_reward=-1.0)
    responses = ["so\n#### 1,000", "#### $1000", r"\boxed{1000}", "1000", "#### 10", r"#### 1000 \boxed{10}"]
    assert [loaded.grader(loaded.held_out[0], r).reward for r in responses] == [1.0, 1.0, 1.0, -1.0, -1.0, -1.0]
    other = task(parquet(tmp_path / "other.parquet", [verl("?", "1000")]))
    assert other.grader(other.held_out[0], "#### 1000").reward == 0.0


@pytest.mark.parametrize(
    "value", [None, "", " ", [], ["1", ""], {"tests": "..."}, r"\boxed{1", "so\n####", float("nan"), b"\xff"]
)
def test_a_gold_answer_that_is_none_is_not_made_up(value: Any) -> None:
    with pytest.raises(ValueError, match=r"answer|no text"):
        gold_of(value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "1?", "answer": 1}\n', r"has the columns text, answer; it needs prompt and reward_model"),
        ('{"question": "1?", "text": 1}\n', r"has the columns question, text; it needs"),
        ('{"question": "1?", "answer": ""}\n', r"has no usable row: row 1 has no answer"),
        ('{"question": "1?", \n', r"cannot be read or is empty: JSON parse error"),
        ("", r"task\.name=.*data\.jsonl .* is empty"),
    ],
)
def test_a_file_that_does_not_serve_is_one_clear_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(content)
    with pytest.raises(UserError, match=message) as caught:
        _ = task(str(path)).train
    assert "\n" not in str(caught.value)


def test_an_empty_table_and_an_empty_folder_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"question": pa.array([], pa.string()), "answer": pa.array([], pa.string())}), path)
    with pytest.raises(UserError, match=r"task\.name=.*empty\.parquet \(task\.split=train\) .*is empty"):
        _ = task(str(path)).train
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"task\.name=.*folder .*is empty: .* any data files"):
        _ = task(str(tmp_path / "folder")).train


def test_a_split_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path: Path) -> None:
    for name in ("train", "validation"):
        parquet(tmp_path / "math" / f"{name}.parquet", [verl("1+1?", "2")])
    with pytest.raises(UserError, match=r"task\.held_out_split=test\) cannot be read or is empty: .*'train'"):
        _ = task(str(tmp_path / "math")).held_out


def test_training_on_the_held_out_problems_alone_is_an_error(tmp_path: Path) -> None:
    name = jsonl(tmp_path / "data.jsonl", [{"question": "1?", "answer": 1}])
    with pytest.raises(UserError, match=r"is held out as well; set task\.held_out to other problems$"):
        _ = task(name).train


def test_an_unreachable_hub_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        UserError, match=r"task\.name=nobody/nothing:main \(task\.split=train\) cannot be read or is empty: "
    ) as caught:
        _ = task("nobody/nothing:main", held_out="nobody/nothing").train
    assert "\n" not in str(caught.value)


def test_equal_rows_are_understood_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [verl(f"{number}+1?", str(number + 1)) for number in range(8)]
    repeated = parquet(
        tmp_path / "rows" / "train.parquet", [{**row, "extra_info": {"index": i}} for i in range(200) for row in rows]
    )
    understood: list[Any] = []
    monkeypatch.setattr(dataset, "gold_of", lambda value: understood.append(value) or gold_of(value))
    loaded = task(repeated)
    assert len(loaded.train) == 7 * 200 and len(loaded.held_out) == 1
    assert len(understood) == 8
