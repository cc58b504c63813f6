"""The map in words: sentences, Markdown and CSV."""

from collections.abc import Iterator

from rlzoo.errors import printable
from rlzoo.lab.map.behaviour import Behaviour, Change
from rlzoo.lab.map.quantities import QUANTITIES
from rlzoo.lab.map.zoo_map import RegimeMap, ZooMap
from rlzoo.report.table import Table
from rlzoo.statistics.intervals import Estimate

SHORT = {
    "reward": "reward",
    "pass_8": "pass@8",
    "entropy": "entropy",
    "length_right": "length, right",
    "length_wrong": "length, wrong",
    "distinct_right": "distinct right",
    "log_rare_right": "rare right",
}
"""Quantity -> the heading of its column."""
LEGEND = (
    "Numbers are exact changes after a step along the mean gradient; in brackets if their sign is not sure over",
    "the whole map (95 %). \u25b2 and \u25bc: surely more, or less, than an equal step along the policy gradient.",
)
MORE = {1: "\u25b2", -1: "\u25bc", 0: ""}
"""For sure more, or less, than along the policy gradient."""


def directions(regime_map: RegimeMap) -> str:
    """How many different gradients there are, in a sentence."""
    count, different = len(regime_map.expressions), len(regime_map.groups)
    if count == 1:
        return "one objective"
    return f"{count} objectives, {different} different direction{'s' * (different != 1)}"


def facts(regime_map: RegimeMap) -> str:
    """What the policy is like, in a sentence."""
    values = regime_map.facts
    return (
        f"{100 * values['reward']:.0f} % expected reward, {values['length']:.1f} tokens, "
        f"{100 * values['truncated']:.0f} % cut, {values['entropy']:.2f} nats a response; "
        f"{regime_map.regime.responses} responses per prompt"
    )


def number(value: float) -> str:
    """With a sign and three places."""
    return f"{value:+.3f}"


def cosine(estimate: Estimate | None) -> str:
    """An estimate may exceed 1 by its noise."""
    return "-" if estimate is None else f"{max(-1.0, min(1.0, estimate.mean)):.2f}"


def change(measured: Change) -> str:
    """What a step changes: in brackets if the sign is not sure, an arrow if it differs from the policy gradient's."""
    text = number(measured.exact) if measured.sign else f"({number(measured.exact)})"
    return f"{text}{MORE[measured.sign_beside]}"


def mass(row: Behaviour) -> str:
    """Shares of the gradient by quarter, in %."""
    return " ".join(f"{100 * share:.0f}" for share in row.mass)


def markdown(zoo_map: ZooMap) -> str:
    """Every regime: who is the same, and what each does."""
    config = zoo_map.config
    lines = ["# The map of the zoo", ""]
    lines += [
        f"{config.batches} batches of rollouts a regime (seed {config.seed}); a step of KL {config.step:g} nats.",
        *LEGEND,
        "",
    ]
    for regime_map in zoo_map.regimes:
        lines += [
            f"## {regime_map.regime.name}",
            "",
            f"{regime_map.regime.says}: {facts(regime_map)}. **{directions(regime_map)}.**",
            "",
        ]
        lines += [
            f"- the same: {', '.join(f'`{_cell(name)}`' for name in group)}"
            for group in regime_map.groups
            if len(group) > 1
        ]
        lines += ["", *_table(regime_map), ""]
        lines += [f"- `{_cell(name)}` has no row: {_cell(why)}" for name, why in regime_map.left_out.items()]
        lines += [""] * bool(regime_map.left_out)
    return "\n".join(lines)


def _table(regime_map: RegimeMap) -> Iterator[str]:
    heads = ["objective", "cosine", "with its target", "length", "signal / noise", *SHORT.values()]
    heads += ["tokens moved by quarter (%)", "entropy, formula / exact", "does not act"]
    yield f"| {' | '.join(heads)} |"
    yield f"|{' --- |' * len(heads)}"
    truth = regime_map.policy_gradient
    yield f"| policy gradient | 1.00 | | 1.00 | | {' | '.join(number(truth[name]) for name in QUANTITIES)} | | | |"
    for row in regime_map.behaviours:
        cells = [f"`{_cell(row.expression)}`", cosine(row.cosine), cosine(row.target_cosine)]
        cells += [f"{row.length.mean:.2g}", f"{row.signal_to_noise:.2f}"]
        cells += [change(row.changes[name]) for name in QUANTITIES]
        cells += [mass(row), f"{number(row.entropy.predicted)} / {number(row.entropy.all)}", ", ".join(row.idle)]
        yield f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return printable(" ".join(text.split())).replace("|", "\\|").replace("`", "'")


def comma_separated(zoo_map: ZooMap) -> str:
    """One line for each expression and regime."""
    rows = [_record(regime_map, row) for regime_map in zoo_map.regimes for row in regime_map.behaviours]
    return Table.of_records(rows, ["regime"]).csv()


def _record(regime_map: RegimeMap, row: Behaviour) -> dict[str, object]:
    group = next(group for group in regime_map.groups if row.expression in group)
    return {
        "regime": regime_map.regime.name,
        "objective": row.expression,
        "same_as": " ".join(name for name in group if name != row.expression),
        **_estimate("cosine", row.cosine),
        **_estimate("target_cosine", row.target_cosine),
        **_estimate("length", row.length),
        "signal_to_noise": _rounded(row.signal_to_noise),
        **{key: value for name in QUANTITIES for key, value in _change(name, row.changes[name]).items()},
        "entropy_predicted": _rounded(row.entropy.predicted),
        "entropy_same_places": _rounded(row.entropy.same_places),
        "entropy_all": _rounded(row.entropy.all),
        **{f"mass_quarter_{number}": _rounded(share) for number, share in enumerate(row.mass, 1)},
        "up": _rounded(row.up),
        "idle": " ".join(row.idle),
    }


def _change(name: str, measured: Change) -> dict[str, object]:
    return {
        f"{name}_exact": _rounded(measured.exact),
        **_estimate(name, measured.expected),
        f"{name}_sign": measured.sign,
        **_estimate(f"{name}_beside", measured.beside),
        f"{name}_sign_beside": measured.sign_beside,
    }


def _estimate(name: str, estimate: Estimate | None) -> dict[str, object]:
    values = (None, None, None) if estimate is None else (estimate.mean, estimate.low, estimate.high)
    return {f"{name}{end}": _rounded(value) for end, value in zip(("", "_low", "_high"), values, strict=True)}


def _rounded(value: float | None) -> str:
    """Six digits: what other machines round otherwise is left out."""
    return "" if value is None else f"{value:.6g}"
