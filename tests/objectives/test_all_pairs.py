"""Every pair of recipes that goes together obeys the laws. The pairs are dealt into shards by their names; which shards
have passed with the package as it is, is kept in pytest's cache, so that a run that was stopped goes on where it was.
"""

from hashlib import blake2b
from pathlib import Path

import pytest

import objectives
from tests.objectives import laws
from tests.objectives.zoo_sample import PAIRS
from tests.thinned import thinned

SHARDS = 24


def digest(*texts: bytes) -> str:
    return blake2b(b"\0".join(texts), digest_size=8).hexdigest()


def sources() -> str:
    """What the outcome depends on: the package, and the laws."""
    files = [*Path(objectives.__file__).parent.rglob("*.py"), *Path(laws.__file__).parent.glob("*.py")]
    return digest(*(path.read_bytes() for path in sorted(files)))


def shard_of(expression: str) -> int:
    return int(digest(expression.encode()), 16) % SHARDS


@pytest.mark.parametrize("shard", thinned(range(SHARDS), fast=0, slow=0))
def test_every_pair_obeys_every_law(shard: int, cache: pytest.Cache) -> None:
    passed = f"objectives/{sources()}/{shard}"
    if cache.get(passed, False):
        print(f"shard {shard} has passed before")
        return
    for expression in PAIRS:
        if shard_of(expression) == shard:
            for law in laws.LAWS.values():
                law(expression)
    cache.set(passed, True)


def test_every_pair_is_in_a_shard_and_no_shard_is_much_larger_than_the_others() -> None:
    sizes = [sum(shard_of(expression) == shard for expression in PAIRS) for shard in range(SHARDS)]
    assert sum(sizes) == len(PAIRS)
    assert max(sizes) < 4 * len(PAIRS) / SHARDS
