r"""What people write around a value, and what they write that changes it."""

# ruff: noqa: RUF001 (characters that look like others are what this is about)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlzoo.tasks.boxed_math import equivalent, right
from rlzoo.tasks.text import final_boxes


@pytest.mark.parametrize(
    "answer",
    [
        *(r"4.2~\text{cm}", r"\approx 4.2", r"x \approx 4.2\,\Omega", r"4.2\,\mathrm{k}\Omega", "4.2 g/mol", "4.2cm"),
        *(
            r"4.2\ \text{g/mol}",
            r"4.2\,K",
            r"4.2\text{K}",
            r"4.2^\circ C",
            r"4.2^{\circ}\text{C}",
            "4.2°C",
            r"4.2\,\AA",
        ),
        *(r"4.2\,\mu m", r"4.2~\mathrm{\mu m}", r"4.2 \text{ m s}^{-1}", r"4.2\,\text{kg}\cdot\text{m}/\text{s}^2"),
        *(
            r"4.2 \text{ square units}",
            "4.2 square units",
            r"4.2 \text{ miles per hour}",
            r"4.2\,\text{cm}^2",
            r"\$4.2",
        ),
        *(
            r"\text{about } 4.2",
            r"4.2 \text{ (cm)}",
            r"4.2 \times 10^{-3} \text{ thousand km}",
            "€4.2",
            r"4.2\text{ USD}",
        ),
    ],
)
def test_a_unit_behind_a_number_does_not_change_it(answer: str) -> None:
    assert equivalent("4.2", answer)
    assert not equivalent("4.3", answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        *(("103", r"103 \text{ million}"), ("103", "103 thousand"), ("103", r"103 \text{ dozen}"), ("103", "103 x")),
        *(
            ("103", r"103 \text{ or so}"),
            ("103", r"103 \text{ squared}"),
            ("103", r"103 \text{ hundredths}"),
            ("2m", "2"),
        ),
        *(
            ("103", "103t"),
            *((f"3 {it}", "3") for it in ("mg", "nm", "abc")),
            ("3 cm", "3 m"),
            ("103", r"103\text{x}"),
            ("103", r"103\mathbf{i}"),
            ("103", r"103\mathrm{e}"),
            ("12t", "12"),
        ),
        *(("103", r"\text{at least } 103"), ("103", r"\text{not } 103"), ("103", r"103 \text{ if } n \text{ is even}")),
        *(
            ("12", r"\text{the answer is not 12}"),
            ("12", r"\text{at most 12}"),
            ("1999", r"\text{the year before 1999}"),
        ),
        *((r"10\text{ feet}", r"10\text{ inches}"), (r"90^\circ", r"90 \text{ radians}"), ("103", r"103 \bmod 7")),
    ],
)
def test_a_word_that_changes_the_value_is_no_unit(gold: str, answer: str) -> None:
    assert not equivalent(gold, answer)
    assert equivalent(gold, gold)


def test_a_magnitude_is_a_factor() -> None:
    assert equivalent("5000000", r"5 \text{ million dollars}")
    assert equivalent(r"5 \text{ million}", "5{,}000{,}000")


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        *(("3375", r"3\,375"), ("3375", r"3\ 375"), ("3375", "3 375"), ("3375", "3~375"), ("1234567", r"1\,234\,567")),
        *(("1234567", "1{,}234{,}567"), (r"11,\! 111,\! 100", "11111100"), ("3375", "3\u202f375"), ("7", "７")),
        *((r"\sqrt{17}", "√17"), (r"\sqrt{x+1}", "√(x+1)"), (r"\frac{5}{2}", "2½"), (r"90^\circ", "90°"), ("-3", "−3")),
        *(("1200", "x=1,200"), ("10000, 20000", "10,000, 20,000"), (r"1200\pi", r"1,200\pi"), ("1000/3", "1,000/3")),
        *(("1200", "+1,200"), ("1,000 or 2,000", "1000, 2000"), ("x=120,240", "120, 240")),
        *(("0.125", "0,125"), ("1,2,300", "1, 2, 300"), ("12,100,5", "12, 100, 5")),
        *((r"\infty", "∞"), (r"\frac{\pi}{2}", "π/2"), ("x^2", "x²"), ("6", "2×3"), ("a_1", "a₁"), (r"\lambda", "λ")),
        *(("103", r"\mathbf{103}"), ("103", r"\Large 103"), ("103", r"{\Large\textbf{103}}"), ("103", r"\fbox{103}")),
        *(("103", r"\textcolor{red}{103}"), ("103", r"\color{blue} 103"), (r"\frac{1}{9}", r"\mathbf{\frac{1}{9}}")),
        *(
            ("103", r"103\text{.}"),
            ("103", r"\ 103\ "),
            ("103", "**103**"),
            ("103", r"103 \checkmark"),
            ("6+9i", "6 + 9 i"),
            ("3:4", r"3 \text{ : } 4"),
            ("10:30", "10{:}30"),
            (r"\sqrt{2}", r"\sqrt{2} = 1.414\ldots"),
            (r"\sqrt{2}", r"\sqrt{2}\ (\approx 1.41)"),
        ),
        *(("103", r"\text{The answer is } 103"), ("103", "The answer is 103"), ("103", r"\text{Total: 103}")),
        *(("1999", r"\text{the year 1999}"), ("5", r"\text{There are 5 ways.}"), ("12", r"\text{It is 12.}")),
    ],
)
def test_the_same_value_in_other_characters_and_styles_is_the_same(gold: str, answer: str) -> None:
    assert equivalent(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("103", "N = 100 + 3 = 103", True),
        ("103", "100 + 4 = 103", False),
        ("103", "104 = 103", False),
        ("103", "103 = 104", False),
        ("103", r"104 \text{ cm} = 103 \text{ cm}", False),
        ("103", r"104 \approx 103", False),
        ("103", "103.4 = 103", False),
        ("103", r"\frac{1}{0} = 103", False),
        (r"\frac{1}{3}", r"x = \frac{1}{3} \approx 0.33", True),
        (r"\frac{1}{3}", r"\frac{1}{3} = 0.333", True),
        ("0.33", r"\frac{1}{3} \approx 0.33", True),
        ("0.34", r"\frac{1}{3} \approx 0.34", False),
        ("0.34", r"\frac{1}{3} = 0.34", False),
        (r"\frac{2}{3}", r"\frac{2}{3} \approx 0.66", True),
        ("7", r"\text{seven} \approx 8", False),
        ("2\\pi r", r"2\pi r \approx 6.28 r", True),
        ("7", r"\lfloor 7.5 \rfloor = 7", True),
        ("5050", r"1 + 2 + \cdots + 100 = 5050", True),
    ],
)
def test_a_chain_of_equations_says_what_it_ends_with_unless_it_contradicts_itself(
    gold: str, answer: str, is_right: bool
) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        (r"1+\sqrt{2}, 1-\sqrt{2}", r"1 \pm \sqrt{2}", True),
        (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt{5}, 1-\sqrt{5}", True),
        ("(1,2),(1,-2)", r"(1, \pm 2)", True),
        ("(1,-1),(-1,1)", r"(\pm 1, \mp 1)", True),
        ("2", r"\pm 2", False),
        ("103", r"103 \pm 1", False),
        ("2,3,5", r"p \in \{2, 3, 5\}", True),
        ("2,3,5", r"2, 3 \text{ and } 5", True),
        ("2,3", r"x = 2 \text{ or } x = 3", True),
        ("2,3", r"x = 2 \text{ oder } x = 3", True),
        ("2,3", r"2\text{ 和 }3", True),
        ("D, E", "A, D, E", False),
        *(("12", f"12, {dots}", False) for dots in ("...", r"\ldots", r"\dots.", "…")),
        ("2, 4, 6, ...", "2,4,6, ...", True),
        ("Mia is a knight, and Leo is a knave.", r"\text{Mia is a knight and Leo is a knave}", True),
        ("2k\\pi", r"2\pi k \quad (k \in \mathbb{Z})", True),
        ("(3,-1)", r"\{3,-1\}", False),
        ("(1,2)", r"\{1,2\}", False),
        (r"\{1,2\}", "(1,2)", False),
        ("(3,-1)", "y=-1, x=3", True),
        ("(3,-1)", "x=-1, y=3", False),
        ("(3,-1)", r"\begin{cases} x=3 \\ y=-1 \end{cases}", True),
        (r"\begin{pmatrix} -7 \\ 16 \end{pmatrix}", "(-7, 16)", True),
        (r"\begin{pmatrix} -7 \\ 16 \end{pmatrix}", r"\begin{pmatrix}-7\\[4pt]16\end{pmatrix}", True),
        (r"\begin{pmatrix} -7 \\ 16 \\ 5 \end{pmatrix}", r"\langle -7, 16, 5 \rangle", True),
        (r"\begin{pmatrix} -7 \\ 16 \\ 5 \end{pmatrix}", r"\{-7, 16, 5\}", False),
        (r"\begin{pmatrix} -7 \\ 16 \end{pmatrix}", r"\left[\begin{array}{c} -7 \\ 16 \end{array}\right]", True),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}", True),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", r"\begin{pmatrix} 1 & 3 \\ 2 & 4 \end{pmatrix}", False),
        (r"\begin{pmatrix} 2 & 4 \\ 6 & 8 \end{pmatrix}", r"2\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", True),
        (r"\begin{pmatrix} 2 & 4 \\ 6 & 8 \end{pmatrix}", r"(1+1)\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", True),
        (r"\begin{pmatrix} 2 & 4 \\ 6 & 8 \end{pmatrix}", r"1+1\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", False),
    ],
)
def test_sets_have_no_order_and_tuples_and_columns_have(gold: str, answer: str, is_right: bool) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        *((f"3 boys{it}4 girls", f"3 girls{it}4 boys", False) for it in (" and ", ", ")),
        *(("3 boys and 4 girls", "4 girls and 3 boys", True), ("3 boys and 4 girls", "4, 3", False)),
        *(("5 hours and 7 minutes", "7 hours and 5 minutes", False), ("3 boys and 4 girls", "3, 4", True)),
        *(("Alice: 1, Bob: 2", "Alice: 2, Bob: 1", False), ("Alice: 1, Bob: 2", "Bob: 2, Alice: 1", True)),
        *(("mean: 5, median: 7", "mean: 7, median: 5", False), ("mean: 5, median: 7", "mean = 5, median = 7", True)),
        *(("x=7, y=3", "3,7", False), ("x=7, y=3", "7,3", True), ("x=7, y=3", "y=3, x=7", True)),
        *(("x_1=2, x_2=3", "3, 2", True), ("2 cm and 30 mm", "30 mm and 2 cm", True)),
        *(
            ("5 cm, 2 m", "2 m, 5 cm", True),
            (r"\frac{1}{2} km", r"\frac{km}{2}", True),
            ("5 hours and 7 minutes", "7 minutes and 5 hours", True),
        ),
        *(("y=4, x=3", "3, 4", True), ("30 minutes, 2 hours", "0.5 hours, 120 minutes", True)),
        *(("x=2, x=3", "3, 2", True), ("3 cm, 2 cm", "2 cm, 3 cm", True)),
    ],
)
def test_values_of_several_things_are_not_exchanged(gold: str, answer: str, is_right: bool) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize(
    ("gold", "answers"),
    [
        ("x>3", [r"x > 3\text{ cm}", "3<x"]),
        (r"t \ge 2", [r"t \geq 2 \text{ hours}"]),
        ("x > 5", [r"x > 5 \text{ dollars}"]),
        (r"v > 20\,\text{km/h}", ["v > 20"]),
        *((f"10 {it}", ["10"]) for it in ("cm", "kg", "mph", "min", "hrs", "lbs.")),
        ("3 cm", ["30 mm", r"3\text{ cm}", "3 cm"]),
        ("3 nm", ["3mn"]),
        ("3 > x > 1", [r"3 > x > 1\text{ cm}", "1 < x < 3"]),
        (r"\emptyset", [r"\{\}", r"\varnothing"]),
        ("5", [rf"\text{{The {it} is }} 5" for it in ("amount left after shopping", "double root")]),
        ("50", [r"\text{The total after the discount is } \$50"]),
        (r"\frac{3\hat{i}+4\hat{j}}{5}", [r"\frac{3\hat i+4\hat j}{5}"]),
        ("(100, 200, 300)", ["(100, 200,300)", "(100,200,300)"]),
        ("(100, 200,300)", ["(100,200,300)", "(100, 200, 300)"]),
        ("10,000", ["(10,000)", "(10000)"]),
        ("x+y", [r"x+\text{ y }"]),
        ("2e", [r"2\text{ e }"]),
        ("(A) B", ["A"]),
    ],
)
def test_a_right_answer_with_a_unit_a_word_or_a_space_more_is_right(gold: str, answers: list[str]) -> None:
    assert [answer for answer in answers if not equivalent(gold, answer)] == []


@pytest.mark.parametrize(
    ("gold", "answers"),
    [
        (r"\emptyset", ["", "x=", ".", r"\$", r"\quad"]),
        ("no solution", ["", "."]),
        ("5", [rf"\text{{The answer is 5 {it}}}" for it in ("over two", "point five", "root two", "pi", "by six")]),
        ("5", [rf"\text{{The answer is 5 {it}}}" for it in ("out of ten", "to ten", "higher", "sixths")]),
        ("5", [r"\text{twice the answer is } 5", r"\text{half of it is } 5"]),
    ],
)
def test_nothing_at_all_and_words_that_change_a_value_are_wrong(gold: str, answers: list[str]) -> None:
    assert [answer for answer in answers if equivalent(gold, answer)] == []


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 999), st.integers(1, 98), st.sampled_from(["{} {}/{}", r"{}\ {}/{}", r"{} \frac{{{}}}{{{}}}"]))
def test_a_number_before_a_proper_fraction_is_added_to_it(whole: int, above: int, spelling: str) -> None:
    assert equivalent(rf"\frac{{{99 * whole + above}}}{{99}}", spelling.format(whole, above, 99))
    assert not equivalent(rf"\frac{{{whole * above}}}{{99}}", spelling.format(whole, above, 99))
    assert not equivalent(rf"\frac{{{2 * 99 * whole + above}}}{{99}}", f"{whole} {99 * whole + above}/99")


@pytest.mark.parametrize("counter", ["개", "명", "枚", "こ", "个"])
def test_a_counter_of_another_language_changes_no_number(counter: str) -> None:
    assert equivalent("60", rf"60\text{{{counter}}}") and equivalent("60", f"60{counter}")
    assert not equivalent("60", rf"61\text{{{counter}}}")


@settings(deadline=None, max_examples=30)
@given(*[st.sampled_from(["3", "a", r"\pi", r"\theta"])] * 2, st.sampled_from(["frac", "dfrac"]))
def test_arguments_without_braces_are_those_with(over: str, under: str, command: str) -> None:
    assert equivalent(rf"\frac{{{over}}}{{{under}}}", rf"\{command} {over} {under}")
    assert equivalent(rf"\sqrt{{{over}}}", rf"\sqrt {over}") and not equivalent(over, rf"\sqrt {over}")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 999), st.integers(100, 999), st.sampled_from(["({},{})", "[{},{})", r"({},{}^\circ)"]))
def test_a_comma_in_brackets_parts_two_values_and_one_in_text_thousands(first: int, second: int, list_of: str) -> None:
    together = list_of.format(first, second)
    assert equivalent(together, list_of.replace(",", ", ").format(first, second))
    assert not equivalent(together, list_of.replace(",", "").format(first, second))
    assert equivalent(f"{first}{second}", rf"{first}\text{{,}}{second}")


@settings(deadline=None, max_examples=30)
@given(st.sets(st.integers(1, 99), min_size=2, max_size=4))
def test_an_order_of_numbers_may_be_read_from_either_end_and_is_no_other(numbers: set[int]) -> None:
    rises, falls = sorted(numbers), sorted(numbers, reverse=True)
    order = " < ".join(map(str, rises))
    assert equivalent(order, " > ".join(map(str, falls))) and equivalent(order, r" < ".join(f"{it}.0" for it in rises))
    assert not equivalent(order, " < ".join(str(it + 1) for it in rises))
    assert not equivalent(order, " < ".join(map(str, falls))) and not equivalent(order, order.replace("<", r"\le", 1))


@pytest.mark.parametrize(
    ("gold", "answer", "is_right"),
    [
        ("[2,5)", r"2 \le x < 5", True),
        ("[2,5)", r"\{x \in \mathbb{R} : 2 \leq x < 5\}", True),
        ("[2,5)", "2 < x < 5", False),
        ("(1,4)", r"x > 1 \text{ and } x < 4", True),
        (r"(-\infty,-2)\cup(3,\infty)", r"x < -2 \text{ or } x > 3", True),
        (r"(-\infty,-2)\cup(3,\infty)", r"x \in (-\infty,-2) \text{ or } x \in (3,\infty)", True),
        (r"(-\infty,-2)\cup(3,\infty)", r"x < -2 \text{ or } x \ge 3", False),
        (r"(-\infty,-2)\cup(3,\infty)", "-2 < x < 3", False),
        (r"(-\infty,3)\cup(3,\infty)", r"x \neq 3", True),
        (r"x < -2 \text{ or } x > 3", r"(-\infty,-2)\cup(3,\infty)", True),
        (r"x \in [-2,7]", r"-2 \le x \le 7", True),
        (r"x \ge 4", r"[4,\infty)", True),
    ],
)
def test_an_interval_may_be_written_as_an_inequality(gold: str, answer: str, is_right: bool) -> None:
    assert equivalent(gold, answer) == is_right


@pytest.mark.parametrize(
    ("gold", "response", "is_right"),
    [
        ("103", r"$\boxed{104}$ or $\boxed{103}$", False),
        ("103", r"$\boxed{103}$ or $\boxed{104}$", False),
        ("103", r"\boxed{104} (or possibly \boxed{103})", False),
        ("103", r"\boxed{104}. Or \boxed{103}", False),
        ("103", r"\boxed{104}/\boxed{103}", False),
        ("103", r"\boxed{104}; alternatively, \boxed{103}", False),
        ("103", r"\boxed{104 \text{ or } \boxed{103}}", False),
        ("103", r"\boxed{104}, \boxed{103}", False),
        ("103", "\\boxed{104}\n\\boxed{103}", False),
        ("2,3", r"$\boxed{2}$ or $\boxed{3}$", False),
        (r"\frac{1}{2}", r"\boxed{\frac{1}{2}} or \boxed{0.5}", True),
        ("103", "\\[\\boxed{103}\\]\n\n\\[\\boxed{103}\\]", True),
        ("2,3", r"$\boxed{2}$ and $\boxed{3}$", True),
        ("2,3,5", r"\boxed{2}, \boxed{3}, and \boxed{5}", True),
        ("(3,-1)", r"$x = \boxed{3}$ and $y = \boxed{-1}$", True),
        ("103", r"First \boxed{104}. Wait, actually \boxed{103}.", True),
        ("103", r"So $a = \boxed{104}$. Thus the answer is $\boxed{103}$.", True),
    ],
)
def test_boxes_joined_by_and_are_one_set_and_no_alternative_earns_anything(
    gold: str, response: str, is_right: bool
) -> None:
    boxes = final_boxes(response)
    assert boxes is not None
    assert right(gold, boxes) == is_right
