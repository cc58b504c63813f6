"""How an evaluation samples: temperature and top-p, written `0.7/0.9`."""

from dataclasses import dataclass

from rlzoo.errors import UserError


@dataclass(frozen=True)
class Decoding:
    """Temperature 0 is greedy; `top_p` 1 is no nucleus."""

    temperature: float
    top_p: float

    @classmethod
    def parse(cls, text: str) -> "Decoding":
        """Reads `temperature/top_p`. Raises UserError for anything else."""
        try:
            temperature, top_p = (float(number) for number in text.split("/"))
        except ValueError:
            raise UserError(_unusable(text, "it is written temperature/top_p, for example 0.7/0.9")) from None
        if not 0 <= temperature < float("inf"):
            raise UserError(_unusable(text, f"the temperature {temperature:g} must be a number, at least 0"))
        if not 0 < top_p <= 1:
            raise UserError(_unusable(text, f"top-p {top_p:g} must be greater than 0 and at most 1"))
        if temperature == 0 and top_p < 1:
            raise UserError(_unusable(text, "top-p has no effect at temperature 0; write 0/1"))
        return cls(temperature, top_p)

    def __str__(self) -> str:
        return f"T={self.temperature:g}, top-p={self.top_p:g}"

    @property
    def slug(self) -> str:
        """For names of files."""
        return f"T{self.temperature:g}-p{self.top_p:g}"


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
