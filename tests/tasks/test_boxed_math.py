import json
import time
from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from rlzoo.tasks.base import Problem
from rlzoo.tasks.boxed_math import equivalent, normalised
from rlzoo.tasks.dataset import DatasetGrader, gold_of
from rlzoo.tasks.grading import GraderPool
from rlzoo.tasks.symbolic import parsed, same
from rlzoo.tasks.text import last_boxed

GOLDS = Path(__file__).parents[1] / "data" / "golds.jsonl"
SHARED = Path(__file__).parents[3] / "shared" / "data"
TRAINED_ON = [SHARED / f"{name}.parquet" for name in ("math/train", "math/deepscaler_uniform", "gsm8k/train")]
COUNTS = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "olympiadbench": 674}


def problem(gold: str) -> Problem:
    return Problem(gold, "?", gold, {"data_source": ""})


@pytest.mark.slow
def test_every_gold_answer_of_the_six_benchmarks_grades_as_correct_against_itself() -> None:
    benchmarks = [json.loads(line) for line in GOLDS.read_text().splitlines()]
    assert {benchmark["benchmark"]: len(benchmark["golds"]) for benchmark in benchmarks} == COUNTS
    golds = {gold_of(gold) for benchmark in benchmarks for gold in benchmark["golds"]}
    assert unlike_themselves(golds) == []


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in TRAINED_ON if file.exists()])
def test_999_of_1000_gold_answers_that_methods_train_on_grade_as_correct_against_themselves(file: Path) -> None:
    column = read_table(file, columns=["reward_model"]).column("reward_model").to_pylist()
    golds = {gold_of(row["ground_truth"]) for row in column if row["ground_truth"].strip()}
    assert len(unlike_themselves(golds)) <= len(golds) / 1000


def unlike_themselves(golds: set[str]) -> list[str]:
    """Gold answers that are refused as answers, or not graded in time."""
    ordered = sorted(golds)
    responses = [rf"First \boxed{{0}}, no: $\boxed{{{gold}}}$." for gold in ordered]
    with GraderPool(DatasetGrader(), workers=2, timeout=30) as pool:
        graded = pool.grade([problem(gold) for gold in ordered], responses)
    return [gold for gold, g in zip(ordered, graded, strict=True) if g.grade.correct != 1 or g.outcome != "graded"]


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        *((gold, answer, True) for gold in ("seven", r"\text{Seven}", "7") for answer in ("7", "seven", "14/2")),
        *(("infinity", answer, True) for answer in (r"\infty", "infinity")),
        *(("seven", answer, False) for answer in ("8", "eight", "-7", "7, 8", "7_8", "no solution")),
        *((gold, "7", False) for gold in ("seven or eight", "seven eighths", "even", "no")),
        *(("zero", answer, False) for answer in ("none", r"\emptyset", "1")),
    ],
)
def test_a_word_for_a_number_is_that_number_as_gold_and_as_answer(gold: str, answer: str, is_right: bool) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("4.5e33", r"4.5\times 10^{33}"),
        ("4.5e33", "4.5e33"),
        ("3e6", "3,000,000"),
        ("3e6", "3000000"),
        ("1e-5", "0.00001"),
        ("2.7778e-6", r"2.7778 \cdot 10^{-6}"),
        ("3.89e-10", r"3.89\times10^{-10} \text{ m}"),
        ("np.arcsin(10/13)", r"\arcsin(10/13)"),
        ("np.arcsin(10/13)", r"\arcsin\left(\frac{10}{13}\right)"),
        ("$69$,$84$", "84, 69"),
        (r"$\frac{1}{2 n+2}$", r"\frac{1}{2(n+1)}"),
        (r"\$32,\!348", "32348"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\pi/2)"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"\frac{1}{3}", "0.333333"),
        (r"\frac{1}{3000}", "0.000333333"),
        ("27.0", "27"),
        ("5", "5."),
        ("5", "x = 5"),
        ("1,-2", "-2, 1"),
        ("52_8", "52_{8}"),
        ("52_8", "52"),
        ("52_8", r"52_{\text{eight}}"),
        ("52_8", r"52 \text{ (base 8)}"),
        ("52", "52_{10}"),
        ("12.5\\%", "12.5"),
        ("12.5", "12.5\\%"),
        (r"\text{(B)}", r"\textbf{(B)}\ 12"),
        *(
            ("B", it)
            for it in ("(B) Angle ABC", "B) The area is A", r"(B)\ \frac{A}{2}", "(B) (B)", "(B) A cat or a dog")
        ),
        ("12", r"\textbf{(B)}\ 12"),
        (r"\text{even}", r"\mathrm{Even}"),
        (r"\textbf{(E)}\ \frac{1}{4}", r"\frac14"),
        (r"\text{(A) }\sqrt2", r"\text{(A) }\sqrt{2}"),
    ],
)
def test_an_equivalent_answer_in_another_notation_is_correct(gold: str, answer: str) -> None:
    assert equivalent(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        *(("hello", "olleh", False), ("stop", "post", False), ("no", "on", False)),
        *(("HTTH", "HTHT", False), ("A B C", "C B A", False), ("A1B2", "B2A1", False)),
        *(("10 to 20", "20 to 10", False), ("192.168.0.1", "192.168.1.0", False), ("hello", "(B) olleh", False)),
        *(("Alice, Bob", "Celia, Bob", False), ("Alice, Bob", "Bob, Alice", True), ("hello", "Hello", True)),
        *(("xy", "yx", True), ("2ab", "2ba", True), ("mgh", "ghm", True), ("xyzw", "wxyz", True), ("nRT", "TnR", True)),
        *(("BIL", "IBL", True), ("abxy", "xyab", True), ("qvBd", "Bqvd", True)),
    ],
)
def test_a_word_is_no_product_of_its_letters_and_a_product_is(gold: str, answer: str, is_right: bool) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize("answer", [r"\infty^{2}1e5", r"5\infty^{2}", r"\frac{\infty}{3}", r"(\infty^{2}1e5, 7)"])
def test_what_is_infinite_equals_no_number_however_it_is_written(answer: str) -> None:
    assert not any(same(parsed(gold), parsed(answer)) for gold in ("7", "8675309", "(1, 7)"))
    assert same(parsed(r"(1, \infty)"), parsed(r"(1, \infty)"))


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("7", "8"),
        ("7", ""),
        ("7", "y"),
        ("7", "6, 7"),
        ("7", r"6 \text{ or } 7"),
        ("7", "1,2,3,4,5,6,7"),
        ("41.78", "41.8"),
        ("52_8", "52_9"),
        ("52", "52_8"),
        ("52", r"52 \text{ (base 8)}"),
        ("3", "1 2"),
        ("312", r"12 \quad 300"),
        ("12\\%", r"0.12\%"),
        ("B", r"\textbf{(C)}\ 12"),
        ("B", "12"),
        *(("B", it) for it in ("(B) or (C)", "(B), (A), (C), (D)", "B. C. D.", "B: 7, C: 8", r"(B)\text{ or }(C)")),
        *((gold, rf"\phantom{{{it}}}5") for it in ("7", "-") for gold in ("5", "75", "-5")),
        (r"\text{even}", r"\text{not even}"),
        ("0.5", r"0.5\%"),
        (r"\frac{1}{2}", r"\frac{1}{2}\%"),
        ("4210_{5}", "$4210_6$"),
        ("7", "[" * 11 + "7" + "]" * 11),
        (r"\frac{1}{3}", "0.33"),
        ("(1,2)", "(2,1)"),
        ("4.6e-24", "9e-24"),
        ("4.6e-24", r"4.6\times 10^{-25}"),
        ("1.325e-27", "0.0"),
        ("1e-8", "0"),
        ("0.0000001", "0.0000002"),
        ("7", r"7 \text{" + "a" * 1000 + "}"),
    ],
)
def test_an_answer_of_another_value_is_wrong_however_small_the_two_are(gold: str, answer: str) -> None:
    assert not equivalent(gold, answer)


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"\boxed{1} then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed {3}", "3"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.}", r"\left\{ x \right."),
        (r"\boxed{7} so \boxed{8", None),
        (r"\boxed{7} so \boxed", None),
        (r"\boxed 7", "7"),
        (r"\boxed \frac12", r"\frac12"),
        ("the answer is 7", None),
        ("", None),
    ],
)
def test_the_answer_is_the_content_of_the_last_box_which_must_be_closed(response: str, answer: str | None) -> None:
    assert last_boxed(response) == answer


@pytest.mark.parametrize(
    "response", ["7", "so 7 and truncat", "$7$", r"\boxed{7", r"The final answer is $7$. I hope", "#### 7"]
)
def test_an_answer_outside_a_closed_box_earns_nothing(response: str) -> None:
    grade = DatasetGrader(wrong_reward=-1.0)(problem("7"), response)
    assert (grade.reward, grade.correct) == (-1.0, 0.0)


HOSTILE = [
    "9^9^9^9",
    "9^{9^{9^{9}}}",
    "10^{10^{10}}",
    "(10^{10})!",
    r"\sum_{n=1}^{10^{12}} \sin(n!)",
    "(x+1)^{100000}",
    "{" * 400 + "7" + "}" * 400,
    r"\frac{1}{" * 110 + "7" + "}" * 110,
    "{" * 100_000,
    "7" * 100_000,
    "a" * 100_000,
    "}" * 100_000,
    "\\",
    r"7\\",
    r"\text{__import__('os')._exit(1)}",
    "\0\ud800",
]


@pytest.mark.parametrize("answer", [*HOSTILE, "5" + " " * 900 + "x", "9^{9^{9^9}} = 7", "cm/" * 300, r"\pm" * 400])
def test_the_text_for_majority_votes_calculates_nothing(answer: str) -> None:
    start = time.monotonic()
    assert isinstance(normalised(answer), str)
    assert time.monotonic() - start < 5


@pytest.mark.slow
def test_hostile_answers_neither_hang_nor_crash_nor_earn_anything() -> None:
    responses = [rf"\boxed{{{answer}}}" for answer in HOSTILE] + [r"\boxed{" * 20_000, "\\" * 100_000, r"\boxed{7}"]
    start = time.monotonic()
    with GraderPool(DatasetGrader(), workers=2, timeout=1) as pool:
        graded = pool.grade([problem("7")] * len(responses), responses)
    assert [g.grade.correct for g in graded] == [0.0] * (len(responses) - 1) + [1.0]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize("unit", ["m ", r"\text{cm} ", r"\cdot m ", "m / ", "m^2 ", " mΩ", "°C "])
def test_units_that_repeat_are_read_in_a_moment(unit: str) -> None:
    started = time.monotonic()
    normalised(f"5 {unit * 30}?")
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("answer", [rf"\frac{{{'9' * 310}}}{{1}}\%", rf"{'9' * 310}\frac12\%"])
def test_a_percentage_beyond_all_floats_is_a_fraction(answer: str) -> None:
    assert normalised(answer).startswith(r"\frac{")
