"""What runs are measured on where that is not their own held-out problems: named problem sets, and all together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlzoo.config.decoding import Decoding

MACRO = "macro average"
"""All problem sets together, each counting the same."""


@dataclass(frozen=True)
class SetDecoding(Decoding):
    """A decoding with the problem set that it was evaluated on."""

    problem_set: str = ""

    @classmethod
    def of(cls, problem_set: str, decoding: Decoding) -> "SetDecoding":
        """A problem set with a decoding."""
        return cls(**{**vars(decoding), "problem_set": problem_set})

    @property
    def alone(self) -> Decoding:
        """Without the problem set."""
        return Decoding(**{name: value for name, value in vars(self).items() if name != "problem_set"})

    def __str__(self) -> str:
        return f"{self.problem_set}, {self.alone}"

    @property
    def slug(self) -> str:
        """For names of files."""
        return f"{self.problem_set}-{self.alone.slug}"


def with_macro_averages(decodings: Sequence[Decoding]) -> dict[Decoding, list[Decoding]]:
    """What is shown, and what each is the average of: macro averages of several sets first, then each by itself."""
    by_decoding: dict[Decoding, list[Decoding]] = {}
    for it in decodings:
        if isinstance(it, SetDecoding):
            by_decoding.setdefault(it.alone, []).append(it)
    macros: dict[Decoding, list[Decoding]] = {
        SetDecoding.of(MACRO, alone): parts for alone, parts in by_decoding.items() if len(parts) > 1
    }
    return {**macros, **{it: [it] for it in decodings}}


def macro_values(parts: Sequence[np.ndarray]) -> np.ndarray:
    """[seeds, problems] values whose mean, and the error of it over problems, are those of the macro average.

    `parts` are [seeds, problems] of each set. The deviations from a set's mean weigh what the set's problems weigh in
    the macro average, so that problems are resampled as if within each set.
    """
    if len(parts) == 1:
        return parts[0]
    problems = sum(part.shape[1] for part in parts)
    means = [part.mean(axis=1, keepdims=True) for part in parts]
    deviations = [
        _weight(part.shape[1], problems) / len(parts) * (part - mean) for part, mean in zip(parts, means, strict=True)
    ]
    return np.asarray(np.mean(means, axis=0) + np.concatenate(deviations, axis=1))


def macro_problems(parts: Sequence[np.ndarray]) -> float:
    """How many problems of one set would say as much as these of several sets that count the same."""
    return float(len(parts) ** 2 / sum(1 / part.shape[1] for part in parts))


def _weight(own: int, problems: int) -> float:
    """Of the deviations in a set of so many problems among all, Bessel's correction being that of the set."""
    return problems / own * (own / max(1, own - 1) * (problems - 1) / problems) ** 0.5
