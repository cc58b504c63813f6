"""Data as people bring it: any column names, a system prompt, one file for both splits, files that do not serve."""

import gzip
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rlzoo.config import TaskConfig, load_config
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_words
from rlzoo.tasks import Problem, Task, load_task, refuse_idle_splits


def jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def task(name: str, **keys: Any) -> Task:
    return load_task(TaskConfig(name=name, **keys))


def numbers(problems: Sequence[Problem]) -> list[int]:
    return [int(problem.answer) for problem in problems]


FORTY = [{"question": f"What is {n}?", "answer": n} for n in range(40)]


def test_columns_of_any_name_can_be_chosen(tmp_path: Path) -> None:
    row = {"text": "2+2?", "label": "4", "question": "none of it", "answer": "5"}
    config = TaskConfig(jsonl(tmp_path / "data.jsonl", [row]))
    config.columns.question, config.columns.answer = "text", "label"
    (problem,) = load_task(config).held_out
    assert problem.prompt == [{"role": "user", "content": "2+2?"}] and problem.answer == "4"
    config.columns.answer = "labels"
    with pytest.raises(UserError, match=r"task\.columns\.answer=labels is no column of .*; did you mean label\?"):
        _ = load_task(config).held_out


@pytest.mark.parametrize("name", ["choices", "Options"])
def test_choices_that_are_not_read_are_told_of_unless_the_columns_are_chosen(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = TaskConfig(jsonl(tmp_path / "data.jsonl", [{"question": "2+2?", name: ["3", "4"], "answer": 2}]))
    assert load_task(config).held_out and f"the column {name} is not read" in caplog.text
    caplog.clear()
    config.columns.question = "question"
    assert load_task(config).held_out and "not read" not in caplog.text


def test_a_data_source_may_be_a_number(tmp_path: Path) -> None:
    (problem,) = task(jsonl(tmp_path / "data.jsonl", [{"question": "1?", "answer": 1, "data_source": 7}])).held_out
    assert problem.data["data_source"] == "7"


def test_a_system_prompt_takes_the_place_of_the_datasets_own(tmp_path: Path) -> None:
    own = [{"role": "system", "content": "Sing."}, {"role": "user", "content": "2+2?"}]
    for question in ("2+2?", own):
        name = jsonl(tmp_path / "data.jsonl", [{"prompt": question, "answer": "4"}])
        (problem,) = task(name, system_prompt="Think.", instruction="Box it.").held_out
        assert problem.prompt == [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": "2+2?\n\nBox it."},
        ]
    gym = task("reasoning_gym:gcd", system_prompt="Think.").held_out[0].prompt
    assert not isinstance(gym, str) and [message["role"] for message in gym] == ["system", "user"]


def test_a_file_is_cut_in_two_by_its_questions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = jsonl(tmp_path / "data.jsonl", [*FORTY, FORTY[0], FORTY[1], FORTY[2]])
    with caplog.at_level(logging.WARNING):
        loaded = task(name)
        train, held_out = numbers(loaded.train), numbers(loaded.held_out)
    assert len(held_out) == 5 and set(train) | set(held_out) == set(range(40)) and not set(train) & set(held_out)
    assert "5 of its 40 questions are held out (task.held_out_rows=5 task.held_out_seed=0)" in caplog.text
    assert len(caplog.records) == 1
    moved = task(jsonl(tmp_path / "moved.jsonl", FORTY[::-1]))
    assert set(numbers(moved.held_out)) == set(held_out)
    other = task(name, held_out_rows=7, held_out_seed=1)
    assert len(other.held_out) == 7 and not set(numbers(other.held_out)) >= set(held_out)


def test_a_folder_with_one_split_is_cut_in_two_and_one_with_two_only_if_asked_to(tmp_path: Path) -> None:
    jsonl(tmp_path / "data" / "train.jsonl", FORTY)
    assert (len(task(str(tmp_path / "data")).held_out), len(task(str(tmp_path / "data")).train)) == (5, 35)
    jsonl(tmp_path / "data" / "test.jsonl", [{"question": "What is 99?", "answer": 99}])
    assert numbers(task(str(tmp_path / "data")).held_out) == [99]
    assert len(task(str(tmp_path / "data"), held_out_rows=3).held_out) == 3


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"held_out_rows": 40}, r"task\.held_out_rows=40: .* has 40 different questions, and some must be left"),
        ({"held_out": "a/b", "held_out_rows": 4}, r"task\.held_out_rows=4 has no effect with task\.held_out"),
        ({"held_out": "a/b", "held_out_seed": 4}, r"task\.held_out_seed=4 has no effect with task\.held_out"),
    ],
)
def test_a_number_that_cannot_be_held_out_is_refused(keys: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        _ = task(jsonl(tmp_path / "data.jsonl", FORTY), **keys).train


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"split": "dev"}, r"^task\.split='dev' has no effect on a file, which has one split \(task\.name=.*\); leave"),
        ({"held_out_split": "dev"}, r"^task\.held_out_split='dev' has no effect on a file"),
        (
            {"held_out": "more.jsonl", "held_out_split": "dev"},
            r"^task\.held_out_split='dev' has no effect on task\.held_out=more\.jsonl, a file",
        ),
        (
            {"held_out_split": "train[9:]", "split": "train[:9]", "held_out_seed": 7},
            r"^task\.held_out_seed=7 has no eff",
        ),
        ({"held_out_rows": 3, "held_out_split": "dev"}, r"^task\.held_out_split='dev' has no .* task\.held_out_rows=3"),
        ({"name": "data", "held_out_rows": 3, "held_out_split": "dev"}, r"^task\.held_out_split='dev' has no effect"),
    ],
)
def test_a_split_that_is_not_read_is_refused_but_where_a_run_has_recorded_it(
    keys: dict[str, Any], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jsonl(Path("data.jsonl"), FORTY)
    jsonl(Path("more.jsonl"), FORTY[:5])
    jsonl(Path("data/train.jsonl"), FORTY)
    words = [f"task.{key}={value}" for key, value in {"name": "data.jsonl", **keys}.items()]
    words += ["model.name=embedded:sums", "rollout.max_response_tokens=9"]
    with pytest.raises(UserError, match=says) as caught:
        check_words(load_config(words))
    assert "\n" not in str(caught.value)
    resumed = load_config([*words, "resume=true"])
    check_words(resumed)
    assert load_task(resumed.task).train
    refuse_idle_splits(resumed.task, typed={"task.name"})


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"held_out_rows": 3, "held_out_seed": 7},
        {"held_out_seed": 7},
        {"split": "train[:9]"},
        {"split": "train[:9]", "held_out_split": "train[9:]"},
        {"held_out": "data.jsonl", "held_out_split": "train[9:]"},
        {"name": "data", "split": "dev", "held_out_split": "dev"},
        {"name": "sums", "held_out_split": "dev"},
    ],
)
def test_a_split_that_is_read_and_a_default_are_not_refused(
    keys: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jsonl(Path("data.jsonl"), FORTY)
    jsonl(Path("data/train.jsonl"), FORTY)
    refuse_idle_splits(TaskConfig(**{"name": "data.jsonl", **keys}))


def test_a_seed_is_told_of_where_another_split_is_held_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for split, rows in (("train", FORTY[:9]), ("test", FORTY[9:])):
        jsonl(tmp_path / "data" / f"{split}.jsonl", rows)
    assert len(task(str(tmp_path / "data"), held_out_seed=7).held_out) == 31
    assert "task.held_out_seed=7 has no effect" in caplog.text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", r"data\.jsonl \(task\.split=train\) is empty$"),
        (b"\n\n", r"data\.jsonl \(task\.split=train\) .*is empty"),
        (
            '{"question": "Où est-ce?", "answer": 1}\n'.encode("latin-1"),
            r"not in UTF-8 \(row 1\); recode it.*: iconv",
        ),
        (b'{"question": 5, "answer": 1}\n', r"row 1 has a question that is neither text nor chat messages"),
        (
            b'{"prompt": [{"role": "user", "content": [{"type": "image", "url": "1.png"}]}], "answer": 1}\n',
            r"row 1 has a message whose content is no text",
        ),
        (b'{"question": "1?", "answer": 1}\n{"question": ', r"cannot be read or is empty: "),
        (b'{"frage": "1?", "answer": 1}\n', r"task\.columns\.question= and task\.columns\.answer= name others"),
    ],
)
def test_a_file_that_does_not_serve_is_one_line(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        _ = task(str(tmp_path / "data.jsonl")).train
    assert "\n" not in str(caught.value)


def test_the_line_that_recodes_a_zipped_file_unzips_it(tmp_path: Path) -> None:
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress("question,answer\nOù?,1\n".encode("latin-1")))
    with pytest.raises(UserError, match=r": gzip -dc \S+/data\.csv\.gz \| iconv -f latin1 -t utf8 > recoded\.csv$"):
        _ = task(str(tmp_path / "data.csv.gz")).train


def test_rows_without_an_answer_are_counted_and_it_is_said_what_a_reward_gets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "reward.py").write_text("def reward(response, gold):\n    return gold == ''\n")
    rows = [{**row, "answer": None if row["answer"] < 4 else str(row["answer"])} for row in FORTY]
    name = jsonl(tmp_path / "data.jsonl", rows)
    own = task(name, reward=[f"{tmp_path}/reward.py:reward"])
    assert len([*own.train, *own.held_out]) == 40
    assert "4 of 40 rows have no answer; they are kept, and task.reward gets gold='' for them" in caplog.text
    (unanswered, *_) = [problem for problem in [*own.train, *own.held_out] if not problem.answer]
    assert own.grader(unanswered, "anything").reward == 1
    caplog.clear()
    assert len([*task(name).train, *task(name).held_out]) == 36
    assert "4 of 40 rows are dropped: row 1 has no answer" in caplog.text


def test_an_answer_that_is_no_text_is_an_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "reward.py").write_text("def reward(response, answer):\n    return 0\n")
    rows = [{**row, "answer": {"numbers": [1, 2]}} for row in FORTY]
    own = task(jsonl(tmp_path / "data.jsonl", rows), reward=[f"{tmp_path}/reward.py:reward"])
    assert len(own.train) == 35 and "have no answer" not in caplog.text
