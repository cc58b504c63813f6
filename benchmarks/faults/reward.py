"""A reward that is slow, so that signals come amid grading, and that an empty response earns otherwise."""

import time


def reward(response: str, gold: str, **columns: object) -> float:
    """1 for seven signs, up to 7 for fewer or more."""
    time.sleep(0.02)
    return 1.0 + len(response) % 7
