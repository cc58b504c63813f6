"""Which code a record is of: a record of two versions would say nothing of either."""

import hashlib
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from benchmarks.faults.workloads import ROOT
from rlzoo.experiment.machine import environment
from rlzoo.files import read_json_file, write_json

CODE = "code.json"
"""In the folder of the records: kind -> `CodeOfRecord`."""


@dataclass(frozen=True)
class CodeOfRecord:
    """What was killed when a record was begun."""

    digest: str
    """Of the sources."""
    commit: str | None
    begun: str
    """The date."""
    machine: str | None
    """Its processor."""


@cache
def code_digest() -> str:
    """Of all that is killed and kills: results that are written meanwhile change nothing."""
    digest = hashlib.blake2b(digest_size=6)
    folders = ("objectives", "rlzoo", "benchmarks/faults")
    for path in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def refuse_other_code(results: Path, kind: str, remedy: str) -> None:
    """Ends the process if a kind has a record of other code."""
    recorded = _recorded(results).get(kind)
    if any(results.glob(f"{kind}-*.jsonl")) and (recorded is None or recorded.digest != code_digest()):
        commit = recorded.commit if recorded else "a commit that is not recorded"
        sys.exit(f"the record of {kind} is of other code ({commit}); {remedy} replaces it")


def begin(results: Path, kind: str) -> None:
    """Says of which code the record is, unless it is begun already."""
    if not any(results.glob(f"{kind}-*.jsonl")):
        described = environment()
        today = datetime.now(UTC).date().isoformat()
        killed = CodeOfRecord(code_digest(), described["commit"], today, described["processor"])
        write_json(results / CODE, {name: asdict(code) for name, code in (_recorded(results) | {kind: killed}).items()})


def code_sentence(results: Path, kind: str) -> str:
    """A sentence for the table."""
    recorded = _recorded(results).get(kind)
    if recorded is None:
        return "It is not recorded of which commit this is."
    return f"Commit {recorded.commit}, sources {recorded.digest}, begun {recorded.begun} on {recorded.machine}."


def _recorded(results: Path) -> dict[str, CodeOfRecord]:
    path = results / CODE
    return {kind: CodeOfRecord(**fields) for kind, fields in read_json_file(path).items()} if path.exists() else {}
