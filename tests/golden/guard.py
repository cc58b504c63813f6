"""What the guard compares, calculated from the code as it is now.

`python -m tests.golden.guard [gradients metrics leaderboard suite]` records the committed values. A change that moves
code never does; one that adds a recipe adds its key to `keys.json` first.
"""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import rlzoo
from objectives import TokenBatch, parse

VALUES = Path(__file__).parent / "values"
CELLS = Path(__file__).parents[2] / "benchmarks" / "suite" / "results" / "cells.jsonl"
RENAMED: dict[str, dict[str, str]] = json.loads((VALUES / "renamed.json").read_text(encoding="utf-8"))
"""Kind of name (`metrics`, `fields` of a batch) -> old name -> the name of today."""
MAX_LENGTH = 10
WORDS = (
    *("rollout.prompts_per_step=6", "rollout.responses_per_prompt=4", "rollout.max_refills=50"),
    *("train.steps=3", "train.minibatches_per_step=2", "train.learning_rate=3e-4", "train.warmup_steps=0"),
    *("train.tokens_per_micro_batch=200", "evaluation.problems=2", "evaluation.samples=1"),
)
"""Short runs of the shipped model."""
RUNS: dict[str, tuple[str, ...]] = {
    "grpo": (),
    "dapo": (),
    "entropy20": (),
    "justrl": (),
    "advantage_reweighting": (),
    "lopti": (),
    "stare(adaptive=true,target_entropy=0.9)": (),
    "stapo(tau_p=0.6,q=0.2)": (),
    "lopti+stare(adaptive=true,target_entropy=0.9)": (),
    "gspo": (),
    "gvpo": (),
    "opd": ("task.teacher_prompt={answer}={prompt}",),
    "s_grpo(share=0.4)": (),
}
"""Expression -> further words."""
COLUMNS = (
    *("objective", "accuracy", "accuracy_low", "accuracy_high", "difference", "difference_low", "difference_high"),
    *("p_page", "verdict", "pass", "pass_difference_low", "pass_difference_high", "pass_p_page", "pass_verdict"),
)
"""Columns of a leaderboard that the guard compares."""
METRICS = "metrics_avx2" if torch.backends.cpu.get_cpu_capability() == "AVX2" else "metrics"
"""The metrics of this kind of processor: where sums round otherwise, another token may be sampled after two steps."""


def batches() -> list[TokenBatch]:
    """The five committed batches, in float64: ragged, tied, with empty responses, holes in the mask and NaN outside."""
    fields: dict[int, dict[str, Tensor]] = {}
    for name, tensor in load_file(VALUES / "batches.safetensors").items():
        number, field = name.split(".")
        fields.setdefault(int(number), {})[RENAMED["fields"].get(field, field)] = tensor
    return [TokenBatch(**fields[number], max_length=MAX_LENGTH) for number in sorted(fields)]  # type: ignore[arg-type]


def expressions() -> dict[str, str]:
    """Every recipe and variant, what has no published value with one given -> its key."""
    read: dict[str, str] = json.loads((VALUES / "keys.json").read_text(encoding="utf-8"))
    return read


def gradients(expression: str) -> dict[str, Tensor]:
    """`batch.update` -> [N, T] float64: the gradient of each update on each batch."""
    objective, found = parse(expression), {}
    for number, batch in enumerate(batches()):
        for update, gradient in enumerate(objective.token_gradients(batch)):
            found[f"{number}.{update}"] = gradient
    return found


def trained(expression: str, folder: Path) -> list[dict[str, float]]:
    """The metrics of each step of a short run."""
    words = (f"objective={expression}", f"output={folder}", *WORDS, *RUNS[expression])
    rlzoo.train(*words, progress=False)
    return metrics_of(folder)


def metrics_of(folder: Path) -> list[dict[str, float]]:
    """The numbers of each line of a run's metrics.jsonl."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{name: value for name, value in json.loads(line).items() if _is_number(value)} for line in lines]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def leaderboard_verdicts(folder: Path) -> list[dict[str, Any]]:
    """The rows of the leaderboard of the committed table: 3 methods, 3 seeds, 64 problems, 8 answers to each."""
    frame = rlzoo.leaderboard(VALUES / "table.csv", baseline="plain", output=str(folder), progress=False)
    rows: list[dict[str, Any]] = frame[list(COLUMNS)].to_dict("records")
    return rows


def suite_verdicts() -> list[dict[str, Any]]:
    """The claims of the suite, judged again from its committed cells."""
    from rlzoo.lab.suite.cells import CellFile, chosen_seeds
    from rlzoo.lab.suite.experiment import own_names
    from rlzoo.lab.suite.verdicts import judge, read_results

    judged = judge(read_results(own_names(), [], chosen_seeds(["auto"]), CellFile(CELLS).read()), looks=3)
    return [
        {
            "experiment": experiment.results.experiment.name,
            "claim": f"{claim.claim.arm} against {claim.claim.against}",
            "verdict": claim.verdict.value,
            "effect": float(claim.compared.difference.mean) if claim.compared.difference else None,
        }
        for experiment in judged
        for claim in experiment.claims
    ]


def _record(folder: Path, only: Iterable[str]) -> None:
    recorders: dict[str, Callable[[], None]] = {
        "gradients": lambda: save_file(
            {f"{text}|{at}": value for text in expressions() for at, value in gradients(text).items()},
            VALUES / "gradients.safetensors",
        ),
        "metrics": lambda: _write(METRICS, {text: trained(text, folder / str(i)) for i, text in enumerate(RUNS)}),
        "leaderboard": lambda: _write("leaderboard", leaderboard_verdicts(folder / "table")),
        "suite": lambda: _write("suite", suite_verdicts()),
    }
    for name in only or recorders:
        recorders[name]()


def _write(name: str, value: Any) -> None:
    (VALUES / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import sys
    import tempfile

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        _record(Path(made), sys.argv[1:])
