"""How much of a text is a unit that is repeated at its end: what a policy writes that has got stuck."""

LEAST = 4
"""Times that a unit has to stand there."""
LONGEST = 64
"""Characters of a unit at most."""
LOOKED_AT = 4096
"""Characters of the end that are looked at."""


def repetition(text: str) -> float:
    """The share of the text, of its last characters if it is long, that the repeated unit fills; 0 for an empty one."""
    end = text.rstrip()[-LOOKED_AT:]
    if not end:
        return 0.0
    return max(_filled(end, unit) for unit in range(1, LONGEST + 1)) / len(end)


def _filled(text: str, unit: int) -> int:
    """How many characters of the end repeat each other at a distance of `unit`; 0 if that is too few times."""
    same = unit
    while same < len(text) and text[-same - 1] == text[-same - 1 + unit]:
        same += 1
    return same if same >= LEAST * unit else 0
