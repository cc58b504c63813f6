"""What is settled once for a whole optimiser mini-batch, before any gradient."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from objectives.batch import Prepared
from objectives.errors import ObjectiveError
from objectives.kinds import Bounds
from objectives.lazy import Tensor


@dataclass(frozen=True)
class Plan:
    """Everything about one optimiser mini-batch that looks at more than one token.

    The loss is the sum over tokens of `policy_coefficient` [N, T] times the surrogate's loss, plus each penalty times
    its `penalty_coefficients` [N, T]; all are zero outside the tokens that take part.
    """

    batch: Prepared
    """The mini-batch; its trace says what every part did to it."""
    policy_coefficient: Tensor
    penalty_coefficients: Mapping[str, Tensor]
    bounds: Bounds
    unmodified: Mapping[str, Bounds]
    """Modifier -> the bounds without it."""
    extra: Mapping[str, Tensor]
    """What else the surrogate takes: [N] or [N, T] by name."""
    follows_advantage: bool = True
    """Whether a token without advantage has no policy gradient."""

    @property
    def touched(self) -> Mapping[str, Tensor]:
        """Part -> [N, T] bool: tokens that parts of stages 1, 2, 4, 7, 9 and 10 acted on."""
        return self.batch.trace.touched

    @property
    def active(self) -> Tensor:
        """[N] bool: rows whose gradient is not zero for certain."""
        policy = self.policy_coefficient * self.batch.advantage if self.follows_advantage else self.policy_coefficient
        active = (policy != 0).any(1)
        for coefficients in self.penalty_coefficients.values():
            active = active | (coefficients != 0).any(1)
        return active

    @cached_property
    def read(self) -> Tensor:
        """[N, T] bool: tokens whose log-prob the loss reads: those of the mask, and observations that a part learns."""
        read = self.batch.mask
        for coefficients in self.penalty_coefficients.values():
            read = read | (coefficients != 0)
        return read

    def rows(self, rows: Tensor | slice, width: int) -> "Plan":
        """The part of some rows and their first `width` positions.

        Raises ObjectiveError if their responses are longer.
        """
        if isinstance(rows, slice) and rows == slice(None) and width == self.batch.mask.shape[1]:
            return self
        batch = self.batch.rows(rows)
        if width < batch.mask.shape[1]:
            if self.read[rows][:, width:].any():
                raise ObjectiveError(f"the log-probs have {width} positions, but the rows' responses are longer")
            batch = batch.first_tokens(width)

        def part(tokens: Tensor) -> Tensor:
            return tokens[rows][:, :width] if tokens.dim() == 2 else tokens[rows]

        return replace(
            self,
            batch=batch,
            policy_coefficient=part(self.policy_coefficient),
            penalty_coefficients={name: part(tokens) for name, tokens in self.penalty_coefficients.items()},
            bounds=self.bounds.rows(rows, width),
            unmodified={name: bounds.rows(rows, width) for name, bounds in self.unmodified.items()},
            extra={name: part(values) for name, values in self.extra.items()},
        )
