"""The one error that a user's own input can cause, and how errors are worded."""

import difflib
import textwrap
from collections.abc import Iterable


class UserError(Exception):
    """Bad input, said in one line: the key, the value, and the remedy.

    The command line prints it without a traceback and exits with status 2.
    """


def nearest(name: str, names: Iterable[str], most: int = 3) -> str:
    """A question that names what was meant, for the end of an error; empty if nothing is near."""
    near = near_names(name, names, most)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def near_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those that are like a name, the nearest first."""
    return difflib.get_close_matches(name, list(names), n=most)


def one_line(error: BaseException | str) -> str:
    """What a library's error says, without its line breaks and its length; its name if it says nothing."""
    said = error if isinstance(error, str) else str(error) or type(error).__name__
    return textwrap.shorten(said, 300, placeholder=" ...")
