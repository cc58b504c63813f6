"""The errors that are one line, how they are worded, and what a text is before it is shown."""

import difflib
import errno
import logging
import os
import textwrap
import unicodedata
from collections.abc import Iterable


class UserError(Exception):
    """Bad input, said in one line: the key, the value, and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """


class Fault(Exception):
    """A failure that is no user mistake (full disk, no memory), in one line: what happened, what is saved, what to do.

    The command line prints it without a traceback and exits with status 1.
    """


_OF_THE_MACHINE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make room, and give the same command again"),
    errno.ENOENT: "something has removed it meanwhile; put it back, or choose another folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable and readable, or choose another"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise the limit of open files: ulimit -n"),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG), "choose another output="),
    **dict.fromkeys((errno.EIO, errno.ESTALE), "the disk fails; see to it, and give the same command again"),
}
"""What may befall a file, and what to do then."""


_OF_A_LOST_PROCESS = ("connection closed", "connection reset", "broken pipe", "timed out", "timeout", "exited", "abort")
LOST_PROCESS = "another process of this run is gone; what it said, or who killed it, says why"


def is_disk_full(error: BaseException) -> bool:
    """Whether it says so, in a number or, as libraries do, in words."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or os.strerror(errno.ENOSPC) in str(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine or its accelerator has too little memory: Python says so, or torch."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in message or "can't allocate memory" in message


def is_lost_process(error: BaseException) -> bool:
    """Whether another process of a group is gone, as torch says by its kinds of errors, gloo and NCCL in words."""
    message, kinds = str(error).lower(), {kind.__name__ for kind in type(error).__mro__}
    in_words = isinstance(error, RuntimeError) and any(name in message for name in ("gloo", "nccl", "processgroup"))
    is_told = any(words in message for words in _OF_A_LOST_PROCESS)
    return "DistNetworkError" in kinds or (is_told and ("DistError" in kinds or in_words))


def is_shortage(error: BaseException) -> bool:
    """Whether memory, open files or another process are lacking, which says nothing of the file that was read."""
    no_files = getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)
    return no_files or is_out_of_memory(error) or is_lost_process(error)


def fault_in(error: BaseException) -> str:
    """What has befallen the machine, in a line with what to do; empty if the error is about anything else."""
    if is_disk_full(error):
        return f"{getattr(error, 'filename', None) or 'a file'}: the disk is full; {_OF_THE_MACHINE[errno.ENOSPC]}"
    if is_out_of_memory(error):
        return f"out of memory ({one_line(error)}); rlzoo fit says what fits, and which keys make it fit"
    if is_lost_process(error):
        return f"{LOST_PROCESS} ({one_line(error)}); give the same command again"
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE and error.filename:
        return f"{error.filename}: {error.strerror}; {_OF_THE_MACHINE[error.errno]}"
    return ""


def printable(text: str) -> str:
    r"""With control characters, and marks that turn the direction of writing, as `\u202e`; lines stay lines."""
    return "".join(
        _escaped(character) if unicodedata.category(character) in ("Cc", "Cf", "Cs") else character
        for character in text
    )


def _escaped(character: str) -> str:
    return character if character in "\n\t\u200d" else f"\\u{ord(character):04x}"


class PlainFormatter(logging.Formatter):
    """Warnings as they are, but for what would steer a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The message, and the traceback if there is one."""
        return printable(super().format(record))


def bounded(text: str, longest: int = 1200) -> str:
    """A text, or of a longer one its beginning and its end, where the remedy stands."""
    return text if len(text) <= longest else f"{text[: longest - 300]} [...] {text[-290:]}"


def nearest(name: str, names: Iterable[str], most: int = 3) -> str:
    """A question that names what was meant, for the end of an error; empty if nothing is near."""
    near = near_names(name, names, most)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def near_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those that are like a name, the nearest first."""
    return difflib.get_close_matches(name, list(names), n=most)


_LOOKED_AT = 10_000
"""Characters of a text that one line is made from; a text from outside may have a billion."""


def one_line(error: BaseException | str) -> str:
    """What a library's error says, without its line breaks and its length; its name if it says nothing."""
    message = error if isinstance(error, str) else str(error) or type(error).__name__
    return textwrap.shorten(message[:_LOOKED_AT], 300, placeholder=" ...")
