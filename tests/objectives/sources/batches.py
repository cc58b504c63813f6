"""The batches on which other people's functions were run, and two numbers that stand for what they gave."""

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from objectives import Writer
from tests.objectives.batches import Array, Case, random_case, without_holes

SEEDS = range(40)


WITHOUT_HOLES = ("fipo", "w_reinforce", "m2po", "otb", "kpo")
"""Whose source takes what a tool wrote for distance, for the end of a response, or for its sign."""
EQUAL_MICRO_BATCHES = ("advantage_reweighting", "lopti")
"""Whose source weighs micro-batches equally, and has them of equal size."""

PAIRS = ("gdpo",)
"""Whose source takes groups of one size, one behind the other."""

EQUAL_GROUPS = ("tpo",)
"""Whose source takes groups of one size."""

EVEN_GROUPS = ("shuffle_r1",)
"""Whose source refuses others; ties it breaks by the order of the rows."""

NO_TIES = ("entropy20",)
"""Whose source takes any of the tokens that tie."""


def source_case(seed: int, expression: str) -> Case:
    """A ragged batch, in half of the cases with holes, ratios from about e^-3 to e^3; in some a group is all right."""
    case = random_case(1000 + seed, extreme=False, moved=True)
    if expression.startswith(WITHOUT_HOLES):
        case = without_holes(case)
    assert case.logp is not None
    moved = np.clip(3 * (case.logp - case.logp_old), -3, 3)
    case = replace(case, logp=case.logp_old + moved)
    if seed % 3 == 0:
        rows = case.group == case.group[0]
        case = replace(case, correct=np.where(rows, 1.0, case.correct))
    if expression.startswith("kl_cov"):  # whose source penalises a token of a micro-batch without covariance, too
        case = replace(case, micro_batch=np.arange(len(case.group)) % 2)
    if expression.startswith(EQUAL_MICRO_BATCHES):
        case = replace(case, micro_batch=equal_micro_batches(len(case.group)))
    if expression.startswith(("dapo", "entropy20")):  # whose punishment goes on growing behind the limit
        case = replace(case, max_length=case.mask.shape[1], heard=np.zeros_like(case.mask))  # and counts every token
    if expression.startswith("echo"):
        case = replace(case, heard=(case.writer != Writer.NONE) & ~case.mask)
    if expression in PAIRS:
        case = with_pairs(case)
    if expression in EQUAL_GROUPS:
        case = with_equal_groups(case)
    if expression.startswith(EVEN_GROUPS):
        case = in_order(with_even_groups(case))
    if expression.startswith(NO_TIES):
        case = without_ties(case, seed)
    return replace(case, reward=case.correct.copy())


def with_even_groups(case: Case) -> Case:
    """The same batch without the last response of each group of an odd number."""
    groups = [(case.group == name).nonzero()[0] for name in np.unique(case.group)]
    return _rows(case, np.sort(np.concatenate([rows[: len(rows) // 2 * 2] for rows in groups])))


def with_equal_groups(case: Case) -> Case:
    """The same batch with as many responses of each group as the smallest has, its first."""
    groups = [(case.group == name).nonzero()[0] for name in np.unique(case.group)]
    size = min(map(len, groups))
    return _rows(case, np.sort(np.concatenate([rows[:size] for rows in groups])))


def with_pairs(case: Case) -> Case:
    """The same batch with the first two responses of each group, group by group."""
    return _rows(case, np.concatenate([(case.group == name).nonzero()[0][:2] for name in np.unique(case.group)]))


def _rows(case: Case, kept: NDArray[np.int64]) -> Case:
    values = {field.name: getattr(case, field.name) for field in fields(case)}
    return replace(case, **{name: value[kept] for name, value in values.items() if isinstance(value, np.ndarray)})


def in_order(case: Case) -> Case:
    """The same batch with lots that rise from row to row."""
    return replace(case, random_key=np.arange(case.mask.size).reshape(case.mask.shape))


def equal_micro_batches(rows: int) -> NDArray[np.int64]:
    """[N] the smallest number above one of micro-batches of equal size; one if N is prime."""
    parts = min(count for count in range(2, rows + 1) if rows % count == 0)
    return np.arange(rows) % (1 if parts == rows else parts)


def without_ties(case: Case, seed: int) -> Case:
    """The same batch with log-probs and entropies that differ from token to token, by less than its grid."""
    draw = np.random.default_rng([seed, 11])
    order = draw.permutation(case.mask.size).reshape(case.mask.shape) / 2**24
    assert case.logp is not None and case.entropy is not None
    return replace(case, logp=case.logp - order, entropy=case.entropy + order)


def projected(case: Case, seed: int, by_logp: Array, by_entropy: Array) -> list[float]:
    """Two random projections of the push on log-probs and entropies [N, T]; equal pushes have equal ones."""
    draw = np.random.default_rng([seed, 7])
    written = case.writer != Writer.NONE
    pushes = np.stack([by_logp * written, by_entropy * case.mask])
    return [float((pushes * draw.standard_normal(pushes.shape)).sum()) for _ in range(2)]
