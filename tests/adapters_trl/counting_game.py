"""An environment as TRL's examples write one; both trainers load this file as it is."""

from collections.abc import Sequence
from typing import Any


class CountingGame:
    """Counting to the number of the row: state for the reward, `reset` with the row, public methods as tools."""

    def __init__(self) -> None:
        self.count, self.wanted, self.moves = 0, 0, 0

    def reset(self, **kwargs: Any) -> str | None:
        """Begins anew; tells the number to those whose row says so."""
        self.count, self.wanted, self.moves = 0, int(kwargs["wanted"]), 0
        return f" It is {self.wanted}." if kwargs["is_told"] else None

    def add(self, number: int) -> str:
        """Counts on.

        Args:
            number: how far.

        Returns:
            How far it is now.
        """
        if self._is_over:
            raise ValueError("the game is over")
        self.count += number
        self.moves += 1
        return f"{self.count} of {self.wanted}"

    def look(self) -> int:
        """Tells how far it is.

        Returns:
            How far it is.
        """
        return self.count

    def rules(self) -> str:
        """Tells the rules, at length.

        Returns:
            The rules.
        """
        return "You count on until you are there. " * 20

    def get_reward(self) -> float:
        """A little for each move."""
        return self.moves / 8

    @property
    def _is_over(self) -> bool:
        return self.count > self.wanted


def reached(environments: Sequence[CountingGame], **kwargs: Any) -> list[float]:
    """1 where the game ended at its number."""
    return [float(environment.count == environment.wanted) for environment in environments]
