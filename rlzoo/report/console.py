"""What is printed on: a terminal, a pipe, or the output of a notebook's cell, which gets the plain lines of a pipe."""

from rich.console import Console


def plain_console(quiet: bool = False) -> Console:
    """Prints text as it is."""
    return Console(highlight=False, markup=False, force_jupyter=False, quiet=quiet)
