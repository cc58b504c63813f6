"""Decides which make targets a change needs, and runs them.

A target of `targets.toml` without `paths` runs for every change. One with `paths` is left out while nothing that these
name has changed since the commit at which it last passed whole. `passed.json` keeps that commit for each target, since
a fresh clone has no other memory; `nightly`, which runs everything, writes it. After 200 commits a target runs again,
whatever has changed.

    python3 .ci/targets.py plan       prints what a change needs, and why
    python3 .ci/targets.py run        runs that; the first failure ends it (.ci/run)
    python3 .ci/targets.py nightly [TARGET ...]
                                      runs every target or these, and records those that pass (make test-nightly)
"""

import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
PASSED = FOLDER / "passed.json"
MOST_COMMITS = 200
"""How many commits a target may be left out for."""


@dataclass(frozen=True)
class Target:
    """A target of the Makefile, and what it depends on.

    `paths` are git's pathspecs from the root of the repository; empty means that every change needs the target.
    A target that is only `nightly` is never part of a change's run.
    """

    name: str
    paths: tuple[str, ...] = ()
    nightly: bool = False


@dataclass(frozen=True)
class Decision:
    """Whether a target runs, and the reason in words."""

    target: Target
    runs: bool
    reason: str


@dataclass
class Record:
    """Target -> the commit at which it last passed whole, and the seconds that it took there."""

    file: Path
    entries: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> "Record":
        """The record in a file; empty if there is no such file."""
        return cls(file, json.loads(file.read_text(encoding="utf-8")) if file.exists() else {})

    def commit(self, target: str) -> str | None:
        """The commit at which the target last passed whole."""
        entry = self.entries.get(target)
        return str(entry["commit"]) if entry else None

    def write(self, target: str, commit: str, seconds: float) -> None:
        """Keeps that the target passed, on disk as well."""
        self.entries[target] = {"commit": commit, "seconds": round(seconds)}
        text = json.dumps(dict(sorted(self.entries.items())), indent=2) + "\n"
        temporary = self.file.with_suffix(".tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.file)


@dataclass(frozen=True)
class Repository:
    """What git says of a checkout."""

    root: Path

    def _git(self, *words: str) -> str:
        command = ["git", *words]
        return subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def head(self) -> str:
        """The commit that is checked out."""
        return self._git("rev-parse", "HEAD")

    def is_clean(self) -> bool:
        """Whether the files are those of the commit; the record may be another."""
        options = ("--porcelain", "--untracked-files=all")
        return not self._git("status", *options, "--", ".", f":(exclude).ci/{PASSED.name}")

    def commits_since(self, commit: str) -> int | None:
        """How many commits ago an ancestor of the checkout was; None where this clone knows no such ancestor."""
        command = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
        if subprocess.run(command, cwd=self.root, stderr=subprocess.DEVNULL).returncode:
            return None
        return int(self._git("rev-list", "--count", f"{commit}..HEAD"))

    def changed_since(self, commit: str, paths: Sequence[str]) -> list[str]:
        """Files under these paths that differ from the commit, committed or not."""
        tracked = self._git("diff", "--name-only", commit, "--", *paths)
        new = self._git("ls-files", "--others", "--exclude-standard", "--", *paths)
        return sorted({*tracked.splitlines(), *new.splitlines()})


def read_targets(file: Path = FOLDER / "targets.toml") -> list[Target]:
    """The targets in the order in which they run; `common` is added to the paths of each that has some."""
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return [
        Target(name, (*content["common"], *paths) if (paths := entry.get("paths")) else (), entry.get("nightly", False))
        for name, entry in content["targets"].items()
    ]


def decide(target: Target, record: Record, repository: Repository) -> Decision:
    """Whether a change needs the target."""
    commit = record.commit(target.name)
    behind = repository.commits_since(commit) if commit else None
    if target.nightly:
        last = "never" if behind is None else f"{behind} commits ago"
        return Decision(target, False, f"runs in make test-nightly only; it passed there {last}")
    if not target.paths:
        return Decision(target, True, "runs for every change")
    if commit is None:
        return Decision(target, True, "no commit is recorded at which it passed")
    if behind is None:
        return Decision(target, True, f"it passed at {commit[:7]}, which is no ancestor of this commit in this clone")
    if behind > MOST_COMMITS:
        return Decision(
            target, True, f"it passed at {commit[:7]}, {behind} commits ago, and {MOST_COMMITS} is the limit"
        )
    if changed := repository.changed_since(commit, target.paths):
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return Decision(target, True, f"changed since {commit[:7]}, where it passed: {changed[0]}{others}")
    return Decision(target, False, f"nothing that it depends on changed since {commit[:7]}, where it passed")


def make(target: Target, root: Path = ROOT) -> float | None:
    """Runs a target; returns the seconds that it took, or None if it failed."""
    start = time.monotonic()
    failed = subprocess.run(["make", target.name], cwd=root).returncode
    return None if failed else time.monotonic() - start


def show_plan(decisions: Sequence[Decision]) -> None:
    """Prints what runs and what is left out, with the reasons."""
    for decision in decisions:
        print(f"{'run ' if decision.runs else 'skip'} {decision.target.name}: {decision.reason}", flush=True)


def run(decisions: Sequence[Decision], make: Callable[[Target], float | None] = make) -> int:
    """Runs what the decisions say, in their order, up to the first failure; returns the exit status."""
    show_plan(decisions)
    for decision in decisions:
        if decision.runs:
            print(f"\n==== make {decision.target.name}", flush=True)
            seconds = make(decision.target)
            if seconds is None:
                print(f"make {decision.target.name} failed", flush=True)
                return 1
            print(f"==== make {decision.target.name} passed in {seconds:.0f} s", flush=True)
    print()
    show_plan([decision for decision in decisions if not decision.runs])
    return 0


def run_all(
    targets: Sequence[Target],
    record: Record,
    repository: Repository,
    make: Callable[[Target], float | None] = make,
) -> int:
    """Runs every target, also behind one that fails, and records those that pass; returns the exit status."""
    if not repository.is_clean():
        print("commit or stash your changes first: what passes is recorded for a commit", file=sys.stderr)
        return 2
    commit, failed = repository.head(), []
    for target in targets:
        print(f"\n==== make {target.name}", flush=True)
        seconds = make(target)
        if not repository.is_clean() or repository.head() != commit:
            print(f"something was changed while {target.name} ran: nothing is recorded from here on", file=sys.stderr)
            return 2
        if seconds is None:
            failed.append(target.name)
        else:
            record.write(target.name, commit, seconds)
        print(f"==== make {target.name} {'failed' if seconds is None else f'passed in {seconds:.0f} s'}", flush=True)
    print(f"\nfailed: {', '.join(failed)}" if failed else f"\neverything passed at {commit[:7]}", flush=True)
    return bool(failed)


def main(words: list[str]) -> int:
    """What is typed."""
    targets, record, repository = read_targets(), Record.read(PASSED), Repository(ROOT)
    if words[:1] == ["nightly"]:
        named = [target for target in targets if target.name in words]
        if unknown := set(words[1:]) - {target.name for target in named}:
            print(f"{unknown.pop()} is no target of targets.toml", file=sys.stderr)
            return 2
        return run_all(named or targets, record, repository)
    decisions = [decide(target, record, repository) for target in targets]
    if words == ["run"]:
        return run(decisions)
    if words == ["plan"]:
        show_plan(decisions)
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
