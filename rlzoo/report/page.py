"""The leaderboard as one HTML page that needs nothing else: no network, no fonts, no library."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.comparing.verdicts import Measured
from rlzoo.report import figures
from rlzoo.report.words import headline, p_value, percent, points, probability, seeds_needed, summary

SYMBOLS = dict(zip(figures.MARKERS, "●■◆▲▼✚★✖", strict=True))


@dataclass(frozen=True)
class Scale:
    """Where values lie between 0 and 100; `zero` is where 0 does, if that is to be seen."""

    low: float
    high: float
    shows_zero: bool = False

    @classmethod
    def over(cls, ends: Iterable[float], shows_zero: bool = False) -> "Scale":
        """Wide enough for all of them."""
        ends = [*ends, *[0.0] * shows_zero]
        return cls(min(ends), max(ends), shows_zero) if ends else cls(0.0, 1.0)

    def at(self, value: float) -> float:
        """0 to 100."""
        return round(100 * (value - self.low) / ((self.high - self.low) or 1.0), 2)

    @property
    def zero(self) -> float | None:
        """Where 0 lies."""
        return self.at(0.0) if self.shows_zero else None


def templates() -> Environment:
    """The pages' templates. Whatever they are given is text."""
    return Environment(
        loader=PackageLoader("rlzoo.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def page(board: Leaderboard) -> str:
    """The page. Whatever a model or a user wrote is escaped."""
    results = {decoding: [row.results[decoding] for row in board.rows] for decoding in board.decodings}
    template = templates().get_template("page.html")
    return template.render(
        board=board,
        headline=headline(board),
        summary=summary(board),
        strokes=figures.strokes(board.rows),
        symbols=SYMBOLS,
        p_value=p_value,
        percent=percent,
        points=points,
        probability=probability,
        seeds_needed=seeds_needed,
        against=against,
        shortened=shortened,
        accuracy_scales={it: Scale.over(_ends([result.average for result in own])) for it, own in results.items()},
        difference_scales={
            it: Scale.over(_differences([result.average for result in own]), shows_zero=True)
            for it, own in results.items()
        },
        figures={
            "accuracy": Markup(figures.accuracy_curves(board)),
            "entropy": Markup(figures.entropy_curves(board)),
            "pareto": Markup(figures.accuracy_against_drift(board)),
        },
    )


def against(measured: Measured) -> list[float]:
    """Each seed's mean minus that of the baseline."""
    return [mean - measured.estimate.mean + it.mean for mean in measured.by_seed] if (it := measured.difference) else []


def _ends(rows: Sequence[Measured]) -> list[float]:
    return [end for it in rows for end in (it.estimate.low, it.estimate.high, *it.by_seed)]


def _differences(rows: Sequence[Measured]) -> list[float]:
    return [end for it in rows if it.difference for end in (it.difference.low, it.difference.high, *against(it))]


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} [... {len(text) - longest} characters ...] {text[-longest // 2 :]}"
