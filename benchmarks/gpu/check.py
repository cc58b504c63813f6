"""What to run first on a GPU, in two halves of at most four minutes each, without a network.

    make gpu-check        or: python -m benchmarks.gpu.check laws, and: python -m benchmarks.gpu.check speed

`laws` are those of every expression, gradients and attention; `speed` is what the probe measures, and the memory that
`rlzoo fit` predicts. Prints Markdown; exit status 0 if everything holds, 1 if not, 2 where there is no GPU.
"""

import argparse
import copy
import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

import torch
from accelerate.state import AcceleratorState
from torch import Tensor

from benchmarks.gpu.probe import SECTIONS, Size, Table

LAW, GRADIENT, HALF, MEMORY = 1e-9, 1e-3, 0.05, 0.15
"""How far the device may be from the CPU (float64), whole gradients (float32; in bfloat16), and memory from what is
predicted."""
WAITS = 2
"""Waits per micro-batch of training."""

LAYERS, TOKENS, WIDTH = 8, 151_936, 128
"""Those of Qwen3-0.6B, with 8 of its 28 layers, so that two runs take a minute."""
RUN = (
    "objective=dapo-dynamic_sampling+kl",
    "task.name=sums",
    "task.grade_truncated=true",
    "model.precision=bfloat16",
    "rollout.prompts_per_step=8",
    "rollout.responses_per_prompt=8",
    "rollout.max_prompt_tokens=32",
    "rollout.max_response_tokens=512",
    "train.tokens_per_micro_batch=16384",
    "evaluation.problems=1",
)
KEYS = ((), ("model.gradient_checkpointing=true",))
"""What memory is measured with, besides."""
PHASES = {"generate": "rollout", "score": "scoring", "train": "training", "sync": "hand-over"}
"""As the trainer and `rlzoo fit` call them."""


@dataclass(frozen=True)
class Finding:
    """A part of the page."""

    title: str
    text: str
    holds: bool


# ---- the laws --------------------------------------------------------------------------------------------------------


def laws(device: torch.device) -> Finding:
    """Plan, loss and gradient of every recipe, part and setting are those of the CPU."""
    from tests.objectives.batches import random_case, token_batch
    from tests.simulated_device.test_zoo import EXPRESSIONS, SEEDS, on, step

    worst = dict.fromkeys(EXPRESSIONS, 0.0)
    for expression in EXPRESSIONS:
        for seed in SEEDS:
            batch = token_batch(random_case(seed, extreme=False, moved=True), torch.float64)
            found, expected = step(expression, on(device, batch)), step(expression, batch)
            worst[expression] = max([worst[expression], *map(distance, found, expected)])
    return _compared("The laws: every expression's step against the CPU's, float64", worst, LAW)


def gradients(device: torch.device) -> Finding:
    """Gradients of whole updates through the real trainer are those of the CPU, and the host hardly waits for them.

    The CPU plans with the statistics that the device measured, once they are its own to rounding: equal prefixes have
    equal entropies, and rounding alone decides which of them a quantile takes.
    """
    from tests.conftest import save_tiny_model
    from tests.objectives.zoo_sample import PARTS, RECIPES
    from tests.simulated_device.updates import counting

    worst: dict[str, float] = {}
    found: dict[str, Updates] = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as waits:
        model = save_tiny_model(Path(folder))
        trainer, step = counting(model)
        warnings.simplefilter("always")
        for expression in (*RECIPES, *PARTS):
            trainer.begin(SimpleNamespace(syncs=SimpleNamespace(total=lambda: len(waits))))  # type: ignore[arg-type]
            torch.cuda.set_sync_debug_mode("warn")
            trainer.record(expression, *step)
            torch.cuda.set_sync_debug_mode("default")
            found[expression] = Updates.of(trainer)
            most = WAITS * trainer.micro_batches["train"] + len(trainer.gradients)
            if trainer.waits["train"] > most:
                worst[f"{expression} waits {trainer.waits['train']} times, allowed are {most}"] = float("inf")
        with _only_the_cpu():
            trainer, step = counting(model)
            for expression, there in found.items():
                trainer.begin(None, there.statistics)
                trainer.record(expression, *step)
                worst[expression] = there.farthest(Updates.of(trainer))
    return _compared("Gradients of whole updates against the CPU's, float32", worst, GRADIENT)


@dataclass(frozen=True)
class Updates:
    """Of the updates of a step, on the CPU."""

    gradients: list[Tensor]
    """The whole gradient of each update."""
    statistics: list[tuple[Tensor | None, ...]]
    """What each scoring measured."""

    @classmethod
    def of(cls, trainer: Any) -> Self:
        """Those that a `Counting` trainer has just recorded."""
        statistics = [tuple(None if it is None else it.cpu() for it in measured) for measured in trainer.measured]
        return cls([gradient.cpu() for gradient in trainer.gradients], statistics)

    def farthest(self, others: "Updates") -> float:
        """The largest of their distances."""
        scored = zip(chain(*self.statistics), chain(*others.statistics), strict=True)
        pairs = [*zip(self.gradients, others.gradients, strict=True)]
        pairs += [(here, there) for here, there in scored if here is not None and there is not None]
        return max(distance(here, there) for here, there in pairs)


def attention(device: torch.device) -> Finding:
    """Log-probs and gradients of `model.attention=varlen` are the CPU's, with sliding windows and without.

    In float32 they are SDPA's, response by response; in bfloat16 torch's kernel for rows of several responses.
    """
    from tests.model.tiny_models import VOCABULARY, tiny_policy
    from tests.training.recording import rollouts

    responses = rollouts(VOCABULARY)[0].responses()
    worst: dict[str, float] = {}
    for name in ("qwen3", "qwen2", "mistral"):
        policy = tiny_policy(name, attention="varlen", initializer_range=0.1)
        for half, allowed in ((False, GRADIENT), (True, HALF)):
            found, expected = (
                _packed(copy.deepcopy(policy).to(it), responses, half) for it in (device, torch.device("cpu"))
            )
            far = max(map(distance, found, expected))
            worst[f"{name}, {'bfloat16' if half else 'float32'}"] = far / allowed
    title = "Rows without masks against the CPU's, as a share of what is allowed"
    return _compared(title, worst, 1.0)


def _packed(policy: Any, responses: Any, half: bool) -> list[Tensor]:
    """Log-probs and gradients of a row."""
    with torch.autocast(policy.model.device.type, torch.bfloat16, enabled=half):
        logp = policy(responses, 1.0).logp
    logp.square().sum().backward()
    return [logp, *(parameter.grad for parameter in policy.parameters())]


@contextmanager
def _only_the_cpu() -> Iterator[None]:
    """Accelerate, whose objects share what they know of the machine, sees no GPU meanwhile."""
    AcceleratorState._reset_state(reset_partial_state=True)
    with mock.patch.object(torch.accelerator, "is_available", lambda: False):
        yield
    AcceleratorState._reset_state(reset_partial_state=True)


def distance(found: Tensor, expected: Tensor) -> float:
    """The largest difference, as a share of the largest value."""
    found, expected = found.detach().cpu().double(), expected.detach().cpu().double()
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1.0)) if found.numel() else 0.0


def _compared(title: str, worst: Mapping[str, float], allowed: float) -> Finding:
    far = {name: value for name, value in worst.items() if not value <= allowed}
    lines = [f"{len(worst)} of them, the farthest {max(worst.values()):.1e} away; allowed is {allowed:.0e}."]
    lines += [f"- **{name}**: {value:.1e}" for name, value in far.items()]
    return Finding(title, "\n".join(lines), not far)


# ---- memory ----------------------------------------------------------------------------------------------------------

_turns = count()


def alternately(response: str) -> float:
    """The reward of the runs that are measured: every group has a gradient."""
    return float(next(_turns) % 2)


def memory(device: torch.device) -> Finding:
    """What a second step allocates at most in each phase, by CUDA's counters, and what `rlzoo fit` says."""
    lines = ["| | phase | predicted (GiB) | measured (GiB) | ratio |", "|---|---|---|---|---|"]
    holds = True
    for keys in KEYS:
        for phase, (predicted, found) in peaks(keys).items():
            ratio = found / predicted
            holds &= abs(ratio - 1) <= MEMORY
            sizes = f"{predicted / 2**30:.2f} | {found / 2**30:.2f} | {ratio:.2f}"
            lines.append(f"| {' '.join(keys) or 'bfloat16'} | {phase} | {sizes} |")
    said = f"Without what it calls reserved; allowed is {MEMORY:.0%}."
    return Finding("Memory: `rlzoo fit` against CUDA's counters", "\n".join([*lines, "", said]), holds)


def peaks(keys: tuple[str, ...]) -> dict[str, tuple[float, float]]:
    """By phase of a second step: the bytes that are predicted, and those that were allocated."""
    from benchmarks.gpu.loading import make_model
    from objectives import parse
    from rlzoo.config import load_config
    from rlzoo.experiment.check import check
    from rlzoo.experiment.run_folder import RunFolder
    from rlzoo.model.accelerator import make_accelerator
    from rlzoo.rollout.memory import shape_of
    from rlzoo.training.fit import predict
    from rlzoo.training.run import load_trainer

    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), LAYERS, TOKENS, WIDTH)
        own = (f"model.name={folder}", f"output={folder}/run", f"task.reward={__file__}:alternately")
        config = load_config([*RUN, *own, *keys])
        accelerator = make_accelerator(config.model.precision)
        with load_trainer(check(config), accelerator, RunFolder(Path(folder) / "run")) as trainer:
            trainer.step()
            with _counting(trainer) as found:
                trainer.step()
        predicted = predict(config, shape_of(config.model), parse(config.objective), gpus=1)
    return {it.name: (it.total - it.parts["reserved"], found[it.name]) for it in predicted if it.name in found}


@contextmanager
def _counting(trainer: Any) -> Iterator[dict[str, float]]:
    """The bytes that were allocated at most in each phase."""
    found: dict[str, float] = {}

    @contextmanager
    def counted(phase: str) -> Iterator[None]:
        torch.cuda.reset_peak_memory_stats()
        yield
        name = PHASES.get(phase, phase)
        found[name] = max(found.get(name, 0.0), float(torch.cuda.max_memory_allocated()))

    timed, collect = trainer._timed, trainer.collect

    @contextmanager
    def both(phase: str) -> Iterator[None]:
        with counted(phase), timed(phase):
            yield

    def collected() -> Any:
        with counted("generate"):
            return collect()

    trainer._timed, trainer.collect = both, collected
    yield found


# ---- speed -----------------------------------------------------------------------------------------------------------


def measured(section: Callable[[torch.device, Size], Table]) -> Callable[[torch.device], Finding]:
    """A section of the probe as a check that always holds."""

    def check(device: torch.device) -> Finding:
        table = section(device, Size())
        return Finding(table.title, table.markdown(), True)

    check.__name__ = section.__name__
    return check


# ---- the page --------------------------------------------------------------------------------------------------------

HALVES: Mapping[str, tuple[Callable[[torch.device], Finding], ...]] = {
    "laws": (laws, gradients, attention),
    "speed": (*map(measured, SECTIONS), memory),
}


def attempted(check: Callable[[torch.device], Finding], device: torch.device) -> Finding:
    """What a check finds and how long it took; one that fails costs no other."""
    started = time.monotonic()
    try:
        found = check(device)
    except Exception as error:
        found = Finding(check.__name__, f"{type(error).__name__}: {error}", False)
    gc.collect()
    return replace(found, text=f"{found.text}\n\n{time.monotonic() - started:.0f} s")


def shown(finding: Finding) -> str:
    """Markdown."""
    return f"## {finding.title}: {'holds' if finding.holds else 'DOES NOT HOLD'}\n\n{finding.text}\n"


def main() -> int:
    """Prints the page, section by section."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("half", choices=HALVES, nargs="?", help="both if left out")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print(f"gpu-check: torch {torch.__version__} sees no CUDA GPU here; run it on a GPU machine", file=sys.stderr)
        return 2
    from rlzoo.experiment.machine import environment

    machine = environment()
    known = [f"{name} {machine[name]}" for name in ("accelerator", "torch", "transformers", "commit") if machine[name]]
    print(f"# rlzoo on a GPU\n\n{', '.join(known)}\n", flush=True)
    holds = True
    for check in chain.from_iterable(HALVES[half] for half in ([arguments.half] if arguments.half else HALVES)):
        finding = attempted(check, torch.device("cuda", 0))
        holds &= finding.holds
        print(shown(finding), flush=True)
    return int(not holds)


if __name__ == "__main__":
    raise SystemExit(main())
