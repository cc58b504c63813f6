"""What helps where memory is short: the keys that say how much is held at once, with their values."""

from collections.abc import Iterator
from contextlib import contextmanager

from rlzoo.config import Config
from rlzoo.errors import Fault, is_out_of_memory, one_line


def less_memory(config: Config, learns: bool = True) -> str:
    """That memory is short, and by which keys half as much is held: of scoring and training, and of sampling."""
    tokens, rows = config.train.tokens_per_micro_batch, config.rollout.rows_per_batch
    scoring = f"train.tokens_per_micro_batch={tokens} holds all of them at once, {max(1, tokens // 2)} half of that; "
    sampling = f"in sampling rollout.rows_per_batch={rows} does, {max(1, rows // 2)} half"
    if not learns:
        scoring, sampling = "", f"rollout.rows_per_batch={rows} samples them at once, {max(1, rows // 2)} half of that"
    return f"out of memory: {scoring}{sampling}; rlzoo fit says what fits"


@contextmanager
def shortage_named(config: Config, learns: bool, where: str = "") -> Iterator[None]:
    """While a model is at work: raises Fault where memory is short, naming keys, and `where` they are said."""
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise Fault(f"{less_memory(config, learns)}{where} ({one_line(error)})") from None
        raise
