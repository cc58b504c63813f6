"""The leaderboard of a table of results, whoever trained."""

from rlzoo.comparing.grid import Identity, RowName
from rlzoo.comparing.leaderboard import BoardRow, Leaderboard, best_first
from rlzoo.comparing.result_table import ResultTable, scores_of
from rlzoo.comparing.results import make_results
from rlzoo.errors import UserError, nearest


def make_table_board(table: ResultTable, baseline: str = "", title: str = "", equivalence: float = 0.0) -> Leaderboard:
    """Compares the methods of a table with one of them: `baseline`, or `grpo` if it is there, or the first.

    A row that is surely less than `equivalence` points from it is called the same. Raises UserError for a table that
    cannot be compared, and for a baseline that is not in it.
    """
    scores = scores_of(table)
    if baseline and baseline not in scores.runs:
        methods = ", ".join(scores.runs)
        raise UserError(
            f"baseline={baseline} is no method of {table.name}, which has {methods}{nearest(baseline, scores.runs)}"
        )
    base = baseline or ("grpo" if "grpo" in scores.runs else next(iter(scores.runs)))
    runs = {_identity(method): of_method for method, of_method in scores.runs.items()}
    results = make_results(runs, _identity(base), scores.places, equivalence / 100)
    rows = [
        BoardRow(
            _identity(method),
            RowName(method),
            method == base,
            tuple(run.seed for run in of_method),
            {place: by_row[_identity(method)] for place, by_row in results.rows.items()},
        )
        for method, of_method in scores.runs.items()
    ]
    return Leaderboard(
        title=title or f"Results in {table.name}",
        rows=best_first(rows),
        decodings=list(results.rows),
        samples_at=results.samples,
        averages=results.averages,
        problems=scores.problems,
        setting={"table": table.name, "responses": f"{len(table.columns['value']):,}"},
        environment={},
        looks=1,
        alike=results.alike,
        notes=[],
        examples=[],
    )


def _identity(method: str) -> Identity:
    return method, ()
