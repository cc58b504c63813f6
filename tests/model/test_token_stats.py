from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rlzoo.model import token_stats as module
from rlzoo.model.token_stats import head_logits, token_stats, token_stats_of_logits

ROWS, SIZE, VOCABULARY = 7, 12, 1000


def leaf(*shape: int, dtype: torch.dtype = torch.float64, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, dtype=dtype) * scale).requires_grad_()


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return (
        leaf(ROWS, SIZE, dtype=dtype),
        leaf(VOCABULARY, SIZE, dtype=dtype),
        leaf(VOCABULARY, dtype=dtype),
        torch.tensor([0, 999, 255, 256, 511, 700, 999]),
    )


def full(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, temperature: float, softcap: float | None
) -> tuple[Tensor, Tensor]:
    """The textbook calculation on whole logits."""
    logits = hidden @ weight.T if bias is None else hidden @ weight.T + bias
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    distribution = torch.distributions.Categorical(logits=logits / temperature)
    return distribution.log_prob(targets), distribution.entropy()


@pytest.mark.parametrize("width", [256, 333, 999, 1000, 5000])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize(("with_bias", "softcap"), [(False, None), (True, None), (True, 2.5)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-5)])
def test_fused_equals_full_logits_in_value_and_gradient_whatever_the_block(
    width: int,
    temperature: float,
    with_bias: bool,
    softcap: float | None,
    dtype: torch.dtype,
    tolerance: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CPU_BLOCK", width * ROWS)
    hidden, weight, bias, targets = inputs(dtype)
    used = bias if with_bias else None
    leaves = [hidden, weight, bias] if with_bias else [hidden, weight]
    exact = [t.detach().double().requires_grad_() for t in leaves]
    logp, entropy, _ = token_stats(hidden, weight, targets, temperature, used, with_entropy=True, softcap=softcap)
    expected = full(exact[0], exact[1], exact[2] if with_bias else None, targets, temperature, softcap)
    assert entropy is not None and logp.dtype == entropy.dtype == dtype
    for found, value in zip((logp, entropy), expected, strict=True):
        torch.testing.assert_close(found.double(), value, rtol=tolerance, atol=tolerance)
        upstream = torch.linspace(-1, 2, ROWS, dtype=dtype)
        gradients = torch.autograd.grad(found @ upstream, leaves, retain_graph=True)
        for gradient, reference in zip(
            gradients, torch.autograd.grad(value @ upstream.double(), exact, retain_graph=True), strict=True
        ):
            torch.testing.assert_close(gradient.double(), reference, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.slow
def test_compiled_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CPU_BLOCK", 300 * ROWS)
    hidden, weight, bias, targets = inputs(torch.float32)
    for softcap, temperature, with_entropy in ((None, 1.0, False), (3.0, 0.7, True)):
        arguments = (hidden, weight, targets, temperature, bias, with_entropy, softcap, True)
        results = [token_stats(*arguments, compiled=it) for it in (True, False)]
        sums = [sum((value * torch.linspace(-1, 2, ROWS)).sum() for value in it[: 1 + with_entropy]) for it in results]
        slopes = [torch.autograd.grad(it, (hidden, weight, bias)) for it in sums]
        for found, expected in zip((*results[0], *slopes[0]), (*results[1], *slopes[1]), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_gradients_pass_the_numerical_check() -> None:
    torch.manual_seed(0)
    hidden, weight, bias, targets = leaf(3, 4), leaf(300, 4), leaf(300), torch.tensor([0, 256, 299])

    def both(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor | None]:
        return token_stats(hidden, weight, targets, 0.8, bias, with_entropy=True, softcap=3.0)[:2]

    assert torch.autograd.gradcheck(both, (hidden, weight, bias), fast_mode=True)


def test_a_weight_tied_to_the_embedding_gets_both_gradients() -> None:
    _, weight, _, targets = inputs()
    ids = torch.arange(ROWS)

    def gradient(statistics: Any) -> Tensor:
        logp, entropy, *_ = statistics(torch.nn.functional.embedding(ids, weight).tanh())
        return torch.autograd.grad((logp + 0.3 * entropy).sum(), weight)[0]

    fused = gradient(lambda hidden: token_stats(hidden, weight, targets, 1.0, with_entropy=True))
    torch.testing.assert_close(fused, gradient(lambda hidden: full(hidden, weight, None, targets, 1.0, None)))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 700), st.floats(0.1, 3.0), st.floats(0.01, 30.0), st.integers(0, 2**31))
def test_any_shape_temperature_and_scale(
    rows: int, vocabulary: int, temperature: float, scale: float, seed: int
) -> None:
    torch.manual_seed(seed)
    hidden, weight = leaf(rows, 5, scale=scale), leaf(vocabulary, 5)
    targets = torch.randint(vocabulary, (rows,))
    found = token_stats(hidden, weight, targets, temperature, with_entropy=True)[:2]
    expected = full(hidden, weight, None, targets, temperature, None)
    for value, reference in zip(found, expected, strict=True):
        assert value is not None
        torch.testing.assert_close(value, reference, rtol=1e-9, atol=1e-9)
        gradient, other = (torch.autograd.grad(v.sum(), hidden, retain_graph=True)[0] for v in (value, reference))
        torch.testing.assert_close(gradient, other, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("width", [256, 333, 5000])
@pytest.mark.parametrize("with_entropy", [False, True])
def test_sums_of_squares_are_those_of_the_full_distribution_and_change_nothing_else(
    width: int, with_entropy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CPU_BLOCK", width * ROWS)
    hidden, weight, bias, targets = inputs()
    settings = (hidden, weight, targets, 0.7, bias, with_entropy, 2.5)
    plain, asked = token_stats(*settings), token_stats(*settings, with_squares=True)
    assert plain[2] is None and asked[2] is not None and not asked[2].requires_grad
    assert all(torch.equal(a, b) for a, b in zip(plain[:2], asked[:2], strict=True) if a is not None)
    logits = 2.5 * ((hidden @ weight.T + bias) / 2.5).tanh() / 0.7
    expected = logits.softmax(-1).square().sum(-1)
    torch.testing.assert_close(asked[2], expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(token_stats_of_logits(logits * 0.7, targets, 0.7, with_squares=True)[2], expected)
    gradients = [torch.autograd.grad(values[0].sum(), hidden)[0] for values in (plain, asked)]
    assert torch.equal(*gradients)


def test_only_what_needs_a_gradient_gets_one() -> None:
    hidden, weight, _, targets = inputs()
    logp, entropy, _ = token_stats(hidden, weight.detach(), targets, 1.0)
    assert entropy is None
    logp.sum().backward()
    assert hidden.grad is not None and weight.grad is None


def test_no_rows_give_no_statistics_and_zero_gradients() -> None:
    hidden, weight = leaf(0, SIZE), leaf(VOCABULARY, SIZE)
    logp, entropy, _ = token_stats(hidden, weight, torch.zeros(0, dtype=torch.long), 1.0, with_entropy=True)
    assert entropy is not None and logp.shape == entropy.shape == (0,)
    (logp.sum() + entropy.sum()).backward()
    assert weight.grad is not None and not weight.grad.any()


def test_autocast_rounds_the_operands_but_never_the_logits() -> None:
    hidden, weight, bias, targets = inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        logp, entropy, _ = token_stats(hidden, weight, targets, 0.9, bias, with_entropy=True)
        logits = head_logits(hidden, weight, bias)
    assert entropy is not None and logp.dtype == entropy.dtype == logits.dtype == torch.float32
    rounded = hidden.bfloat16().double(), weight.bfloat16().double()
    unrounded = hidden.double(), weight.double()  # for a CPU that cannot multiply in bfloat16
    expected = [full(*operands, bias.double(), targets, 0.9, None) for operands in (rounded, unrounded)]
    assert min(max((logp - e[0]).abs().max(), (entropy - e[1]).abs().max()) for e in expected) < 1e-5
    assert min((logits - (h @ w.T + bias)).abs().max() for h, w in (rounded, unrounded)) < 1e-5
    (gradient,) = torch.autograd.grad((logp + entropy).sum(), weight)
    (exact,) = torch.autograd.grad(sum(full(hidden, weight, bias, targets, 0.9, None)).sum(), weight)
    torch.testing.assert_close(gradient, exact, rtol=0, atol=0.02 * float(exact.abs().max()))


def test_precision_settings_are_left_as_they_were() -> None:
    hidden, weight, _, targets = inputs(torch.float32)
    matmul: Any = torch.backends.mkldnn.matmul
    before = matmul.fp32_precision
    with torch.autocast("cpu", torch.bfloat16):
        logp, _, _ = token_stats(hidden, weight, targets, 1.0)
        logp.sum().backward()
        with pytest.raises(RuntimeError):
            token_stats(hidden, weight[:, :3], targets, 1.0)
        assert torch.is_autocast_enabled("cpu")
    assert matmul.fp32_precision == before


def test_the_logits_never_exist_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CPU_BLOCK", 2**16)
    torch.manual_seed(0)
    hidden, weight, targets = leaf(512, 4), leaf(5_000, 4), torch.randint(5_000, (512,))
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    with Watch():
        logp, entropy, _ = token_stats(hidden, weight, targets, 1.0, with_entropy=True)
        assert entropy is not None
        (logp.sum() + entropy.sum()).backward()
    assert largest <= 2 * 2**16


def test_statistics_of_existing_logits_are_the_same() -> None:
    hidden, weight, bias, targets = inputs()
    found = token_stats_of_logits(head_logits(hidden, weight, bias), targets, 0.6, with_entropy=True)
    for value, expected in zip(found[:2], full(hidden, weight, bias, targets, 0.6, None), strict=True):
        assert value is not None
        torch.testing.assert_close(value, expected)
