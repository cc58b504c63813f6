"""A gold is read as a response is; the prompt's form and the grader agree."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlzoo.config import TaskConfig
from rlzoo.errors import UserError
from rlzoo.tasks import Task, grade, load_task
from rlzoo.tasks.dataset import gold_of
from rlzoo.tasks.forms import forms_said

QUICK = settings(max_examples=40, deadline=None, derandomize=True)

GSM8K = 'How many? Let\'s think step by step and output the final answer after "####".'
DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\nHow many?\n\nRemember to put your answer "
    'on its own line after "Answer:".'
)
BOX = r"How many? Put your final answer within \boxed{}."
TAGS = "How many? Show the final answer in <answer> </answer> tags, for example <answer> 1 / 2 </answer>."
WRITTEN: dict[str, Callable[[str], str]] = {
    "boxed": lambda answer: rf"So \boxed{{{answer}}}.",
    "hashes": lambda answer: f"So it is.\n#### {answer}",
    "answer": lambda answer: f"So it is.\n\nAnswer: {answer}",
    "tags": lambda answer: f"So it is.\n<answer> {answer} </answer>",
}
PROMPTS = {"boxed": BOX, "hashes": GSM8K, "answer": DAPO, "tags": TAGS}

_number = st.integers(2, 99).map(str)
ANSWERS = st.one_of(
    _number,
    st.builds("{}/{}".format, _number, _number),
    st.builds("{}:{}".format, _number, st.integers(10, 59)),
    st.builds(r"{}\sqrt{{{}}}".format, _number, _number),
    st.builds(r"\frac{{{}}}{{{}}}".format, _number, _number),
    st.builds(r"\frac{}{}".format, st.integers(1, 9), st.integers(2, 9)),
    st.builds("{}x+{}".format, _number, _number),
    st.builds("{}, {}".format, _number, _number),
    st.builds("-${}".format, _number),
    st.builds("x={}".format, _number),
    st.builds("{} {}".format, _number, st.sampled_from(["apples", "cm", "dollars per day"])),
    st.sampled_from(["B", "yes", "1e5", "1 000", "1,234", "3^2", "2 1/2", "+7", "-0.50", r"x \in [1, 2)"]),
)
BEHIND = st.sampled_from(
    [
        "",
        "\n",
        "\nThat is all.",
        " \nI put it within \\boxed{} as asked.",
        "\nI use \\boxed for it.",
        "\n\n####",
        "\n#### ",
    ]
)


def marked(answer: str, form: str, behind: str = "") -> str:
    return WRITTEN[form](answer) + behind


@QUICK
@given(answer=ANSWERS, form=st.sampled_from(["boxed", "hashes", "answer", "tags"]), behind=BEHIND)
def test_every_gold_solution_is_right_against_itself_and_against_its_answer(
    answer: str, form: str, behind: str
) -> None:
    solution = marked(answer, form, behind)
    assert grade(solution, solution).correct == 1
    assert grade(solution, rf"\boxed{{{answer}}}").correct == 1
    assert grade(answer, marked(answer, form), prompt=PROMPTS[form]).correct == 1
    assert grade(solution, marked("314159", form)).correct == 0


@QUICK
@given(
    answers=st.lists(_number, min_size=2, max_size=4, unique=True),
    joint=st.sampled_from([", ", " and ", "$, $", " or ", r" \text{ and } "]),
    behind=BEHIND,
)
def test_joined_boxes_of_a_gold_solution_are_one_answer(answers: list[str], joint: str, behind: str) -> None:
    solution = "It is " + joint.join(rf"\boxed{{{answer}}}" for answer in answers) + behind
    assert grade(solution, solution).correct == 1
    assert grade(solution, rf"\boxed{{{', '.join(reversed(answers))}}}").correct == 1
    assert all(grade(solution, rf"\boxed{{{answer}}}").correct == 0 for answer in answers)


@pytest.mark.slow
def test_five_hundred_made_solutions_are_right_against_themselves() -> None:
    rng = random.Random(5)
    ends = ["", "\nHope this helps!", "\nThat ends the proof.", r" (in \boxed{} as asked)", "\n\n", " QED"]
    kinds: list[Callable[[], str]] = [
        lambda: f"{rng.randint(1, 99)}/{rng.randint(2, 99)}",
        lambda: f"{rng.randint(1, 12)}:{rng.randint(10, 59)}",
        lambda: rf"{rng.randint(2, 9)}\sqrt{{{rng.randint(2, 99)}}}",
        lambda: rf"\dfrac{{{rng.randint(1, 99)}}}{{{rng.randint(2, 99)}}}",
        lambda: f"{rng.randint(-99, 999)}",
    ]
    wrong = []
    for number in range(500):
        answer, other = rng.choice(kinds)(), rng.choice(kinds)()
        several = rf"$x=\boxed{{{answer}}}$ and $y=\boxed{{{other}}}$."
        solution = [f"So we are done.\n#### {answer}", rf"It is \boxed{{{answer}}}.", several][number % 3]
        text = solution + rng.choice(ends[:3] if number % 3 == 0 else ends)
        if grade(text, text).correct != 1:
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize(
    ("gold", "read"),
    [
        ("#### 3/4", "3/4"),
        ("so\n#### 10:30", "10:30"),
        ("#### 2\\sqrt3 ", r"2\sqrt3"),
        (r"#### \frac12", r"\frac12"),
        ("####5####", "5"),
        ("### 4\n#### **42**", "42"),
        ("#### 5\n####\nThat is all.", "5"),
        ("#### 5 apples are left.", "5 apples"),
        ("#### 18 (eighteen dollars)", "18"),
        ("#### x is 5", "x is 5"),
        ("#### 5 or 6", "5 or 6"),
        (r"\boxed{3} #### 4", "3"),
        (r"\boxed{3}, which I box in \boxed{} as asked", "3"),
        (r"$\boxed{2}$ or $\boxed{7}$", r"2 \text{ or } 7"),
        ("First.\nAnswer: 34\n", "34"),
        ("First.\n**Answer:**\n\n$34$", "$34$"),
        ("x <answer>3</answer> <answer> 4 </answer>", "4"),
        ("no form at all", "no form at all"),
        ("#### 72\n#### Check\n24 * 3 = 72", "72"),
        ("#### Step 1\n1+1\n#### 1,234\nThat is all.", "1,234"),
        ("#### Final answer\n#### $5\nThat is all.", "$5"),
        ("#### Step 1\n1+1\n#### x = 3\nThat is all.", "x = 3"),
        ("#### Step 2\n1+1\n#### Final answer: 7\nThat is all.", "Final answer: 7"),
        ("#### no solution\nThat is all.", "no solution"),
        ("#### Check\n", "Check"),
        ("#### Find x\n1+1\nAnswer: 2", "2"),
    ],
)
def test_a_gold_solution_says_all_that_stands_in_its_form(gold: str, read: str) -> None:
    assert gold_of(gold) == read


@pytest.mark.parametrize(
    "heading",
    [
        *("Step 2", "**Step 2: add 1 = 1**", "Final answer", "The final answer", "Check", "Case 2", "Part (b)"),
        *("1. Find the total", "2) Set up an equation", "Compute f(x)", "Solution", "Verification"),
    ],
)
def test_a_heading_of_a_solution_is_no_answer(heading: str, tmp_path: Path) -> None:
    solution = f"#### Step 1\n2+2\n\n#### {heading}\n\nso **4**"
    with pytest.raises(ValueError, match="has no answer"):
        gold_of(solution)
    assert grade("4", f"#### 4\n{solution}", prompt=GSM8K).correct == 1
    task = loaded(tmp_path, [verl("How many?", "", gold) for gold in ("#### 4", solution)])
    assert len(task.held_out) == 1 and len(task.dropped) == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["#" * 200_000, "####" * 50_000, "Answer" + " " * 200_000, "Answer:" * 30_000])
def test_hostile_solutions_are_read_in_no_time(text: str) -> None:
    grade("5", text, prompt=GSM8K)
    grade("5", text, prompt=DAPO)
    grade("5", "5" + " is" * 50_000 + "!", prompt=GSM8K)


def loaded(folder: Path, rows: list[dict[str, Any]], **keys: Any) -> Task:
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return load_task(TaskConfig(str(folder / "rows.jsonl"), held_out=str(folder / "rows.jsonl"), **keys))


def verl(prompt: str, source: str, gold: str = "34") -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}]
    return {"prompt": messages, "data_source": source, "reward_model": {"ground_truth": gold, "style": "rule"}}


@pytest.mark.parametrize("form", [*WRITTEN])
@pytest.mark.parametrize("source", ["", "my/data"])
def test_a_model_that_obeys_its_prompt_earns_the_reward(form: str, source: str, tmp_path: Path) -> None:
    task = loaded(tmp_path, [verl(PROMPTS[form], source)])
    (problem,) = task.held_out
    assert task.grader(problem, WRITTEN[form]("34")).reward == 1
    assert task.grader(problem, WRITTEN[form]("35")).reward == 0
    assert task.final_answer(problem, WRITTEN[form]("34")) == "34"
    others = [other for other in WRITTEN if other not in (form, "boxed")]
    assert [task.grader(problem, WRITTEN[other]("34")).reward for other in others] == [0] * len(others)
    (said,) = forms_said(task.held_out, task.config)  # type: ignore[attr-defined]
    assert said.startswith("prompts ask for the answer ") and said.count("####") == 2 * (form == "hashes")


SOURCES = {"": "", "my/data": "", "openai/gsm8k": "hashes", "math_dapo": "answer"}
"""Data source -> the form that its grader reads, where it names one."""
_form = st.sampled_from(["", *WRITTEN])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(asked=_form, source=st.sampled_from([*SOURCES]), key=_form, of_gold=_form, answer=ANSWERS)
def test_the_form_that_is_asked_for_is_graded_or_the_row_is_refused(
    asked: str, source: str, key: str, of_gold: str, answer: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    row = verl(PROMPTS.get(asked, "How many?"), source, marked(answer, of_gold) if of_gold else answer)
    graded = key or SOURCES[source] or asked or of_gold or "boxed"
    task = loaded(tmp_path_factory.mktemp("rows"), [row], answer_form=key or "auto")
    if not key and asked not in ("", "boxed", graded):
        with pytest.raises(UserError, match=r"asks for the answer .* is graded"):
            _ = task.held_out
        return
    (problem,) = task.held_out
    right = {form for form, write in WRITTEN.items() if task.grader(problem, write(answer)).reward == 1}
    assert right == {"boxed", graded}


@pytest.mark.parametrize(
    ("prompt", "source", "form"),
    [
        ("How many?", "openai/gsm8k", "hashes"),
        ("How many?", "math_dapo", "answer"),
        (BOX, "math_dapo", "answer"),
        ("#### Problem\nHow many?\n#### 1. Hints\nnone", "", "boxed"),
        ("Q: 1+1?\nA: 1+1=2\n#### 2\n\nQ: How many?\nA:", "", "hashes"),
        ("Question: how many?\nAnswer:", "", "boxed"),
        ("End with a line 'ANSWER: $ANSWER'.", "", "answer"),
        ("How many?", "", "boxed"),
    ],
)
def test_the_form_is_that_of_the_data_source_or_of_the_prompts_words(
    prompt: str, source: str, form: str, tmp_path: Path
) -> None:
    task = loaded(tmp_path, [verl(prompt, source)])
    graded = {name: task.grader(task.held_out[0], write("34")).reward for name, write in WRITTEN.items()}
    assert graded == {name: float(name in ("boxed", form)) for name in WRITTEN}


def test_raw_golds_with_hashes_let_a_response_have_them_unless_the_prompt_asks_for_a_box(tmp_path: Path) -> None:
    rows = [{"question": "2+2?", "answer": "2 and 2 is 4\n#### 4"}]
    (problem,) = loaded(tmp_path, rows).held_out
    assert loaded(tmp_path, rows).grader(problem, "#### 4").reward == 1
    asked = loaded(tmp_path, rows, instruction=r"Put the answer in \boxed{}.")
    assert asked.grader(asked.held_out[0], "#### 4").reward == 0


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            verl(DAPO, "openai/gsm8k"),
            r"task\.answer_form=auto: the prompt of .* row 1 asks for the answer behind Answer:, and with "
            r"data_source=openai/gsm8k what stands behind #### is graded; .* set task\.answer_form=answer, or hashes",
        ),
        (verl(GSM8K, "math_dapo"), r"behind Answer: is graded; .* set task\.answer_form=hashes, or answer"),
        (
            verl(BOX, "kk_logic", "(1) Zoey is a knight"),
            r"in <answer></answer> is graded; .* set task\.answer_form=tags$",
        ),
    ],
)
def test_a_prompt_that_asks_for_what_is_not_graded_is_refused_unless_a_key_says_so(
    row: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=says) as caught:
        _ = loaded(tmp_path, [row]).held_out
    assert "\n" not in str(caught.value)
    assert loaded(
        tmp_path, [row], answer_form=str(caught.value).rpartition("task.answer_form=")[2].split(",")[0]
    ).held_out


def test_a_key_names_the_form_for_all_rows(tmp_path: Path) -> None:
    for form, write in WRITTEN.items():
        task = loaded(tmp_path, [verl(GSM8K, "openai/gsm8k")], answer_form=form)
        assert [task.grader(task.held_out[0], way("34")).reward for way in (write, WRITTEN["boxed"])] == [1, 1]
        assert task.grader(task.held_out[0], WRITTEN["hashes"]("34")).reward == (form == "hashes")
    with pytest.raises(UserError, match=r"task\.answer_form=boxed has no effect on .* row 1: Knights and Knaves"):
        _ = loaded(tmp_path, [verl(TAGS, "kk_logic", "(1) Zoey is a knight")], answer_form="boxed").held_out
    with pytest.raises(UserError, match=r"task\.answer_form='hashes' has no effect on sums"):
        load_task(TaskConfig(answer_form="hashes"))


def test_a_reward_of_ones_own_grades_what_it_likes(tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text("def reward(response, gold):\n    return 1.0\n")
    task = loaded(tmp_path, [verl(DAPO, "openai/gsm8k")], reward=[f"{tmp_path}/reward.py:reward"])
    assert len(task.held_out) == 1
