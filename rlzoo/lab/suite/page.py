"""The suite as one page that needs nothing else."""

from markupsafe import Markup

from rlzoo.lab.suite import text as suite_text
from rlzoo.lab.suite.claims import ClaimVerdict
from rlzoo.lab.suite.forest import forest_svg
from rlzoo.lab.suite.heat import FULL, HeatCell, heat, profile_svg
from rlzoo.lab.suite.suite import SuiteTable
from rlzoo.report.table import breakable, templates

ORDER = (
    ClaimVerdict.HOLDS,
    ClaimVerdict.DOES_NOT_HOLD,
    ClaimVerdict.CANNOT_TELL,
    ClaimVerdict.DOES_NOT_FIRE,
    ClaimVerdict.VOID,
)
"""How a column of verdicts is sorted."""


def suite_page(suite: SuiteTable) -> str:
    """The page. Whatever a user wrote is escaped."""
    shown = heat(suite)
    return (
        templates("rlzoo.lab")
        .get_template("suite.html")
        .render(
            suite=suite,
            shown=shown,
            profiles={name: Markup(profile_svg(name, shown.rows[name])) for name in shown.profiled},
            forest=Markup(forest_svg(suite)),
            text=suite_text,
            breakable=breakable,
            rank=ORDER.index,
            shade=shade,
            values=values,
        )
    )


def shade(cell: HeatCell) -> int:
    """How dark a cell is, in %."""
    return round(45 * min(1.0, abs(cell.better) / FULL))


def values(suite: SuiteTable, place: int) -> list[tuple[str, str, str, int]]:
    """The arms of an experiment: label, objective, mean of the score, seeds."""
    results = suite.experiments[place].results
    score = results.experiment.score
    return [
        (label, arm.arm.objective, f"{arm.values(score, sorted(arm.records)).mean():.3g}", len(arm.records))
        for label, arm in results.arms.items()
    ]
