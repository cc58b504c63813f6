"""What `rlzoo doctor` says."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from rich.console import Console

from rlzoo.doctor.detectors import Detection, Examination, Rates, rates_of
from rlzoo.report.failure_modes import Remedy, addressing
from rlzoo.report.table import pairs, plain_console

LABEL = 9
"""Columns of the words that say what a line is about."""
SUGGESTED = 2
"""Expressions that are suggested for a finding."""


def print_examination(source: str, examination: Examination, console: Console | None = None) -> None:
    """The findings, each with evidence, error rates and what to try; then what could not be looked at."""
    console = console or plain_console()
    count = len(examination.findings)
    findings = f"{count} finding{'s' * (count != 1)}" if count else "nothing found"
    console.print(f"{source}: {findings} in {examination.steps} steps", soft_wrap=True)
    for finding in examination.findings:
        console.print(f"\n{finding.name.replace('_', ' ')}", style="bold", soft_wrap=True)
        console.print(pairs(finding_lines(finding, rates_of(finding)), LABEL))
    if examination.unseen:
        console.print("\nnot looked at", style="bold")
        unseen = ((name.replace("_", " "), reason) for name, reason in examination.unseen.items())
        console.print(pairs(unseen, width=20))


def as_data(source: str, examination: Examination) -> dict[str, Any]:
    """The same for programs."""
    findings = [
        {
            **{name: _finite(value) for name, value in asdict(finding).items()},
            "rates": asdict(rates) if (rates := rates_of(finding)) else None,
            "try": [f"objective={remedy.expression}" for remedy in suggested(finding)],
        }
        for finding in examination.findings
    ]
    return {"source": source, **asdict(examination), "findings": findings}


def _finite(value: Any) -> Any:
    """What JSON has: no infinity."""
    return value if not isinstance(value, float) or np.isfinite(value) else None


def finding_lines(finding: Detection, rates: Rates | None) -> Iterator[tuple[str, str]]:
    """What a line is about, and what it says."""
    side = "at most" if finding.below else "at least"
    evidence = f"step {finding.step}: {finding.value:.3g} {finding.unit}"
    yield "evidence", f"{evidence}; {side} {finding.threshold:g} is a finding"
    if finding.reason:
        yield "because", finding.reason
    yield "rates", rates_words(rates)
    if finding.setting:
        yield "do", finding.setting
    for remedy in suggested(finding):
        yield "try", f"objective={remedy.expression} ({remedy.paper})"
    if finding.failure_mode:
        yield "more", f"rlzoo objectives --for {finding.failure_mode}"


def rates_words(rates: Rates | None) -> str:
    """How often the detector errs."""
    if rates is None:
        return "not measured"
    detected = f"found in {rates.found} of {rates.faulty} runs with this fault" if rates.faulty else "no faulty run"
    healthy = f"{rates.alarms} alarm{'s' * (rates.alarms != 1)} in {rates.healthy} healthy runs"
    longer = (
        f"; {rates.alarms_longer} in {rates.healthy_longer} of {rates.steps_longer}" if rates.healthy_longer else ""
    )
    return f"{detected}, {healthy}; measured on runs of {rates.steps} steps{longer}"


def suggested(finding: Detection) -> list[Remedy]:
    """What papers suggest for the failure mode, the most promising first."""
    remedies = addressing(finding.failure_mode) if finding.failure_mode else ()
    return [remedy for remedy in remedies if remedy.paper][:SUGGESTED]
