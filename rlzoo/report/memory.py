"""How a prediction of memory and hours is shown: one table of 80 columns."""

from collections.abc import Mapping

from rich.console import Console

from rlzoo.config import Config
from rlzoo.report.table import Cell, Column, Shown, Table
from rlzoo.rollout import engine_traits
from rlzoo.rollout.memory import GIB, Shape, set_aside_gib
from rlzoo.training.fit import Fit, StepArithmetic, free_for_cache, whole_responses

NODE = 8
"""GPUs of a machine."""


def print_fit(fit: Fit, model: str, gpus: int) -> None:
    """What each phase takes of a GPU in GiB, what breaks first, and what mends it."""
    console = _console()
    title = f"{model}: GiB on each of {gpus} GPU{'s' * (gpus > 1)} of {fit.memory / GIB:g}"
    names = dict.fromkeys(name for phase in fit.phases for name in phase.parts)
    rows = [[name, *(_gib(phase.parts.get(name)) for phase in fit.phases)] for name in names]
    total: list[Shown] = [Cell("in all", kind="strong"), *(_gib(phase.total) for phase in fit.phases)]
    columns = [Column("", is_text=True), *(Column(phase.name) for phase in fit.phases)]
    console.print(Table(columns, rows, [total], title))
    largest = fit.largest
    if fit.fits:
        console.print(f"It fits; {largest.name} takes the most.")
        return
    if largest.total > fit.memory:
        part = max(largest.parts, key=lambda name: largest.parts[name])
        console.print(f"It does not fit: {largest.name} takes the most, and of that its {part}.")
    else:
        console.print("It does not fit: keys and values have no room for one whole response.")
    remedy = " ".join(fit.remedy)
    console.print(f"It would fit with {remedy}" if remedy else "No keys make it fit; take more or larger GPUs.")


def print_host(host: Mapping[str, float], gpus: int) -> None:
    """Prints the host memory that a machine needs. It has at most `NODE` of the `gpus` GPUs."""
    start, resumed, always, more = (host[name] / GIB for name in ("start", "resume", "always", "checkpoint"))
    here, most = min(gpus, NODE), max(start, resumed)
    sleeping = f"vLLM sleeps with {always:.1f} of it on each all the time; " if always else ""
    _console().print(
        f"Host memory: {start:.1f} GiB for each process as models load, {resumed:.1f} as a run resumes, "
        f"{here * most:.1f} for the {here} of a machine; {sleeping}a checkpoint takes {more:.1f} more on the main "
        f"process."
    )


def print_room(config: Config, shape: Shape, fit: Fit, gpus: int) -> None:
    """How many responses are decoded side by side once they are long, and what would make room for more."""
    engine = engine_traits(config.rollout.engine)
    if engine.apart or not shape.cached_numbers:
        return
    room, sampled = whole_responses(config, shape, gpus)
    _console().print(f"Keys and values have {said_room(room, sampled)}.")
    if engine.kv_cache_gib is None:
        return
    longest = config.rollout.max_prompt_tokens + config.rollout.max_response_tokens
    size = set_aside_gib(config.rollout, engine.kv_cache_gib, config.model, shape, longest)
    more = free_for_cache(fit, room, sampled)
    if more > size:
        _console().print(f"rollout.kv_cache_gib={more} takes what is free, for {room * more / size:.1f} of them.")


def said_room(room: float, sampled: int) -> str:
    """In words."""
    return f"room for {room:.1f} whole responses of the {sampled} that a GPU samples"


def print_hours(step: StepArithmetic, steps: int, gpus: int, teraflops: float) -> None:
    """What responses of full length take at most; sampling, which waits for memory, is not predicted."""
    hours = step.hours(steps, gpus * teraflops * 1e12)
    share = step.scoring / (step.scoring + step.training)
    _console().print(
        f"A step has {step.tokens:,} response tokens at most. To score ({share:.0%}) and train {steps:,} steps of them "
        f"takes {hours:,.{0 if hours >= 10 else 1}f} hours at {teraflops:g} TFLOP/s of each GPU; sampling comes on top."
    )


def _console() -> Console:
    return Console(highlight=False, markup=False, width=80)


def _gib(size: float | None) -> str:
    return "" if size is None else f"{size / GIB:.1f}"
