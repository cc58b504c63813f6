"""Log-probs and entropies without the logits: time and peak memory against the calculation from full logits.

    python benchmarks/speed/token_stats.py [--vocabulary 49152 151936] [--tokens 1024 4096] [--hidden 896] [--dtype ...]

Forward and backward with gradients for the hidden states and the head's weight, log-prob and entropy both used. Each
calculation runs in a process of its own; times are the medians of two after one that is not counted, memory is the
largest beyond what the inputs and their gradients hold. Prints a Markdown table.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

import torch
from torch import Tensor

from rlzoo.experiment.machine import environment
from rlzoo.model.token_stats import token_stats, token_stats_of_logits

REPETITIONS = 2


def full(hidden: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
    """From logits that exist whole, in float32."""
    logits = (hidden.to(dtype) @ weight.to(dtype).T).float()
    logp, entropy, _ = token_stats_of_logits(logits, targets, 1.0, with_entropy=True)
    assert entropy is not None
    return logp.sum() + 0.1 * entropy.sum()


def fused(hidden: Tensor, weight: Tensor, targets: Tensor, dtype: torch.dtype) -> Tensor:
    """Block by block."""
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        logp, entropy, _ = token_stats(hidden, weight, targets, 1.0, with_entropy=True)
    assert entropy is not None
    return logp.sum() + 0.1 * entropy.sum()


def measure(name: str, vocabulary: int, tokens: int, size: int, dtype: torch.dtype) -> dict[str, float]:
    """Median seconds and peak GiB of one calculation."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(tokens, size, generator=generator).to(device).requires_grad_()
    weight = (torch.randn(vocabulary, size, generator=generator) / size**0.5).to(device).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,), generator=generator).to(device)
    hidden.grad, weight.grad = torch.zeros_like(hidden), torch.zeros_like(weight)
    before = _held(device)
    times = []
    for _ in range(REPETITIONS + 1):
        started = time.perf_counter()
        {"full": full, "fused": fused}[name](hidden, weight, targets, dtype).backward()
        _held(device)
        times.append(time.perf_counter() - started)
    temporary = weight.numel() * weight.element_size()  # the gradient itself, before it is added to the last one
    return {"seconds": statistics.median(times[1:]), "gib": (_peak(device) - before - temporary) / 2**30}


def _held(device: torch.device) -> int:
    if device.type == "cuda":
        torch.cuda.synchronize()
        return torch.cuda.memory_allocated()
    return _peak(device)


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measures every size in child processes and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[49152, 151936])
    parser.add_argument("--tokens", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    dtype = getattr(torch, arguments.dtype)
    if arguments.only:
        sizes = arguments.vocabulary[0], arguments.tokens[0], arguments.hidden
        print(json.dumps(measure(arguments.only, *sizes, dtype)))
        return
    machine = environment()
    print(f"    python {' '.join(sys.argv)}\n")
    print(f"Hidden size {arguments.hidden}, {arguments.dtype} products. Commit {machine['commit']},")
    print(
        f"torch {machine['torch']}, {machine['accelerator'] or machine['processor']}, {machine['threads']} threads.\n"
    )
    print("| vocabulary | tokens | full (s) | fused (s) | ratio | full (GiB) | fused (GiB) | of float32 logits |")
    print("|---|---|---|---|---|---|---|---|")
    for vocabulary in arguments.vocabulary:
        for tokens in arguments.tokens:
            found = {}
            for name in ("full", "fused"):
                sizes = ["--vocabulary", str(vocabulary), "--tokens", str(tokens), "--hidden", str(arguments.hidden)]
                command = [sys.executable, __file__, "--only", name, *sizes, "--dtype", arguments.dtype]
                found[name] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            whole, block = found["full"], found["fused"]
            share = block["gib"] / (4 * vocabulary * tokens / 2**30)
            times = f"{whole['seconds']:.2f} | {block['seconds']:.2f} | {block['seconds'] / whole['seconds']:.2f}"
            memory = f"{whole['gib']:.2f} | {block['gib']:.2f} | {share:.0%}"
            print(f"| {vocabulary:,} | {tokens:,} | {times} | {memory} |", flush=True)


if __name__ == "__main__":
    main()
