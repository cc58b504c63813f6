"""The leaderboard as one HTML page that needs nothing else: no network, no fonts, no library."""

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from rlzoo.comparing.leaderboard import Leaderboard
from rlzoo.errors import printable
from rlzoo.report import board_sentences, board_statistics, figures, formatting
from rlzoo.report.forest import forest

SYMBOLS = dict(zip(figures.MARKERS, "●■◆▲▼✚★✖", strict=True))


def templates(*packages: str) -> Environment:
    """The pages' templates, and those of further packages. Whatever they are given is text, and is seen."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("rlzoo.report", *packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=lambda shown: printable(shown) if type(shown) is str else shown,
    )


def page(board: Leaderboard) -> str:
    """The page. Whatever a model or a user wrote is escaped."""
    template = templates().get_template("page.html")
    return template.render(
        board=board,
        strokes=figures.strokes(board.rows),
        symbols=SYMBOLS,
        words=formatting,
        sentences=board_sentences,
        statistics=board_statistics,
        is_ablation=any(row.name.without for row in board.rows),
        breakable=breakable,
        shortened=shortened,
        forests={decoding: forest(board, decoding) for decoding in board.decodings},
        parts=sorted({part for of_row in board.touched.values() for part in of_row}),
        touched=board.touched,
        shade=shade,
        curves=(figures.accuracy_curves(board), figures.entropy_curves(board)) if board.is_trained else (),
        swept=[Markup(figure) for figure in figures.swept_curves(board)],
        fits=Markup(figures.scaling_fits(board)) if board.scaling else "",
        pareto=Markup(figures.accuracy_against_drift(board)) if board.is_trained else "",
    )


def breakable(expression: object) -> Markup:
    """An expression that may be broken between its words."""
    return Markup("<wbr>").join(escape(printable(piece)) for piece in formatting.pieces(str(expression)))


def shade(share: float) -> int:
    """How dark a cell of the grid is, in %: much for all tokens, little and yet to be seen for one in a thousand."""
    return round(24 * share**0.3)


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= longest:
        return text
    return f"{text[: longest // 2]} [... {len(text) - longest} characters ...] {text[-longest // 2 :]}"
