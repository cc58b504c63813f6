"""Evaluations of runs while they were trained (`evaluation.every`), and the area under the curve that they make.

The area is the mean of avg@k over the steps of training, straight between evaluations, problem by problem: of two rows
that end alike the one that got there sooner has the larger. It is taken over steps, which are the same for all rows, so
that no row changes what another one scores.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from rlzoo.config.decoding import Decoding
from rlzoo.evaluation.evaluate import Evaluation, read_evaluations
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.statistics.aggregates import area_under_curve

LEAST_EVALUATIONS = 3
"""Of fewer, one lies before training and one after it, and nothing is known of the way."""


@dataclass(frozen=True)
class EvaluatedStep:
    """What a model answered after one step of its training."""

    accuracy: np.ndarray
    """[problems] avg@k."""
    answers: bytes
    """A digest of all responses and their grades."""

    @classmethod
    def of(cls, evaluation: Evaluation) -> "EvaluatedStep":
        """What is kept of an evaluation."""
        correct = evaluation.column("correct")
        digest = blake2b(correct.tobytes(), digest_size=16)
        for record in evaluation.records:
            digest.update(record["response"].encode("utf-8", "surrogatepass") + b"\0")
        return cls(correct.mean(axis=1), digest.digest())


@dataclass(frozen=True)
class Area:
    """Of one trained model at one decoding."""

    values: np.ndarray
    """[problems] the mean of avg@k over the steps, from 0 to 1."""
    unit: float
    """Values are multiples of it, but for the k samples."""
    answers: tuple[bytes, ...]
    """Equal for those who answered just the same at every evaluation."""

    @classmethod
    def under(cls, evaluated: Mapping[int, EvaluatedStep], steps: Sequence[int]) -> "Area":
        """Under the curve through these steps."""
        gaps = [after - before for before, after in itertools.pairwise(steps)]
        return cls(
            area_under_curve({step: evaluated[step].accuracy for step in steps}),
            math.gcd(*gaps) / (2 * sum(gaps)),
            tuple(evaluated[step].answers for step in steps),
        )


def read_evaluated_steps(folder: RunFolder, decoding: Decoding) -> dict[int, EvaluatedStep]:
    """Every evaluation that training made with a decoding. Raises UserError for one that is damaged."""
    return {step: EvaluatedStep.of(evaluation) for step, evaluation in read_evaluations(folder, decoding).items()}


def shared_steps(folders: Sequence[RunFolder], decoding: Decoding) -> list[int]:
    """The steps after which all runs were evaluated; none where these say nothing of the way."""
    steps = sorted(set.intersection(*(set(folder.evaluations(decoding)) for folder in folders)))
    return steps if len(steps) >= LEAST_EVALUATIONS else []
