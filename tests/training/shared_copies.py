"""Runs whose processes share copies, held to runs of one process; and processes that are pretended."""

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from rlzoo.model.accelerator import make_accelerator
from tests.processes import FOUR, launch
from tests.training.rank_shards import FIRST, steps
from tests.training.test_ranks import agree


@contextmanager
def pretended(process: int, processes: int) -> Iterator[None]:
    """As if this were one of so many, who say nothing to each other."""
    distributed.init_process_group("fake", store=FakeStore(), rank=process, world_size=processes)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def hold_several_to_one(folder: Path) -> None:
    """Four processes, two of which share a copy, take the steps of one, and each goes on from what the other saved."""
    accelerator = make_accelerator("float32")
    begun, ended = folder / "one", folder / "whole"
    whole = steps(begun, accelerator, FIRST)
    shutil.copytree(begun, ended)
    whole += steps(ended, accelerator, FIRST + 1)
    launch([*FOUR, "-m", "tests.training.rank_shards", folder])
    same(json.loads((folder / "several.json").read_text()), whole, shards=2)
    same(steps(folder / "several", accelerator, FIRST + 1), whole[FIRST:], shards=1)


def same(found: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]], shards: int) -> None:
    """The same steps but for rounding."""
    for a, b in zip(found, expected, strict=True):
        assert unpadded(a["tokens"]) == unpadded(b["tokens"])
        agree(a["metrics"], b["metrics"])
        assert a["handed_over"] == b["handed_over"] and len(a["handed_over"]) > 50
        assert a["weights_here"] * shards == b["weights_here"]


def unpadded(rows: Sequence[Sequence[int]]) -> list[list[int]]:
    """Without the zeros behind them, of which more processes may have more."""
    return [list(row[: max(place for place, token in enumerate(row, 1) if token)]) for row in rows]
