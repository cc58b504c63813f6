"""Ten thousand answers that are not the gold one: mutated, borrowed, misplaced or hostile. None earns anything."""

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlzoo.tasks.base import Problem
from rlzoo.tasks.dataset import DatasetGrader, gold_of
from rlzoo.tasks.grading import GraderPool

GOLDS = Path(__file__).parents[1] / "data" / "golds.jsonl"
Case = tuple[str, str]
"""A gold answer and a response."""


def golds() -> list[str]:
    return [gold_of(gold) for line in GOLDS.read_text().splitlines() for gold in json.loads(line)["golds"]]


INTEGERS = sorted({gold for gold in golds() if re.fullmatch(r"-?\d+", gold)}, key=int)
DECIMALS = sorted({gold for gold in golds() if re.fullmatch(r"-?\d+\.\d+(e-?\d+)?", gold)})


def flipped(number: str, rng: random.Random) -> str:
    """With one digit of it (of the mantissa, if it has one) another one."""
    mantissa = number.partition("e")[0]
    place = rng.choice([i for i, character in enumerate(mantissa) if character.isdigit()])
    digit = rng.choice([d for d in "0123456789" if d != number[place]])
    return number[:place] + digit + number[place + 1 :]


def flips_of_integers(rng: random.Random) -> Iterator[Case]:
    while True:
        gold = rng.choice(INTEGERS)
        yield gold, rf"\boxed{{{flipped(gold, rng)}}}"


def flips_of_decimals(rng: random.Random) -> Iterator[Case]:
    while True:
        gold = rng.choice(DECIMALS)
        wrong = flipped(gold, rng)
        if float(wrong) != float(gold):
            yield gold, rf"\boxed{{{wrong}}}"


def answers_of_others(rng: random.Random) -> Iterator[Case]:
    while True:
        gold, other = rng.choice(INTEGERS), rng.choice(INTEGERS + DECIMALS)
        if float(gold) != float(other):
            yield gold, rf"The answer is $\boxed{{{other}}}$."


def near_misses(rng: random.Random) -> Iterator[Case]:
    forms = (
        *("{0}+1", "{0}-1", r"{0}\cdot 10", r"\frac{{{0}}}{{3}}", r"-({0})", "{0}.5", "{0}1", "{0}!", r"({0})^2"),
        *(r"\sqrt{{{0}}}", r"{0}+\pi", r"{0}x", r"10^{{{0}}}", r"{0}i"),
    )
    while True:
        gold = rng.choice([gold for gold in INTEGERS if 10 < int(gold) < 1000])  # no fixed point of any form
        yield gold, rf"\boxed{{{rng.choice(forms).format(gold)}}}"


def several_answers(rng: random.Random) -> Iterator[Case]:
    forms = (
        *("{0}, {1}", "{1}, {0}", r"{0} \text{{ or }} {1}", r"\{{{0}, {1}\}}", "({0}, {1})", "[{0}, {1}]", "{0};{1}"),
        *(r"{0} \pm 1", r"x > {0}", r"x \ne {0}", r"{0} < x < {1}", r"(-\infty, {0}]", r"[{0}, \infty)"),
        *(r"\begin{{pmatrix}} {0} \\ {1} \end{{pmatrix}}", r"\begin{{cases}} {0} \\ {1} \end{{cases}}"),
        *(r"{0} \cup {1}", "x={0}, x={1}", r"\boxed{{{0}}}, \boxed{{{1}}}", r"{0} \text{{ and }} {1}", "{0}\n{1}"),
    )
    while True:
        gold = rng.choice(INTEGERS)
        yield gold, rf"\boxed{{{rng.choice(forms).format(gold, int(gold) + rng.randint(1, 9))}}}"


def right_answers_out_of_place(rng: random.Random) -> Iterator[Case]:
    forms = (
        *("{0}", "The answer is ${0}$.", "so {0} and truncat", r"\boxed{{{0}", r"\box{{{0}}}"),
        *(
            r"\boxed{{{0}}} or rather \boxed{{{1}}}",
            r"\boxed{{{0}}} ... \boxed{{{0}",
            r"\boxed{{{0}}} so \boxed",
            "#### {0}",
        ),
        *(r"\boxed{{\{{{0}}}", r"\\boxed({0})", r"\boxed{{}} {0}", "<answer>{0}</answer>"),
    )
    while True:
        gold = rng.choice(INTEGERS)
        yield gold, rng.choice(forms).format(gold, int(gold) + 1)


ATOMS = (
    *(r"\frac", r"\sqrt", r"\left(", r"\right)", r"\int", r"\sum_", r"\infty", "^", "_", "{", "}", "{", "}", "(", ")"),
    *("[", "]", r"\{", r"\}", "|", "&", r"\\", r"\begin{matrix}", r"\end{matrix}", r"\text{", "%", "$", r"\$", "#"),
    *("x", "y", "12", "3.5", "1e5", "-", "+", "=", "<", r"\cup", ",", ";", "!", r"\pi", "i", "\0", "\t", "\n", "é"),
    *(
        "\u202e",
        "\u0663",
        "\U0001d7d5",
        "½",
        "∞",
        "√",
        "²",
        "\ud800",
        "\ufeff",
        r"\boxed",
        r"\boxed{",
        r"\input{/etc/passwd}",
    ),
)


def rubbish(rng: random.Random) -> Iterator[Case]:
    while True:
        text = "".join(rng.choices(ATOMS, k=rng.randint(1, 30)))
        yield "8675309", rf"\boxed{{{text}}}" if rng.random() < 0.9 else text


def oversized(rng: random.Random) -> Iterator[Case]:
    """Deep, long, or a number that no memory holds, so that a worker may well have to be killed."""
    openings = ("{", "(", r"\frac{1}{", r"\sqrt{", r"\left(", "[", "x^{", r"\text{", r"\boxed{")
    for opening, depth in itertools.product(openings, (11, 300, 20_000)):
        closing = {"(": ")", "[": "]", r"\left(": r"\right)"}.get(opening, "}")
        yield "7", rf"\boxed{{{opening * depth}8{closing * depth}}}"
        yield "7", rf"\boxed{{{opening * depth}7"
    for text in ("7", "a", "{", "}", "\\", "\0", "é", "7 ", "7,", r"\boxed", r"\frac", "\U0001d7d5"):
        yield "7", rf"\boxed{{{text * (100_000 // len(text))}}}"
    yield "7", r"\boxed{9^{9^{9^9}}}"
    yield "7", r"\boxed{(10^{10})!}"


# Those that math-verify takes long for are fewer.
KINDS = {
    flips_of_integers: 5000,
    right_answers_out_of_place: 1900,
    rubbish: 1632,
    answers_of_others: 800,
    flips_of_decimals: 200,
    near_misses: 200,
    several_answers: 200,
    oversized: 68,
}


@pytest.mark.slow
def test_ten_thousand_wrong_answers_neither_crash_nor_hang_nor_earn_anything() -> None:
    cases = [case for kind, count in KINDS.items() for case in itertools.islice(kind(random.Random(0)), count)]
    assert len(cases) == 10_000
    problems = [Problem(gold, "?", gold, {"data_source": ""}) for gold, _ in cases]
    with GraderPool(DatasetGrader(), timeout=2) as pool:
        graded = pool.grade(problems, [response for _, response in cases])
    assert [case for case, one in zip(cases, graded, strict=True) if one.grade.correct or one.grade.reward] == []
    assert sum(one.outcome == "timed_out" for one in graded) <= 4
