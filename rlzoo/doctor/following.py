"""The same findings while a run goes on."""

from collections.abc import Iterable

from rlzoo.doctor.detectors import Finding, examine
from rlzoo.doctor.reading import Record, run_records, table_of

LOOKS = 100
"""How often at most a run is looked at before it is as long again: a look takes as long as it has steps."""


class Following:
    """Examines a run of ours step by step, and gives each finding once, when it first shows."""

    def __init__(self, responses_per_step: int, objective: str, done: Iterable[Record] = ()) -> None:
        self.responses_per_step, self.objective = responses_per_step, objective
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
        table = table_of(run_records(self.records, (), self.responses_per_step, self.objective))
        return examine(table).findings if table else ()
