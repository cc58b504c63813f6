"""What a leaderboard says in sentences: headlines, what would have been found, and what is to be known of it."""

from collections.abc import Sequence

from rlzoo.comparing.leaderboard import Leaderboard, LeaderboardRow
from rlzoo.comparing.results import ACCURACY, AREA, MEASURES, REWARD, Alike, Place, set_of
from rlzoo.report.formatting import tokens
from rlzoo.statistics.planning import MOST_SEEDS
from rlzoo.statistics.verdicts import FALSE_DISCOVERIES, HOPELESS, Difference, Finding, Verdict
from rlzoo.tasks.benchmarks import contamination_of

CLAIMED = (Finding.BETTER, Finding.WORSE, Finding.SAME)
"""Findings that are claims. Each of their rows is named, with its difference."""
MANY = 4
MANY_ROWS = 12
"""Number of rows from which on a page lists discoveries."""


def summary(board: Leaderboard) -> str:
    """One sentence of what the numbers are."""
    seeds = sorted({seed for row in board.rows for seed in row.seeds})
    problems = "held-out problems after the last step" if board.is_trained else "problems"
    return (
        f"avg@{board.samples} in % on {board.problems} {problems}, "
        f"{len(seeds)} seed{'s' * (len(seeds) > 1)} ({', '.join(map(str, seeds))}), 95 % intervals over seeds and "
        f"problems; differences to {board.baseline.name} with p-values and intervals that hold for all rows, decodings "
        f"and measures of the page together{'; those of the primary measure for it alone' if board.primary else ''}"
    )


def headlines(board: Leaderboard) -> list[str]:
    """What may be claimed, and of how many rows nothing may be: a sentence for each decoding, and one for each measure
    beside avg@k by which something is claimed. Where rows are many, what else is worth a look.
    """
    claims = [_by_primary(board, name, place) for name, place in board.primary]
    claims += [_no_right_answer(board, decoding) for decoding in board.decodings if _is_all_wrong(board, decoding)]
    several = board.decodings if len(board.rows) > 1 else ()
    claims += [_headline(board, decoding) for decoding in several if not _is_all_wrong(board, decoding)]
    claims += [line for decoding in board.decodings for line in _beside(board, decoding)]
    claims += [_below_untrained(board, decoding) for decoding in board.untrained]
    return [*claims, *discoveries(board)] if has_discoveries(board) else claims


def _is_all_wrong(board: Leaderboard, decoding: Place) -> bool:
    return board.is_trained and not board.has_right_answers(decoding)


def _no_right_answer(board: Leaderboard, decoding: Place) -> str:
    remedy = ": look at the reward" if board.rewards else ", and none has a reward"
    return f"At {decoding}, no row has a right answer{remedy}."


def _by_primary(board: Leaderboard, name: str, decoding: Place) -> str:
    """What a measure that was named beforehand says, also where that is nothing."""
    claim = _claimed_by(board, decoding, name) or f"At {decoding}, by {_measure(board, decoding, name)}, nothing."
    return f"By the primary measure, which is corrected for itself alone: {claim[0].lower()}{claim[1:]}"


def _below_untrained(board: Leaderboard, decoding: Place) -> str:
    """Which rows training has made worse, by their means."""
    start = board.start(decoding)
    below = [str(row.name) for row in board.rows if row.results[decoding].accuracy.mean <= start]
    found = f"{', '.join(below)} {'is' if len(below) == 1 else 'are'} not above" if below else "all rows are above"
    return f"At {decoding}, {found} the untrained model, which has {100 * start:.1f}."


def has_discoveries(board: Leaderboard) -> bool:
    """Whether rows are many. A list with a few false entries then says more than verdicts without any."""
    return len(board.rows) >= MANY_ROWS


def discoveries(board: Leaderboard) -> list[str]:
    """A list of rows for each decoding that has discoveries. About one row in twenty is false."""
    lists = {decoding: _discovered(board, decoding) for decoding in board.decodings}
    return [
        f"At {decoding}, a list in which one in {round(1 / FALSE_DISCOVERIES)} is expected to be false (Benjamini and "
        f"Hochberg), and no verdict: {'; '.join(rows)}."
        for decoding, rows in lists.items()
        if rows
    ]


def _discovered(board: Leaderboard, decoding: Place) -> list[str]:
    """`better than grpo: stare (+2.1), dapo (+1.8)`."""
    groups: dict[str, list[str]] = {"better": [], "worse": []}
    for row in board.rows:
        measured = row.results[decoding].average
        difference = measured.difference
        if difference and measured.is_listed:
            groups["better" if difference.mean > 0 else "worse"].append(f"{row.name}{_by_how_much(difference)}")
    return [f"{side} than {board.baseline.name}: {', '.join(names)}" for side, names in groups.items() if names]


def _headline(board: Leaderboard, decoding: Place) -> str:
    groups: dict[Verdict, list[LeaderboardRow]] = {}
    for row in board.rows:
        if not row.is_baseline:
            groups.setdefault(row.results[decoding].average.verdict, []).append(row)
    order = list(Finding)
    verdicts = sorted(groups, key=lambda verdict: order.index(verdict.finding))
    return f"At {decoding}, {'; '.join(_group(verdict, groups[verdict], board, decoding) for verdict in verdicts)}."


def _beside(board: Leaderboard, decoding: Place) -> list[str]:
    """What may be claimed by each measure beside avg@k; nothing where nothing is."""
    names = [name for name in MEASURES if name != ACCURACY]
    return [claim for name in names if (claim := _claimed_by(board, decoding, name))]


def _claimed_by(board: Leaderboard, decoding: Place, name: str) -> str:
    claims = dict[Finding, list[str]]()
    for row in board.rows:
        measured = row.results[decoding].measured.get(name)
        if measured and measured.verdict.is_claim:
            known = board.rewards.measured(measured) if name == REWARD and board.rewards else measured
            row_name = f"{row.name}{_by_how_much(known.difference, 1 if name == REWARD else 100)}"
            claims.setdefault(measured.verdict.finding, []).append(row_name)
    groups = [f"{finding.value} than {board.baseline.name}: {', '.join(rows)}" for finding, rows in claims.items()]
    return f"At {decoding}, by {_measure(board, decoding, name)}, {'; '.join(groups)}." if groups else ""


def _measure(board: Leaderboard, decoding: Place, name: str) -> str:
    k = board.samples_at[decoding]
    return {AREA: f"the area under the curve of avg@{k}", REWARD: "mean reward"}.get(name, f"{name}@{k}")


def _group(verdict: Verdict, rows: Sequence[LeaderboardRow], board: Leaderboard, decoding: Place) -> str:
    """`worse than grpo: lopti (-6.4)`. Rows without a claim are counted if they are many."""
    is_claim, baseline = verdict.finding in CLAIMED, board.baseline.name
    names = [f"{row.name}{_by_how_much(row.results[decoding].difference) * is_claim}" for row in rows]
    if is_claim:
        margin = f" within {100 * verdict.margin:g} points as" if verdict.finding is Finding.SAME else " than"
        return f"{verdict.finding.value}{margin} {baseline}{', unstable' * verdict.is_unstable}: {', '.join(names)}"
    everyone = len(rows) == len(board.rows) - 1
    count = f"all {len(rows)}" if everyone and len(rows) > 1 else f"the other {len(rows)}"
    words = verdict_words(verdict).replace(":", ",")
    words += f" from {baseline}" * (verdict.finding is Finding.NOT_DISTINGUISHABLE)
    return f"{words}: {', '.join(names) if len(rows) < MANY else count}"


def _by_how_much(difference: Difference | None, scale: int = 100) -> str:
    """In points, or of rewards as they are."""
    return f" ({scale * difference.mean:+.{1 if scale > 1 else 3}f})" if difference else ""


def planning(board: Leaderboard) -> list[str]:
    """What could have been found, for each decoding with verdicts, and how many seeds would decide what is open."""
    detectable = {decoding: judged.detectable for decoding, judged in board.averages.items()}
    lines = [_planned(board, decoding, reach) for decoding, reach in detectable.items() if reach]
    return lines + [_needed(board, decoding) for decoding in detectable if _undecided(board, decoding)]


def _undecided(board: Leaderboard, decoding: Place) -> dict[str, Difference]:
    """Differences without a claim, by row; rows about which nothing is known are left out."""
    averages = {str(row.name): row.results[decoding].average for row in board.rows}
    return {
        name: average.difference
        for name, average in averages.items()
        if average.difference and average.difference.is_planned and average.verdict.finding not in CLAIMED
    }


def _needed(board: Leaderboard, decoding: Place) -> str:
    """How many seeds would decide what is open."""
    rows = [
        f"{name} {_seeds(difference.seeds_needed)} "
        f"(from {_seeds(difference.seeds_range[0])} to {_seeds(difference.seeds_range[1])})"
        for name, difference in _undecided(board, decoding).items()
    ]
    return (
        f"At {decoding}, seeds needed to find, with 80 % probability, a difference as large as the one seen (as at the "
        f"ends of its interval): {', '.join(rows)}."
    )


def _seeds(count: int) -> str:
    return f"{count}" if count else f"over {MOST_SEEDS}"


def _planned(board: Leaderboard, decoding: Place, detectable: float) -> str:
    if detectable > HOPELESS:
        seeds = max(len(row.seeds) for row in board.rows)
        return (
            f"At {decoding}, {seeds} seeds are too few: not even a true difference of {100 * HOPELESS:g} points "
            f"would have been found with 80 % probability. The intervals say no more; train on further seeds."
        )
    return (
        f"At {decoding}, a true difference of {100 * detectable:.1f} points would have been found with 80 % "
        f"probability (the median of the rows); runs with the same seed are paired with a correlation of "
        f"{board.averages[decoding].correlation:.2f}."
    )


def notes(board: Leaderboard) -> list[str]:
    """What is to be known of the rows, after what is to be said of their folders."""
    lines = list(board.notes)
    if board.looks > 1:
        lines.append(
            f"Seeds were added to rows that were analysed before; verdicts are corrected for {board.looks} analyses."
        )
    lines += contamination_of(set_of(place) for place in board.decodings)
    if any(len(row.seeds) == 1 for row in board.rows):
        lines.append("An interval over one seed speaks of the one trained model, not of the method: no verdict.")
    if len({row.seeds for row in board.rows}) > 1:
        lines.append("Rows have different seeds; runs are paired as far as they share them.")
    for decoding in board.decodings:
        unstable = [str(row.name) for row in board.rows if row.results[decoding].average.verdict.is_unstable]
        if unstable:
            lines.append(
                f"At {decoding}, the seeds of {', '.join(unstable)} lie further apart than those of the other rows: "
                "unstable, and no interval over so few seeds is to be trusted; train more."
            )
    return [*lines, *(_alike(board, alike) for alike in board.alike)]


def accuracy_by_tokens(board: Leaderboard) -> list[str]:
    """What accuracy at equal tokens and steps is of."""
    curves = board.token_curves
    if curves is None:
        return []
    points = "held-out evaluations on the way" if curves.is_held_out else "training rollouts of each step, all sampled"
    return [
        f"Accuracy of the {points}, over the response tokens sampled so far, with 95 % intervals over seeds. Equal "
        f"tokens are {tokens(curves.tokens)}, equal steps {curves.steps}: the most that every run had behind it."
    ]


def _alike(board: Leaderboard, alike: Alike) -> str:
    everywhere = len(alike.places) == len(board.decodings) > 1
    where = "Everywhere" if everywhere else f"At {'; '.join(map(str, alike.places))}"
    rows = " and ".join(str(board.names[row]) for row in alike.rows)
    return f"{where}, {rows} answered just the same; they count once."


def verdict_words(verdict: Verdict, scale: int = 100) -> str:
    """`better`, `the same within 2, unstable`, `unstable: more seeds`; with `scale` 1 the margin is one of rewards."""
    finding = verdict.finding
    words = finding.value + {
        Finding.SAME: f" within {scale * verdict.margin:g}",
        Finding.TWO_MODES: ": more seeds",
        Finding.UNSTABLE: ": more seeds",
        Finding.ONE_SEED: ": no verdict",
    }.get(finding, "")
    is_said = verdict.is_unstable and finding in (*CLAIMED, Finding.BASELINE)
    return words + ", unstable" * is_said
