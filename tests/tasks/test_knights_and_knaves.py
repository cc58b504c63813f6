import pytest

from rlzoo.tasks.base import Problem
from rlzoo.tasks.dataset import DatasetGrader

GOLD = "(1) Zoey is a knight\n(2) Owen is a knave"
RIGHT = "<think>Suppose ...</think><answer>(1) Zoey is a knight\n(2) Owen is a knave</answer>"


def reward(response: str, prompt: str = "?") -> tuple[float, float]:
    grade = DatasetGrader()(Problem("0", prompt, GOLD, {"data_source": "kk_logic4"}), response)
    return grade.reward, grade.correct


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (RIGHT, 3.0),
        (RIGHT.replace("Zoey is a knight", "zoey  is a KNIGHT"), 3.0),
        (RIGHT.replace("Owen is a knave", "Owen is a knight"), -0.5),
        (RIGHT.replace("Owen is a knave", "Owen: knave"), -1.0),
        (RIGHT.replace("(2)", "(2) Owen is a knight (3)"), -1.0),
        (RIGHT.replace("\n(2) Owen is a knave", ""), -1.0),
        ("<think></think><answer></answer>", -1.0),
        (RIGHT.removesuffix("</answer>"), -3.0),
        (RIGHT.removeprefix("<think>"), -3.0),
        (RIGHT + "</answer>", -3.0),
        ("<answer>(1) Zoey is a knight\n(2) Owen is a knave</answer><think></think>", -3.0),
        ("", -3.0),
    ],
)
def test_rewards_are_those_of_logic_rl(response: str, expected: float) -> None:
    assert reward(response) == (expected, float(expected == 3.0))


def test_a_think_tag_that_the_prompt_has_opened_counts() -> None:
    rest = RIGHT.removeprefix("<think>")
    assert reward(rest, prompt="<|im_start|>assistant\n<think>")[0] == 3.0
    assert reward(RIGHT, prompt="<|im_start|>assistant\n<think>")[0] == -3.0
