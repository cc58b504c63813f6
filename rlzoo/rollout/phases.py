"""What a step is made of, by the names that `timings.jsonl` and a trace have for it."""

from torch.profiler import record_function

PHASES = ("generate", "grade", "score", "plan", "train", "sync")
MODEL_PHASES = ("generate", "score", "train")
"""Those in which the model calculates."""


def span(phase: str) -> record_function:
    """While it lasts, a trace by torch's profiler has a span `rlzoo/PHASE`; untraced, it costs ten microseconds."""
    return record_function(f"rlzoo/{phase}")
