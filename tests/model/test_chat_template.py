"""What limits a chat template, and whom it must not limit."""

import resource
import threading
from typing import Any

import pytest

from rlzoo.model.tokenizer import TEMPLATE_MEMORY, rendered


class Seen:
    """A tokenizer that keeps the limit of memory under which its template is rendered."""

    name_or_path = "seen"
    limit = 0

    def apply_chat_template(self, messages: Any, **options: Any) -> str:
        """The limit is kept."""
        self.limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return "text"


@pytest.mark.parametrize("beside", [False, True])
def test_a_template_has_a_limit_of_memory_that_no_thread_at_work_shares(beside: bool) -> None:
    before, seen, done = resource.getrlimit(resource.RLIMIT_AS), Seen(), threading.Event()
    working = threading.Thread(target=done.wait)
    if beside:
        working.start()
    rendered(seen, [])  # type: ignore[arg-type]
    done.set()
    assert (seen.limit == before[0]) is beside
    assert beside or (seen.limit > 0 and TEMPLATE_MEMORY > 0)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
