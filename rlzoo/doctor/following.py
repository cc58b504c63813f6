"""The same findings while a run goes on."""

from collections.abc import Iterable

from rlzoo.doctor.detectors import DETECTORS, Finding, examine
from rlzoo.doctor.reading import Record, run_records, table_of

LOOKS = 100
"""How often at most a run is looked at before it is as long again: a look takes as long as it has steps."""
LIVE = tuple(detector for detector in DETECTORS if detector.live)
"""Detectors whose findings later steps do not take back."""


class Following:
    """Examines a run of ours step by step, and gives each finding once, when it first shows."""

    def __init__(self, groups: int, responses_per_group: int, objective: str, done: Iterable[Record] = ()) -> None:
        self.size, self.objective = (groups, responses_per_group), objective
        self.records = list(done)
        self.named = {finding.name for finding in self._findings()}

    def __call__(self, metrics: Record) -> list[Finding]:
        """What has become clear with the metrics of this step."""
        self.records.append(dict(metrics))
        if len(self.records) % max(1, len(self.records) // LOOKS):
            return []
        new = [finding for finding in self._findings() if finding.name not in self.named]
        self.named |= {finding.name for finding in new}
        return new

    def _findings(self) -> tuple[Finding, ...]:
        table = table_of(run_records(self.records, (), self.size, self.objective))
        return examine(table, LIVE).findings if table else ()
