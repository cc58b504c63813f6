"""Texts that end a response: both engines cut at the same token, and what is graded is what stands before."""

import torch
from hypothesis import given
from hypothesis import strategies as some

from rlzoo.config import ModelConfig, RolloutConfig
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.decoding import EVERY, Watch, cut_at_stop, text_before
from rlzoo.rollout.transformers_engine import TransformersEngine
from tests.model.tiny_models import tiny_policy
from tests.training.recording import sampled_responses

TEXTS = some.text("abc", max_size=30)


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


def test_nothing_is_cut_without_a_stop_text() -> None:
    assert text_before("abc", []) is None


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
