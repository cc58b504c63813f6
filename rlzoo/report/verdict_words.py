"""How verdicts are written, and read again from a table."""

from rlzoo.statistics.verdicts import Finding, Verdict

CLAIMED = (Finding.BETTER, Finding.WORSE, Finding.SAME)
"""Findings of which each row is named, with its difference."""


def verdict_words(verdict: Verdict) -> str:
    """`better`, `the same within 2, unstable`, `unstable: more seeds`."""
    finding = verdict.finding
    words = finding.value + {
        Finding.SAME: f" within {100 * verdict.margin:g}",
        Finding.TWO_MODES: ": more seeds",
        Finding.UNSTABLE: ": more seeds",
        Finding.ONE_SEED: ": no verdict",
    }.get(finding, "")
    is_said = verdict.is_unstable and finding in (*CLAIMED, Finding.BASELINE)
    return words + ", unstable" * is_said


def verdict_from_words(words: str) -> Verdict:
    """The verdict that is called so, as far as the words say it. Raises ValueError for words of none."""
    stable = words.removesuffix(", unstable")
    finding, _, margin = stable.partition(" within ")
    verdict = Verdict(Finding(finding.partition(":")[0]), is_unstable=stable != words, margin=float(margin or 0) / 100)
    if verdict_words(verdict) != words:
        raise ValueError(f"no verdict is called {words}")
    return verdict
