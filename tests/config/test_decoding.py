"""How decodings are written, and what they are called."""

import pytest

from rlzoo.config.decoding import Decoding
from rlzoo.errors import UserError


@pytest.mark.parametrize(
    ("text", "decoding", "said", "slug"),
    [
        ("0.7/0.9", Decoding(0.7, 0.9), "T=0.7, top-p=0.9", "T0.7-p0.9"),
        ("0.6/0.95/20", Decoding(0.6, 0.95, 20), "T=0.6, top-p=0.95, top-k=20", "T0.6-p0.95-top20"),
        ("1/1/0/0.05", Decoding(1.0, 1.0, 0, 0.05), "T=1, top-p=1, min-p=0.05", "T1-p1-min0.05"),
    ],
)
def test_a_decoding_is_read_and_said(text: str, decoding: Decoding, said: str, slug: str) -> None:
    assert Decoding.parse(text) == decoding
    assert (str(decoding), decoding.slug) == (said, slug)


@pytest.mark.parametrize("text", ["1", "1/1/1.5", "1/1/-1", "1/1/5/2", "0/1/5", "0/1/0/0.1", "1/1/1/0/0", "1/x"])
def test_a_decoding_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="cannot be used"):
        Decoding.parse(text)
