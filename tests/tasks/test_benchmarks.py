import json
import logging
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rlzoo.errors import UserError
from rlzoo.tasks.base import Problem
from rlzoo.tasks.benchmarks import (
    BENCHMARKS,
    BOXED,
    GROUPS,
    ROLES,
    find,
    load_benchmark,
    read_examples,
    says_how_to_answer,
)

GOLDS = Path(__file__).parents[1] / "data" / "golds.jsonl"


def save(path: Path, rows: list[dict[str, object]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), path)


def last(problem: Problem) -> str:
    return problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]


def test_the_six_benchmarks_have_the_papers_sizes_and_samples() -> None:
    counts = {line["benchmark"]: len(line["golds"]) for line in map(json.loads, GOLDS.read_text().splitlines())}
    six = find(["all"])
    assert {benchmark.name: benchmark.rows for benchmark in six} == counts
    assert [benchmark.samples for benchmark in six] == [32, 32, 32, 4, 4, 4]


def test_justrls_nine_are_the_six_and_three_of_matharena() -> None:
    nine = find(["justrl"])
    assert [(it.name, it.rows, it.samples, it.hub) for it in nine[6:]] == [
        ("hmmt25", 30, 32, "MathArena/hmmt_feb_2025"),
        ("brumo25", 30, 32, "MathArena/brumo_2025"),
        ("cmimc25", 40, 32, "MathArena/cmimc_2025"),
    ]
    assert nine[:6] == find(["all"])


def own(folder: Path, text: str, rows: list[dict[str, object]]) -> Path:
    """A benchmark of one's own."""
    save(folder / "problems.parquet", rows)
    (folder / "mine.yaml").write_text(text)
    return folder / "mine.yaml"


def test_a_benchmark_of_ones_own_has_its_template_and_its_metric(tmp_path: Path) -> None:
    text = "{source: problems.parquet, samples: 2, template: 'Q: {problem}', instruction: ' A:', metric: gsm8k}"
    (mine,) = find([str(own(tmp_path, text, [{"problem": "1+1? {x}", "answer": "2"}]))])
    assert (mine.name, mine.samples) == ("mine", 2)
    task, (problem,) = load_benchmark(mine)
    assert last(problem) == "Q: 1+1? {x} A:"
    assert [task.grader(problem, it).correct for it in ("#### 2", r"\boxed{2}", "2")] == [1, 1, 0]
    _, (other,) = load_benchmark(
        find([str(own(tmp_path, "source: problems.parquet", [{"problem": "1?", "answer": "2"}]))])[0]
    )
    assert last(other) == "1?" + BOXED and task.grader(other, "#### 2").correct == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("samples: 2", r"mine\.yaml has no source="),
        ("{source: problems.parquet, template: Q}", r"template='Q' has no \{problem\} where"),
        ("{source: problems.parquet, metric: boxd}", r"metric=boxd; did you mean .*boxed"),
        ("{source: problems.parquet, sample: 2}", r"unknown key sample=2 in .*did you mean samples"),
        ("{source: problems.parquet, metric: knights_and_knaves}", r"has no roles in its gold answer"),
        ("{source: nowhere.parquet}", r"nowhere\.parquet"),
    ],
)
def test_a_mistake_in_a_benchmark_of_ones_own_is_one_clear_error(text: str, message: str, tmp_path: Path) -> None:
    path = own(tmp_path, text, [{"problem": "1+1?", "answer": "2"}])
    with pytest.raises(UserError, match=message):
        load_benchmark(find([str(path)])[0])


def test_a_benchmark_is_all_of_its_split_and_never_a_part_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "data").mkdir()
    rows: list[dict[str, object]] = [{"problem": f"{n}+1?", "answer": str(n + 1)} for n in range(40)]
    save(tmp_path / "data" / "train.parquet", rows)
    for source in ("~/problems.parquet", "{source: data, split: train}"):
        text = source if source.startswith("{") else f"source: {source}"
        assert len(load_benchmark(find([str(own(tmp_path, text, rows))])[0])[1]) == 40
    with pytest.raises(UserError, match=r"benchmark mine cannot be loaded: .*test"):
        load_benchmark(find([str(own(tmp_path, "source: data", rows))])[0])
    (tmp_path / "data").rename(tmp_path / "aime24")
    with pytest.raises(UserError, match=r"benchmark aime24 cannot be loaded: .*test"):
        load_benchmark(BENCHMARKS["aime24"], str(tmp_path))


def test_names_and_groups_are_found_in_the_order_they_are_named() -> None:
    names = [benchmark.name for benchmark in find(["math500", "knights_and_knaves", "aime24"])]
    assert names == ["math500", "kk3", "kk4", "kk5", "kk6", "kk7", "aime24"]
    assert not set(GROUPS) & set(BENCHMARKS)
    page = (Path(__file__).parents[2] / "docs" / "run_folder.md").read_text(encoding="utf-8")
    for it in BENCHMARKS.values():
        row = f"| `{it.name}` | `{it.hub}` | {it.split} | {it.rows:,} | {it.samples} |"
        assert row in page or re.fullmatch(r"kk[3-7]", it.name), row


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["aime2024"], r"benchmarks=aime2024 is not a benchmark; did you mean .*aime24"),
        (["AIME24"], r"did you mean aime24"),
        (["zzz"], r"there are aime24, aime25, .*, all, justrl, knights_and_knaves"),
        (["aime24", "all"], r"aime24 is there twice"),
        ([], r"benchmarks= names none"),
    ],
)
def test_a_wrong_name_is_one_clear_error(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find(names)


@pytest.mark.parametrize(
    ("text", "carries"),
    [
        ("1+1?", False),
        (r"Solution: it is \boxed{7e37}. Now what is 1+1?", False),
        (r"1+1? Put your final answer within \boxed{}.", True),
        (r"1+1? Put the answer within \boxed.", True),
        ('1+1? Output the final answer after "####".', True),
        ("Who is who? Answer within <answer> </answer>.", True),
    ],
)
def test_an_instruction_is_appended_once_and_worked_examples_are_none(text: str, carries: bool, tmp_path: Path) -> None:
    assert says_how_to_answer([{"role": "user", "content": text}]) == carries
    save(tmp_path / "aime24.parquet", [{"problem": text, "answer": "2"}])
    _, (problem,) = load_benchmark(BENCHMARKS["aime24"], str(tmp_path))
    assert last(problem) == (text if carries else text + BOXED)


def test_another_instruction_takes_the_place_of_the_papers_and_must_have_an_effect(tmp_path: Path) -> None:
    save(tmp_path / "aime24.parquet", [{"problem": "1+1?", "answer": "2"}])
    save(tmp_path / "gsm8k.parquet", [{"question": r"1+1? Use \boxed{}.", "answer": "2"}])
    _, (problem,) = load_benchmark(BENCHMARKS["aime24"], str(tmp_path), " Be brief.")
    assert last(problem) == "1+1? Be brief."
    with pytest.raises(UserError, match=r"task\.instruction=' Be brief\.' has no effect on gsm8k"):
        load_benchmark(BENCHMARKS["gsm8k"], str(tmp_path), " Be brief.")


def test_several_gold_answers_are_all_wanted_in_any_order(tmp_path: Path) -> None:
    save(tmp_path / "olympiadbench.parquet", [{"question": "Which?", "final_answer": ["$1$", "$-2$"]}])
    task, (problem,) = load_benchmark(BENCHMARKS["olympiadbench"], str(tmp_path))
    responses = [r"\boxed{1,-2}", r"\boxed{-2, 1}", r"\boxed{1}", r"\boxed{-2}", r"\boxed{1, 2}", r"\boxed{1,-2,3}"]
    assert [task.grader(problem, response).correct for response in responses] == [1, 1, 0, 0, 0, 0]


def test_knights_and_knaves_as_the_hub_has_them_are_graded_by_their_own_rules(tmp_path: Path) -> None:
    row = {"quiz": "Who is who?", "names": ["Zoey"], "solution": [True], "solution_text_format": "(1) Zoey is a knight"}
    save(tmp_path / "kk3.parquet", [row])
    task, (problem,) = load_benchmark(BENCHMARKS["kk3"], str(tmp_path))
    assert last(problem) == f"Who is who?\n\n{ROLES}"
    right = "<think>so</think><answer>(1) Zoey is a knight</answer>"
    assert [task.grader(problem, response).correct for response in (right, right.replace("knight", "knave"))] == [1, 0]


def test_a_folder_without_the_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no aime24\.parquet"):
        load_benchmark(BENCHMARKS["aime24"], str(tmp_path))
    with pytest.raises(UserError, match=r"benchmarks_folder=.*nowhere: there is no such folder"):
        load_benchmark(BENCHMARKS["aime24"], str(tmp_path / "nowhere"))
    (tmp_path / "aime24.parquet").write_text("no parquet")
    with pytest.raises(UserError, match=r"benchmark aime24 cannot be loaded: .*aime24\.parquet") as caught:
        load_benchmark(BENCHMARKS["aime24"], str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "split"), [("hmmt25", "train"), ("hmmt25", "test"), ("aime24", "test")])
def test_a_dataset_folder_gives_the_benchmarks_split_or_test(name: str, split: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    save(tmp_path / name / f"{split}.parquet", [{"problem": "1+1?", "answer": "2"}])
    assert len(load_benchmark(BENCHMARKS[name], str(tmp_path))[1]) == 1


def test_another_number_of_problems_than_the_papers_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path / "aime24.parquet", [{"problem": "1+1?", "answer": "2"}])
    with caplog.at_level(logging.WARNING):
        load_benchmark(BENCHMARKS["aime24"], str(tmp_path))
    assert "aime24 has 1 problems here; the papers' has 30" in caplog.text


def test_worked_examples_come_before_every_prompt_asked_for_as_the_problems_are(tmp_path: Path) -> None:
    save(tmp_path / "aime24.parquet", [{"problem": "1+1?", "answer": "2"}])
    (tmp_path / "shots.jsonl").write_text('{"problem": "2+2?", "response": "4"}\n{"problem": "3?", "response": "3"}\n')
    examples = read_examples(str(tmp_path / "shots.jsonl"))
    (tmp_path / "marked.jsonl").write_text((tmp_path / "shots.jsonl").read_text(), encoding="utf-8-sig")
    assert read_examples(str(tmp_path / "marked.jsonl")) == examples
    _, (problem,) = load_benchmark(BENCHMARKS["aime24"], str(tmp_path), " Box it.", examples)
    turns = [(message["role"], message["content"]) for message in problem.prompt]  # type: ignore[index]
    assert turns == [
        ("user", "2+2? Box it."),
        ("assistant", "4"),
        ("user", "3? Box it."),
        ("assistant", "3"),
        ("user", "1+1? Box it."),
    ]
    (tmp_path / "bad.jsonl").write_text('{"problem": "2+2?"}')
    (tmp_path / "number.jsonl").write_text('{"problem": 2, "response": "2"}')
    no_examples = "are not JSON lines with problem and response"
    for file, message in (("bad.jsonl", no_examples), ("number.jsonl", no_examples), ("no.jsonl", "no such file")):
        with pytest.raises(UserError, match=message):
            read_examples(str(tmp_path / file))
