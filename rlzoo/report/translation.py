"""What another library's settings are here, or the other way, on the terminal."""

import yaml
from rich.console import Console

from objectives.peers.translate import Translation
from rlzoo.report.table import plain_console


def print_translation(translation: Translation, settings: bool, console: Console | None = None) -> None:
    """The expression, or the `settings` as YAML, and every difference; the first lines can be pasted as they are."""
    console = console or plain_console()
    shown = yaml.safe_dump(translation.settings, sort_keys=False).rstrip() if settings else translation.expression
    console.print(shown, soft_wrap=True, style=None if settings else "bold")
    where = f"{translation.peer} {translation.version}"
    if translation.differences:
        console.print(f"# what {where} does otherwise:", soft_wrap=True)
    else:
        console.print(f"# the same as in {where}, as far as its settings say", soft_wrap=True)
    for difference in translation.differences:
        console.print(f"# - {difference}", soft_wrap=True)
    if translation.elsewhere:
        console.print(f"# of the run, not of the objective: {', '.join(translation.elsewhere)}", soft_wrap=True)
