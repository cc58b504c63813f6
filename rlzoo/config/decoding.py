"""How an evaluation samples: temperature and top-p, written `0.7/0.9`, or with top-k and min-p, `0.6/0.95/20/0.05`."""

from dataclasses import dataclass

from rlzoo.errors import UserError


@dataclass(frozen=True)
class Decoding:
    """Temperature 0 is greedy; `top_p` 1 is no nucleus, `top_k` 0 and `min_p` 0 leave out nothing."""

    temperature: float
    top_p: float
    top_k: int = 0
    min_p: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Decoding":
        """Reads `temperature/top_p`, `temperature/top_p/top_k` or all four. Raises UserError for anything else."""
        try:
            temperature, top_p, *others = (float(number) for number in text.split("/"))
            top_k, min_p = [*others, 0.0, 0.0][: max(2, len(others))]
        except ValueError:
            raise UserError(_unusable(text, "it is written temperature/top_p, for example 0.7/0.9")) from None
        if not 0 <= temperature < float("inf"):
            raise UserError(_unusable(text, f"the temperature {temperature:g} must be a number, at least 0"))
        if not 0 < top_p <= 1:
            raise UserError(_unusable(text, f"top-p {top_p:g} must be greater than 0 and at most 1"))
        if not (top_k >= 0 and top_k.is_integer()):
            raise UserError(_unusable(text, f"top-k {top_k:g} must be a whole number, 0 for all"))
        if not 0 <= min_p <= 1:
            raise UserError(_unusable(text, f"min-p {min_p:g} must be from 0 to 1"))
        if temperature == 0 and (top_p < 1 or top_k or min_p):
            raise UserError(_unusable(text, "top-p, top-k and min-p have no effect at temperature 0; write 0/1"))
        return cls(temperature, top_p, int(top_k), min_p)

    def __str__(self) -> str:
        top_k = f", top-k={self.top_k}" if self.top_k else ""
        return f"T={self.temperature:g}, top-p={self.top_p:g}{top_k}" + (
            f", min-p={self.min_p:g}" if self.min_p else ""
        )

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0

    def samples(self, asked: int) -> int:
        """Responses to each problem: those that were asked for, or one where all would be the same."""
        return 1 if self.is_greedy else asked

    @property
    def slug(self) -> str:
        """For names of files."""
        top_k = f"-top{self.top_k}" if self.top_k else ""
        min_p = f"-min{self.min_p:g}" if self.min_p else ""
        return f"T{self.temperature:g}-p{self.top_p:g}{top_k}{min_p}"


def _unusable(text: str, reason: str) -> str:
    return f"evaluation.decodings: {text!r} cannot be used: {reason}"


def read_decodings(texts: list[str]) -> list[Decoding]:
    """All of a configuration's. Raises UserError if there is none, or one twice."""
    if not texts:
        raise UserError("evaluation.decodings=[] names no decoding; the default is [1.0/1.0]")
    decodings = [Decoding.parse(text) for text in texts]
    for text, decoding in zip(texts, decodings, strict=True):
        if decodings.count(decoding) > 1:
            raise UserError(_unusable(text, "it is there twice"))
    return decodings
