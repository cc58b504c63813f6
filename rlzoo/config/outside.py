"""How code from outside is named: `my_module:name`, found where Python finds modules, or `./my_file.py:name`."""

import re

FILE = re.compile(r"(.+\.py):([^\W\d]\w*)")
MODULE = re.compile(r"([^\W\d][\w.]*):([^\W\d]\w*)")


def is_outside(written: str) -> bool:
    """Whether this is the name of something outside."""
    return bool(FILE.fullmatch(written) or MODULE.fullmatch(written))
