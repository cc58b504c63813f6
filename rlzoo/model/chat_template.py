"""A chat template is a program of whoever made a model: for a prompt it gets so much time, memory and text."""

import resource
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from rlzoo.errors import UserError, one_line
from rlzoo.signals import within

SECONDS = 10.0
"""Of calculation; it takes milliseconds."""
MEMORY = 2**29
"""Bytes, beside what this process has; what a template multiplies in one operation no time-out could stop."""
MOST_TEXT = 2**23
"""Characters, which are more than any model reads."""


class FailingTemplate(UserError):
    """`why` says what a template does wrong, `remedy` what to do about it."""

    def __init__(self, model: str, why: str, remedy: str = "set model.chat_template=none") -> None:
        super().__init__(f"model.chat_template=auto: the chat template of {model} {why}; {remedy}")
        self.model, self.why = model, why


def rendered(backend: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], **options: Any) -> str:
    """What the template makes of messages. Raises FailingTemplate for one that fails, or takes more than it gets."""
    try:
        with within(SECONDS), _memory_within(MEMORY):
            text = str(backend.apply_chat_template([dict(message) for message in messages], tokenize=False, **options))
    except TimeoutError:
        why = f"takes more than {SECONDS:g} s"
    except MemoryError:
        why = f"takes more than {MEMORY >> 20} MiB"
    except Exception as error:  # a template may raise what it likes, and divide by zero
        why = f"fails ({one_line(error)})"
    else:
        why = f"writes more than {MOST_TEXT} characters" if len(text) > MOST_TEXT else ""
        if not why:
            return text
    raise FailingTemplate(backend.name_or_path, why)


@contextmanager
def _memory_within(more: int) -> Iterator[None]:
    """While this process may take so many bytes more than it has.

    Without a limit where the system tells neither, and beside other threads at work, which the limit would be for too.
    """
    if not _is_alone():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(
            resource.RLIMIT_AS, (min([taken + more, *(limit for limit in (soft, hard) if limit >= 0)]), hard)
        )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _is_alone() -> bool:
    """Whether this is the main thread, and no other works that Python would wait for."""
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    return threading.current_thread() is threading.main_thread() and all(thread.daemon for thread in others)
