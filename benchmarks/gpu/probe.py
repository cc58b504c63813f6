"""What rlzoo takes of one GPU: the head, a scoring and a training pass, the objective layer, and sampling.

    python -m benchmarks.gpu.check speed        or, on a CPU with small sizes: python -m benchmarks.gpu.probe

Random weights of Qwen3-1.7B's shape and one micro-batch of STAPO's setting; no network, no vLLM. Each table shows what
is measured beside what was predicted for an H100 from the bytes and operations of every kernel (3.0 TB/s, 650 TFLOP/s).
"""

import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from objectives import Loop, TokenBatch, parse, random_keys
from rlzoo.config import load_config
from rlzoo.model import token_stats
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.base import Sampling
from rlzoo.rollout.transformers_engine import TransformersEngine


@dataclass(frozen=True)
class Size:
    """What is measured: Qwen3-1.7B in micro-batches of 32,768 positions; or something small, to try the script."""

    hidden: int = 2048
    intermediate: int = 6144
    layers: int = 28
    heads: int = 16
    kv_heads: int = 8
    vocabulary: int = 151_936
    positions: int = 32_768
    mean_length: int = 5000
    rows: int = 2048
    width: int = 15_360
    square: int = 8192
    sampled: tuple[tuple[int, int], ...] = ((128, 64), (512, 64))
    """Rows and tokens of what is sampled."""


SMALL = Size(64, 128, 2, 2, 1, 2048, 2048, 256, 64, 64, 256, ((8, 8),))
OBJECTIVES = ("grpo", "dapo", "entropy20", "justrl", "advantage_reweighting", "lopti", "stare", "stapo", "clip_cov")
PREDICTED = {
    ("head", "2^24"): "144, 178, 495",
    ("head", "2^27"): "90, 116, 288",
    ("pass", "varlen"): "556, 2064",
    ("pass", "varlen, compiled"): "train 1.5 times as fast",
}
"""In milliseconds, by the count at 4be6122, whose head cast its states for each block: forward, with entropy, with
backward pass; scoring with entropy, training."""


@dataclass(frozen=True)
class Table:
    """A part of the page."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def markdown(self) -> str:
        """As on the page."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def ceilings(device: torch.device, size: Size) -> Table:
    """Operations and bytes per second that the machine reaches."""
    left, right = (torch.randn(size.square, size.square, device=device, dtype=torch.bfloat16) for _ in range(2))
    numbers = torch.randn(size.square**2 * 8, device=device)
    copy = torch.empty_like(numbers)
    products = 2 * size.square**3 / seconds(lambda: left @ right, 10)
    moved = 8 * numbers.numel() / seconds(lambda: copy.copy_(numbers), 5)
    rows = [(f"bfloat16 product, {size.square}^3", f"{products / 1e12:.0f} TFLOP/s", "650 in the count")]
    return Table("Ceilings", ("", "measured", "predicted"), [*rows, ("copy", f"{moved / 1e12:.2f} TB/s", "3.0")])


def head(device: torch.device, size: Size) -> Table:
    """Log-probs from hidden states, by the number of logits in a block, and compiled."""
    hidden = torch.randn(size.positions, size.hidden, device=device).requires_grad_()
    weight = (torch.randn(size.vocabulary, size.hidden, device=device) / size.hidden**0.5).requires_grad_()
    targets = torch.randint(size.vocabulary, (size.positions,), device=device)

    def forward(with_entropy: bool, compiled: bool) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return token_stats.token_stats(hidden, weight, targets, 1.0, None, with_entropy, compiled=compiled)[0]

    def both(compiled: bool) -> None:
        hidden.grad = weight.grad = None
        forward(False, compiled).sum().backward()

    rows = []
    for bits, compiled in ((24, False), (26, False), (27, False), (27, True)):
        with blocks_of(2**bits), peak_of(device) as peak:
            with torch.no_grad():
                taken = [seconds(lambda: forward(it, compiled)) for it in (False, True)]  # noqa: B023
            taken.append(seconds(lambda: both(compiled)))  # noqa: B023
        name = f"2^{bits}"
        shown = [milliseconds(it) for it in taken]
        rows.append((f"{name}{', compiled' * compiled}", *shown, PREDICTED.get(("head", name), ""), peak()))
    columns = ("logits in a block", "forward (ms)", "with entropy", "and backward", "predicted", "peak (GiB)")
    return Table(f"The head: {size.positions:,} positions, {size.vocabulary:,} tokens", columns, rows)


def passes(device: torch.device, size: Size) -> Table:
    """Scoring and training of a micro-batch, with checkpointed layers."""
    batch = responses(size)
    rows = [_passes(device, size, batch, *it) for it in (("varlen", False), ("varlen", True), ("sdpa", False))]
    columns = ("attention", "score (ms)", "train (ms)", "predicted", "trained tokens/s", "host waits", "peak (GiB)")
    title = f"A micro-batch of {len(batch.lengths)} responses, {int(batch.lengths.sum()):,} tokens"
    return Table(title, (*columns, "first passes (s)"), rows)


def _passes(device: torch.device, size: Size, batch: Responses, attention: str, compiled: bool) -> tuple[object, ...]:
    policy = random_policy(device, size, attention)
    if compiled:
        policy.compile_layers()

    def score() -> None:
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            policy(batch, 1.0, with_entropy=True)

    def train() -> None:
        with torch.autocast(device.type, torch.bfloat16, cache_enabled=False):
            policy(batch, 1.0).logp.sum().backward()

    first = seconds(score, 1, 0) + seconds(train, 1, 0)
    with peak_of(device) as peak:
        taken = seconds(score, 2, 0), seconds(train, 2, 0)
    name = f"{attention}{', compiled' * compiled}"
    shown = [milliseconds(it) for it in taken]
    speed = f"{int(batch.lengths.sum()) / taken[1]:,.0f}"
    return name, *shown, PREDICTED.get(("pass", name), ""), speed, waits(device, train), peak(), f"{first:.0f}"


def objective_layer(device: torch.device, size: Size) -> Table:
    """Preparing a step of rollouts and planning its four updates."""
    batch = token_batch(device, size)
    whole = 4 * size.rows * size.width / 2**30
    rows = []
    for expression in OBJECTIVES:
        objective = parse(expression)

        def plan() -> None:
            step = Loop(objective, 4, True).begin(batch)  # noqa: B023
            for number in range(len(step.rows)):
                step.plan(number)

        with peak_of(device) as peak:
            before = allocated(device)
            taken = seconds(plan, 1)
        above = float(peak()) - before / 2**30
        rows.append((expression, milliseconds(taken), f"{above:.1f}", f"{above / whole:.0f}"))
    columns = ("objective", "plans of a step (ms)", "peak above the batch (GiB)", "as [N, T] float32")
    return Table(
        f"The objective layer: {size.rows:,} x {size.width:,}, {int(batch.mask.sum()):,} tokens", columns, rows
    )


def sampling(device: torch.device, size: Size) -> Table:
    """The decode loop of `rollout.engine=transformers` in bfloat16, and what follows a training pass."""
    policy = random_policy(device, size, "sdpa")
    config = load_config(["model.precision=bfloat16", "rollout.rows_per_batch=512"])
    engine = TransformersEngine(policy, policy.tokenizer, config.rollout, config.model)
    engine.stop_tokens = torch.tensor([size.vocabulary - 1])
    rows: list[tuple[object, ...]] = []
    for count, length in size.sampled:
        prompts = [[5] * 200] * (count // 8)
        taken = seconds(lambda: engine.generate(prompts, 8, Sampling(length), 0), 1)  # noqa: B023
        rows.append((f"{count} rows, a token", milliseconds(taken / length), "25 to 30"))
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, fused=True)
    for parameter in policy.parameters():
        parameter.grad = torch.randn_like(parameter) * 1e-3
    norm = seconds(lambda: torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0))
    rows += [("norm of the gradient", milliseconds(norm), ""), ("AdamW", milliseconds(seconds(optimizer.step)), "16")]
    rows.append(
        ("weights into the bfloat16 copy", milliseconds(seconds(lambda: engine.policy.copy_weights(policy))), "")
    )
    return Table("Sampling with transformers, and the update", ("", "ms", "predicted"), rows)


SECTIONS: tuple[Callable[[torch.device, Size], Table], ...] = (ceilings, head, passes, objective_layer, sampling)


# ---- what is measured with -------------------------------------------------------------------------------------------


def random_policy(device: torch.device, size: Size, attention: str) -> Policy:
    """Float32 weights of the size, with checkpointed layers; reads as the shipped tokenizer."""
    tokenizer = load_tokenizer(load_config([]).model)
    config = Qwen3Config(
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        head_dim=128,
        vocab_size=size.vocabulary,
        max_position_embeddings=size.positions,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.backend.eos_token_id,
    )
    config._attn_implementation = attention
    torch.manual_seed(0)
    with device:
        model = Qwen3ForCausalLM(config)
    return Policy(model, tokenizer, gradient_checkpointing=True)


def responses(size: Size, group: int = 8, prompt: int = 200) -> Responses:
    """Groups of responses with log-normal lengths, as many as fill the positions."""
    generator = torch.Generator().manual_seed(0)
    lengths: list[int] = []
    while (room := size.positions - sum(lengths) - (len(lengths) + 1) * prompt) > 8:
        drawn = size.mean_length * math.exp(0.7 * float(torch.randn(1, generator=generator)) - 0.245)
        lengths.append(max(2, min(room, int(drawn))))
    tokens = torch.randint(5, size.vocabulary, (len(lengths), max(lengths)), generator=generator)
    counts = torch.tensor(lengths)
    prompts = [[3 + row // group % 5] * prompt for row in range(len(lengths))]
    return Responses(prompts, tokens, counts, torch.arange(max(lengths)) < counts[:, None])


def token_batch(device: torch.device, size: Size) -> TokenBatch:
    """A step of rollouts with random statistics."""
    generator = torch.Generator(device).manual_seed(0)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=device)

    spread = torch.randn(size.rows, generator=generator, device=device)
    length = (size.width / 3 * torch.exp(0.6 * spread)).clamp(8, size.width).long()
    length[0] = size.width
    group = torch.arange(size.rows, device=device) // 8
    reward = (uniform(size.rows) < 0.5).float()
    old = -3 * uniform(size.rows, size.width) ** 3
    entropy = 2 * uniform(size.rows, size.width)
    return TokenBatch(
        mask=torch.arange(size.width, device=device) < length[:, None],
        length=length,
        group=group,
        reward=reward,
        correct=reward,
        truncated=length == size.width,
        max_length=size.width,
        logp_old=old,
        entropy_old=entropy,
        logp=old + 0.1 * (uniform(size.rows, size.width) - 0.5),
        entropy=entropy,
        logp_ref=old,
        logp_sampler=old,
        random_key=random_keys(group, size.width, 0),
        on_policy=False,
    )


def seconds(
    function: Callable[[], object],
    times: int = 3,
    warm: int = 1,
    of: Callable[[list[float]], float] = statistics.median,
) -> float:
    """The median of a few calls, the device's work included; or what `of` takes of them."""
    for _ in range(warm):
        function()
    taken = []
    for _ in range(times):
        finish()
        started = time.perf_counter()
        function()
        finish()
        taken.append(time.perf_counter() - started)
    return of(taken)


def milliseconds(duration: float) -> str:
    """Of a number of seconds."""
    return f"{1e3 * duration:.{0 if duration > 0.02 else 1}f}"


def waits(device: torch.device, function: Callable[[], object]) -> object:
    """How often the host waits for the device meanwhile; unknown on a CPU."""
    if device.type != "cuda":
        return ""
    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    torch.cuda.set_sync_debug_mode("default")
    return len(["" for it in caught if "synchron" in str(it.message) and "prototype" not in str(it.message)])


def allocated(device: torch.device) -> int:
    """Bytes on the device."""
    return torch.cuda.memory_allocated() if device.type == "cuda" else 0


@contextmanager
def peak_of(device: torch.device) -> Iterator[Callable[[], str]]:
    """Gives a function that says how many GiB were allocated at most since."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    yield lambda: f"{torch.cuda.max_memory_allocated() / 2**30:.1f}" if device.type == "cuda" else "0"


@contextmanager
def blocks_of(logits: int) -> Iterator[None]:
    """Meanwhile the head calculates that number of logits at a time."""
    before, token_stats.GPU_BLOCK = token_stats.GPU_BLOCK, logits
    try:
        yield
    finally:
        token_stats.GPU_BLOCK = before


def finish() -> None:
    """Waits for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> int:
    """Tries every section on the CPU."""
    for section in SECTIONS:
        table = section(torch.device("cpu"), SMALL)
        print(f"## {table.title}\n\n{table.markdown()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
