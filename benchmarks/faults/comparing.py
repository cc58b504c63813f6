"""Whether what an interrupted command left is, byte by byte, what an undisturbed one left."""

from pathlib import Path

from rlzoo.experiment.run_folder import RunFolder

TIMED = frozenset({"timings.jsonl", "curves.png", "results.json", "README.md"})
"""They have times in them: they have to be there."""
ELSEWHERE = frozenset({".lock", "environment.json"})
"""They depend on what else is there: the commit that is checked out, the folder."""
KEPT = frozenset({".safetensors", ".json", ".jsonl", ".yaml", ".jinja"})
"""Metrics, responses, weights, optimisers and what says where training stands."""
HALF_WRITTEN = ".rlzoo-partial"


def differences(whole: Path, interrupted: Path) -> list[str]:
    """What is not the same, or lies there half written, in words; empty where all is as it should be."""
    left = [f"{path.relative_to(interrupted)} is left over" for path in interrupted.rglob(f"*{HALF_WRITTEN}*")]
    parts = [f"{path.relative_to(interrupted)} is left over" for path in interrupted.rglob("*.parts")]
    return [*left, *parts, *(f"{name} {how}" for name, how in _unlike(whole, interrupted).items())]


def _unlike(whole: Path, interrupted: Path) -> dict[str, str]:
    found = {}
    for path in compared(whole):
        name = str(path.relative_to(whole))
        other = interrupted / name
        if not other.is_file():
            found[name] = "is missing"
        elif path.suffix in KEPT and path.name not in TIMED and other.read_bytes() != path.read_bytes():
            found[name] = "differs"
    return found


def compared(whole: Path) -> list[Path]:
    """The files that have to be there; those that are `KEPT` and not `TIMED` have to be the same."""
    files = [path for path in sorted(whole.rglob("*")) if path.is_file()]
    return [path for path in files if path.name not in ELSEWHERE and not path.name.endswith(".lock")]


def finished_steps(output: Path) -> dict[str, int]:
    """Of every run the steps that have a line of metrics."""
    return {run.path.name: run.metrics.read_bytes().count(b"\n") for run in runs_in(output)}


def saved_steps(output: Path) -> dict[str, int]:
    """Of every run the step of its newest checkpoint."""
    newest = {run.path.name: run.last_checkpoint() for run in runs_in(output)}
    return {name: int(path.name.removeprefix("step-")) if path else 0 for name, path in newest.items()}


def runs_in(output: Path) -> list[RunFolder]:
    """The runs that are begun."""
    return [RunFolder(path.parent) for path in sorted(output.rglob("metrics.jsonl"))]


def is_evaluated_after(run: RunFolder, step: int) -> bool:
    """Whether a run is evaluated once it has done so many steps."""
    config = run.read_config()
    every = config.evaluation.every
    return step == config.train.steps or bool(every and step % every == 0)


def has_evaluated(run: RunFolder, step: int) -> bool:
    """Whether it has been."""
    return any((run / "evaluation").glob(f"step-{step:06d}-*.jsonl"))
