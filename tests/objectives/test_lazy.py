"""Expressions are read, checked and shown without torch; what calculates brings it."""

import subprocess
import sys

import pytest
import torch

from objectives.lazy import Tensor, without_gradients
from objectives.lazy import torch as lazy

CODE = """
import sys
import objectives
NAMES = [name.name for name in objectives.names() if not name.asked]
{}
print("torch" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "calculates"),
    [
        ("", False),
        ("print(objectives.parse('stapo+clip_higher').equation, file=sys.stderr)", False),
        ("[(objective := objectives.parse(name)).describe() for name in NAMES]; repr(objective)", False),
        ("objectives.lots(objectives.batch.torch.zeros(2).long(), 3, seed=0)", True),
    ],
)
def test_the_zoo_imports_torch_when_something_is_calculated(code: str, calculates: bool) -> None:
    done = subprocess.run([sys.executable, "-c", CODE.format(code)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{calculates}\n"


def test_what_stands_for_torch_is_torch() -> None:
    assert lazy.zeros is torch.zeros
    assert isinstance(torch.zeros(1), Tensor)
    assert not isinstance(1.0, Tensor)
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        lazy.zeroes  # noqa: B018


def test_what_is_without_gradients_has_none() -> None:
    value = torch.ones(1, requires_grad=True)
    assert not without_gradients(lambda: value * 2)().requires_grad
    assert (value * 2).requires_grad
