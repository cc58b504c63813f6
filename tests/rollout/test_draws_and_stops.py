"""How responses are decoded: what is drawn and what is said of it, and the texts that end a response."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from scipy.stats import chisquare
from torch import Tensor

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.rollout.base import EVERY, Sampling, Watch, cut_at_stop, draw, offset, uniform
from rlzoo.rollout.transformers_engine import TransformersEngine
from tests.model.tiny_models import tiny_policy
from tests.training.recording import sampled_responses


def nucleus(logits: Tensor, top_p: float) -> Tensor:
    """The textbook nucleus: sort, cut where the mass before a token has reached top_p, renormalise."""
    ordered, order = logits.double().softmax(-1).sort(descending=True)
    kept = ordered * (ordered.cumsum(-1) - ordered < top_p)
    return torch.zeros_like(kept).scatter(-1, order, kept / kept.sum(-1, keepdim=True))


@pytest.mark.parametrize("vocabulary", [5, 256, 300, 1000])
@pytest.mark.parametrize(("temperature", "top_p", "scale"), [(1.0, 1.0, 2.0), (0.7, 0.9, 2.0), (1.3, 0.95, 0.1)])
def test_log_probs_and_entropies_are_exactly_those_of_what_was_sampled_from(
    vocabulary: int, temperature: float, top_p: float, scale: float
) -> None:
    torch.manual_seed(0)
    logits = torch.randn(64, vocabulary) * scale
    exact = nucleus(logits / temperature, top_p)
    tokens, logp, entropy = draw(logits.clone(), Sampling(1, temperature, top_p), uniform(0, 0, torch.arange(64)))
    chosen = exact.gather(1, tokens[:, None])[:, 0]
    assert (chosen > 0).all()
    torch.testing.assert_close(logp.double(), chosen.log(), rtol=0, atol=1e-5)
    torch.testing.assert_close(entropy.double(), torch.special.entr(exact).sum(-1), rtol=0, atol=1e-5)
    assert logp.dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("vocabulary", [12, 700])
@pytest.mark.parametrize("top_p", [1.0, 0.8])
def test_tokens_are_as_frequent_as_they_are_probable(vocabulary: int, top_p: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(1, vocabulary) * 2
    rows = 100_000
    tokens = torch.cat(
        [
            draw(logits.expand(1000, -1).clone(), Sampling(1, 1.0, top_p), uniform(3, i, torch.arange(1000)))[0]
            for i in range(100)
        ]
    )
    expected = nucleus(logits, top_p)[0] * rows
    counts = tokens.bincount(minlength=vocabulary)
    assert not counts[expected == 0].any()
    common = expected > 20
    observed = [*counts[common].tolist(), int(counts[~common].sum())]
    wanted = [*expected[common].tolist(), float(expected[~common].sum())]
    cells = [i for i, w in enumerate(wanted) if w > 0]
    assert chisquare([observed[i] for i in cells], [wanted[i] for i in cells]).pvalue > 1e-3


def test_a_nucleus_of_many_tokens_is_cut_as_exactly_as_one_of_few() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 2000) * torch.tensor([[0.01], [5.0], [1.0]])
    numbers = torch.linspace(0, 0.99999994, 3000)
    for row in range(3):
        tokens, _, _ = draw(logits[[row]].repeat(3000, 1), Sampling(1, 1.0, 0.9), numbers)
        reachable = nucleus(logits[row], 0.9) > 1 / 2000
        assert set(reachable.nonzero().flatten().tolist()) <= set(tokens.tolist())
        assert (nucleus(logits[row], 0.9)[tokens] > 0).all()


@pytest.mark.parametrize("number", [0.0, 1e-8, 0.5, 1 - 2**-24])
@pytest.mark.parametrize("possible", [0, 255, 256, 511, 599])
def test_impossible_tokens_are_never_drawn(number: float, possible: int) -> None:
    logits = torch.full((2, 600), -math.inf)
    logits[:, possible] = 0
    tokens, logp, _ = draw(logits, Sampling(1), torch.tensor([number, number], dtype=torch.float32))
    assert tokens.tolist() == [possible, possible] and not logp.any()


def test_greedy_takes_the_likeliest_and_reports_the_untempered_distribution() -> None:
    torch.manual_seed(0)
    logits = torch.randn(9, 500) * 3
    tokens, logp, _ = draw(logits.clone(), Sampling(1, 0.0, 0.5), uniform(0, 0, torch.arange(9)))
    assert tokens.tolist() == logits.argmax(-1).tolist()
    torch.testing.assert_close(logp, logits.log_softmax(-1).amax(-1))


def test_numbers_depend_on_seed_step_and_row_alone() -> None:
    assert torch.equal(uniform(1, 2, torch.arange(50))[7:20:3], uniform(1, 2, torch.arange(7, 20, 3)))
    draws = [uniform(*key, torch.arange(20)).tolist() for key in ((1, 2), (2, 1), (1, 3), (0, 2))]
    assert len({tuple(numbers) for numbers in draws}) == 4


def test_top_k_and_min_p_leave_what_they_say_and_renormalise() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.07, 0.03])
    kept = [
        (Sampling(1, top_k=2), 2),
        (Sampling(1, top_k=9), 5),
        (Sampling(1, min_p=0.45), 3),  # of the likeliest, not of all
        (Sampling(1, min_p=0.5, top_k=1), 1),
        (Sampling(1, top_p=0.5, top_k=2), 1),  # 0.4 of 0.7 is a nucleus of 0.5
        (Sampling(1, temperature=0.5, min_p=0.5), 2),
    ]
    for sampling, count in kept:
        scaled = (probabilities ** (1 / sampling.temperature))[:count]
        expected = scaled / scaled.sum()
        lot = torch.arange(20_000)
        logits = probabilities.log().expand(len(lot), -1).clone()
        tokens, logp, entropy = draw(logits, sampling, uniform(1, 0, lot))
        assert tokens.max() < count
        assert torch.bincount(tokens, minlength=count) / len(lot) == pytest.approx(expected.numpy(), abs=0.02)
        assert torch.allclose(logp, expected.log()[tokens], atol=1e-5)
        assert torch.allclose(entropy, -(expected * expected.log()).sum(), atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_noise_is_the_same_offset_of_a_tokens_logit_in_every_row_and_log_probs_are_those_with_it(
    temperature: float,
) -> None:
    logits = torch.randn(64, 500, generator=torch.Generator().manual_seed(1))
    added = offset(2.0, 500)
    assert 1.8 < added.std() < 2.2 and abs(added.mean()) < 0.3
    noisy = draw(logits.clone(), Sampling(1, temperature, noise=2.0), uniform(0, 0, torch.arange(64)))
    for found, expected in zip(
        noisy, draw(logits + added, Sampling(1, temperature), uniform(0, 0, torch.arange(64))), strict=True
    ):
        assert torch.equal(found, expected)


# ---- texts that end a response: what is graded is what stands before ------------------------------------------------


def decode(tokens: list[int]) -> str:
    """Tokens are letters and pairs of them."""
    return "".join(("a", "b", "c", "ab", "bc")[token] for token in tokens)


@given(some.lists(some.integers(0, 4), min_size=1, max_size=30), some.lists(some.sampled_from(["ca", "bb", "abc"])))
def test_a_response_ends_with_the_token_that_completes_a_stop_text(tokens: list[int], stop: list[str]) -> None:
    row = torch.tensor([tokens])
    said = sampled_responses([[0]], torch.tensor([0]), row, torch.tensor([len(tokens)]), torch.zeros(row.shape))
    said.truncated[:] = True
    cut, (text,) = cut_at_stop(said, stop, decode)  # type: ignore[arg-type]
    whole, length = decode(tokens), int(cut.lengths)
    places = [whole.index(it) for it in stop if it in whole]
    assert text == (whole[: min(places)] if places else whole)
    assert bool(cut.truncated) == (not places)
    if places:
        assert not any(it in decode(tokens[: length - 1]) for it in stop)
        assert any(it in decode(tokens[:length]) for it in stop)
    assert cut.mask.sum() == length == (cut.tokens[0, :length] == row[0, :length]).sum()
    assert not cut.tokens[0, length:].any()


def test_a_watch_lets_go_of_what_has_a_stop_text_and_of_nothing_else() -> None:
    watch = Watch(["ca"], decode)  # type: ignore[arg-type]
    stays = [watch.go_on([5, 7], [2 if step == 3 else 0, 1]) for step in range(2 * EVERY)]
    assert stays[: EVERY - 1] == [[True, True]] * (EVERY - 1) and stays[EVERY - 1] == [False, True]


def test_an_engine_that_stops_early_gives_what_one_that_does_not_is_cut_to() -> None:
    class Letters:
        """A tokenizer whose tokens are letters."""

        stop_tokens = frozenset([59])

        def decode(self, tokens: list[int]) -> str:
            """One for each token."""
            return "".join(chr(48 + token) for token in tokens)

    policy, stop = tiny_policy("qwen3"), tuple(map(chr, range(48, 200)))
    sampler = TransformersEngine(policy, Letters(), RolloutConfig(), ModelConfig())  # type: ignore[arg-type]
    prompts = [[1, 2, 3], [4, 5]]
    early, late = (sampler.generate(prompts, 20, Sampling(60, stop=it), seed=0) for it in (stop, ()))
    pairs = [cut_at_stop(it, stop, Letters().decode) for it in (early, late)]  # type: ignore[arg-type]
    assert pairs[0][1] == pairs[1][1]
    assert pairs[0][0].lengths.tolist() == pairs[1][0].lengths.tolist()
    assert early.tokens.shape[1] < late.tokens.shape[1]
