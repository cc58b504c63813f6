"""What a run will take of each GPU and of the machine's memory, phase by phase, and its hours: `rlzoo fit`.

Counted are weights, gradients, moments, DDP's buckets, what FSDP2 gathers, keys and values, the tokens of the whole
batch, what a forward pass keeps for its backward pass, and the blocks of logits. Sharded models are never whole on any
process: they are loaded row by row, and handed over and saved one weight at a time. Not counted are kernels' workspaces
and fragmentation, for which `RESERVED` stands. Hours are those of the arithmetic alone.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from objectives import OTHER_FIELDS, POLICY_FIELDS, Objective, step_scoring
from rlzoo.config import Config, TrainConfig
from rlzoo.errors import UserError
from rlzoo.experiment.check import check_keys, check_old_logp, refuse_unreported
from rlzoo.model.pretrained import INITIAL
from rlzoo.model.sizes import GPU_BLOCK, LONGEST_TREE
from rlzoo.rollout import engine_traits, refuse_unread
from rlzoo.rollout.memory import GIB, SPARE, Shape, bytes_per_token, cache_bytes, set_aside_gib

RESERVED = 2 * GIB
"""CUDA's context, libraries, and what lies between tensors."""
ENTROPIES = frozenset({"entropy_old", "entropy"})
"""Fields that take exponentials of logits beside these."""


@dataclass(frozen=True)
class Phase:
    """Bytes per GPU of one phase of a step, by what takes them."""

    name: str
    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """Bytes in all."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Fit:
    """What a configuration takes of each GPU, and what would make it fit."""

    phases: Sequence[Phase]
    memory: float
    """Bytes that each GPU has."""
    remedy: Sequence[str] = ()
    """Keys that make it fit, none if it fits or if nothing here does."""
    has_room: bool = True
    """Whether keys and values have room for a whole response."""

    @property
    def fits(self) -> bool:
        """Whether every phase does, and whether one response can be sampled."""
        return self.largest.total <= self.memory and self.has_room

    @property
    def largest(self) -> Phase:
        """The phase that takes the most."""
        return max(self.phases, key=lambda phase: phase.total)


def _masked_row(config: Config, shape: Shape) -> int:
    """The positions of the longest row whose responses are kept apart by masks; 0 where the attention has none.

    Rows are as long as the trees of prompts that they hold, and as the longest response.
    """
    rollout, model = config.rollout, config.model
    if model.attention not in ("sdpa", "eager") or not model.share_prompts:
        return 0
    group = rollout.max_prompt_tokens + rollout.responses_per_prompt * rollout.max_response_tokens
    return max(rollout.max_prompt_tokens + rollout.max_response_tokens, min(LONGEST_TREE * shape.hidden, group))


def predict(
    config: Config,
    shape: Shape,
    objective: Objective,
    gpus: int,
    teacher: Shape | None = None,
    reference: Shape | None = None,
) -> list[Phase]:
    """The phases of a step on one of `gpus` GPUs; `teacher` is the shape of one that has its own weights.

    `reference` is that of the reference where it is not the policy's.
    """
    train, rollout, model = config.train, config.rollout, config.model
    reference = reference or shape
    bfloat16 = model.precision == "bfloat16"
    share = sharers(train, gpus)
    weights = shape.parameters
    trained = shape.adapters(model.lora.rank) if model.lora.rank else weights
    held = {"weights": 4.0 * weights / share, "Adam": 8.0 * trained / share}
    if "logp_ref" in objective.needs and not (model.lora.rank and model.reference == "initial"):
        held["reference"] = 4.0 * reference.parameters / share
    if teacher is not None and not (model.lora.rank and model.teacher == INITIAL):
        held["teacher"] = 4.0 * teacher.parameters / share
    engine = engine_traits(rollout.engine)
    needs_copy = not engine.apart and (not engine.shares_weights or bfloat16 or share > 1)
    copy = {"sampler's weights": copy_bytes(shape, bfloat16, share, engine.shares_weights)} if needs_copy else {}
    longest = rollout.max_prompt_tokens + rollout.max_response_tokens
    cache = _cache(config, shape, gpus)
    positions = max(train.tokens_per_micro_batch, longest)
    masked = _masked_row(config, shape)
    widest = max(kept_per_position(other, bfloat16) for other in (shape, reference, teacher or shape))
    layer = positions * (widest + mask_per_position(masked, bfloat16) + masked)
    head = {"logits": logits_bytes(shape, positions, bool(objective.needs & ENTROPIES))}
    gathered = {"gathered weights": gathered_bytes(shape)} if share > 1 else {}
    others = [other for name, other in (("reference", reference), ("teacher", teacher or shape)) if name in held]
    also = {"gathered of others": max(map(root_bytes, others))} if share > 1 and others else {}
    tokens = {"tokens of all GPUs": float(token_bytes(objective) * _tokens(config))}
    buckets = {"DDP's buckets": 4.0 * trained} if gpus > 1 and share == 1 else {}
    merged = {"merged adapters": 4.0 * shape.linear} if model.lora.rank and (needs_copy or engine.apart) else {}
    resident = {} if engine.sleeps else copy
    reserved = {"reserved": float(RESERVED)}
    models = {name: size for name, size in held.items() if name != "Adam"}
    handed = {"a gathered weight": gathered_weight_bytes(shape, bfloat16)} if share > 1 else {}
    set_aside = {"KV cache": cache} if engine.kv_cache_gib is not None else {}
    trains = {**held, **resident, **buckets, **gathered, **tokens}
    learns = {**trains, "gradients": 4.0 * trained / share}
    moments = training_moments(config, shape, objective, share, positions, masked)
    return [
        Phase("start", {**models, **copy, **merged, **handed, **set_aside, **reserved}),
        Phase("rollout", {**held, **buckets, **copy, **tokens, "KV cache": cache, **reserved}),
        Phase("scoring", {**trains, **also, "activations": float(layer), **head, **reserved}),
        Phase("planning", {**trains, "temporaries": PLAN_BYTES * _tokens(config), **reserved}),
        max((Phase("training", {**learns, **moment, **reserved}) for moment in moments), key=lambda phase: phase.total),
        Phase("hand-over", {**held, **buckets, **copy, **merged, **handed, **tokens, **reserved}),
    ]


def copy_bytes(shape: Shape, bfloat16: bool, share: float, by_policy: bool) -> float:
    """Bytes of the weights that an engine samples with beside the policy's.

    A copy of the policy has its head in float32, the policy's own where that is whole; an embedding is then another.
    """
    number, embedding = 2.0 if bfloat16 else 4.0, shape.vocabulary * shape.hidden
    if not by_policy:
        return number * shape.parameters
    return number * (shape.linear + embedding) + (4.0 * embedding if share > 1 else 0.0)


def gathered_bytes(shape: Shape) -> float:
    """Bytes of whole float32 weights that a process with a share of them has at once: FSDP2's units.

    Two layers, the one that runs and the next; and embedding and head, the root's unit, which stays gathered from a
    step's first forward pass to the end of the backward one.
    """
    return 8.0 * shape.linear / shape.layers + root_bytes(shape)


def root_bytes(shape: Shape) -> float:
    """Bytes of whole embedding and head."""
    return 4.0 * (shape.parameters - shape.linear)


def gathered_weight_bytes(shape: Shape, bfloat16: bool) -> float:
    """Bytes of the largest weight, whole in float32 on its way to the sampler, and as it is cast there."""
    return (6.0 if bfloat16 else 4.0) * shape.largest


PLAN_BYTES = 60.0
"""Bytes above the batch for each of its positions while a step is prepared and planned: 48 to 60 on an H200."""


def token_bytes(objective: Objective) -> int:
    """Bytes that every process holds for each position of the [N, T] batch of all processes.

    Mask, random key and the sampler's log-probs; a float32 for each field that the objective reads; advantages in
    float32; and of a plan coefficients in float32 and which tokens are active.
    """
    return 1 + 8 + 4 + 4 * len(objective.needs & (POLICY_FIELDS | OTHER_FIELDS)) + 4 + 4 + 1


def host_bytes(
    config: Config,
    shape: Shape,
    objective: Objective,
    gpus: int,
    teacher: Shape | None = None,
    reference: Shape | None = None,
) -> Mapping[str, float]:
    """Bytes of the machine's memory: of each process at the start, as it resumes, and all the time, and what a
    checkpoint adds on the main process; `teacher` and `reference` are as for `predict`.

    Sharded models go to the GPU row by row, behind a trial of a layer with embedding and head; vLLM, which keeps
    sharded weights, sleeps with them there. Others are loaded in float32 before they go to the GPU: the policy, and
    beside it a model that does not learn, with the copy that stays, or the checkpoint that a run resumes from.
    """
    weights, adapted = 4.0 * shape.parameters, bool(config.model.lora.rank)
    if shares_copies(config.train, gpus):
        number = 2.0 if config.model.precision == "bfloat16" else 4.0
        sleeping = number * shape.parameters if engine_traits(config.rollout.engine).sleeps else 0.0
        start = max(4.0 * max(_trial(model) for model in (shape, teacher or shape, reference or shape)), sleeping)
        return {"start": start, "resume": start, "always": sleeping, "checkpoint": 12.0 * shape.parameters}
    beside = [_checked(shape)]
    if "logp_ref" in objective.needs:
        copied = 0.0 if adapted else weights
        beside.append(copied if config.model.reference == INITIAL else 8.0 * (reference or shape).parameters)
    if teacher is not None:
        copied = 0.0 if adapted else 4.0 * teacher.parameters
        beside.append(copied if config.model.teacher == INITIAL else 8.0 * teacher.parameters)
    saved = 0.0 if adapted else weights + _checked(shape)
    start = weights + max(beside)
    return {
        "start": start,
        "resume": max(start, weights + saved),
        "always": 0.0,
        "checkpoint": weights if adapted else 2 * weights,
    }


def _checked(shape: Shape) -> float:
    """Bytes that it takes to ask whether the largest weight is finite: its absolute values, and two answers."""
    return 6.0 * shape.largest


def _trial(shape: Shape) -> float:
    """Weights of the small model that a sharded one is tried out by."""
    return shape.parameters - shape.linear + shape.linear / shape.layers


def whole_responses(config: Config, shape: Shape, gpus: int) -> tuple[float, int]:
    """How many responses of full length a GPU's keys and values have room for, of how many it samples in a step."""
    longest = config.rollout.max_prompt_tokens + config.rollout.max_response_tokens
    return _cache(config, shape, gpus) / (bytes_per_token(shape, config.model) * longest), _sampled(config, gpus)


def _cache(config: Config, shape: Shape, gpus: int) -> float:
    """Bytes of the keys and values of what a GPU samples side by side, in full length."""
    rollout = config.rollout
    longest, rows = rollout.max_prompt_tokens + rollout.max_response_tokens, _sampled(config, gpus)
    return cache_bytes(rollout, config.model, shape, min(rollout.rows_per_batch, rows), longest)


def _sampled(config: Config, gpus: int) -> int:
    """Responses that a GPU samples in a step at most."""
    rollout = config.rollout
    parts = rollout.max_response_tokens // (rollout.partial_tokens or rollout.max_response_tokens)
    return math.ceil(parts * rollout.prompts_per_step * rollout.responses_per_prompt / gpus)


def free_for_cache(fit: Fit, room: float, sampled: int) -> int:
    """GiB that keys and values may take, of what the phases that hold them leave free, for all `sampled` responses.

    `room` is for how many there is room as it is.
    """
    holding = [phase for phase in fit.phases if "KV cache" in phase.parts]
    cache = holding[0].parts["KV cache"]
    free = cache + min(fit.memory - phase.total for phase in holding)
    return math.floor(min(free, cache * sampled / room) / GIB)


def _tokens(config: Config) -> int:
    """Positions of the [N, T] batch of all processes, if responses are of full length."""
    rollout = config.rollout
    return rollout.prompts_per_step * rollout.responses_per_prompt * rollout.max_response_tokens


def fit(
    config: Config,
    shape: Shape,
    objective: Objective,
    gpus: int,
    memory: float,
    teacher: Shape | None = None,
    reference: Shape | None = None,
) -> Fit:
    """Whether a run fits on `gpus` GPUs of `memory` bytes each, and if not, the fewest keys that make it fit."""
    needed = shape, objective, gpus, memory, teacher, reference
    fit = _fit(config, *needed)
    if fit.fits:
        return fit
    changes = list(_changes(config, shape, gpus))
    for count in range(1, len(changes) + 1):
        for chosen in combinations(changes, count):
            changed = config
            for _, section, values in chosen:
                changed = replace(changed, **{section: replace(getattr(changed, section), **values)})
            if _fit(changed, *needed).fits and _may_be(changed, objective):
                return replace(fit, remedy=[word for words, _, _ in chosen for word in words.split()])
    return fit


def _fit(config: Config, shape: Shape, objective: Objective, gpus: int, memory: float, *others: Shape | None) -> Fit:
    """Whether it fits, without what would make it fit."""
    return Fit(predict(config, shape, objective, gpus, *others), memory, has_room=_has_room(config, shape))


def _has_room(config: Config, shape: Shape) -> bool:
    """Whether keys and values, where it is set how much they may take, have room for a whole response."""
    rollout = config.rollout
    if rollout.kv_cache_gib is None or engine_traits(rollout.engine).kv_cache_gib is None:
        return True
    longest = rollout.max_prompt_tokens + rollout.max_response_tokens + SPARE
    return rollout.kv_cache_gib * GIB >= bytes_per_token(shape, config.model) * longest


def _may_be(config: Config, objective: Objective) -> bool:
    """Whether `rlzoo train` accepts these keys together."""
    try:
        check_keys(config)
        refuse_unread(config.rollout)
        refuse_unreported(objective, config.rollout)
        check_old_logp(objective, config.rollout)
    except UserError:
        return False
    return True


def _changes(config: Config, shape: Shape, gpus: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Changes that save memory, the least harmful first: words, section of the configuration, and its new values."""
    train, rollout, model = config.train, config.rollout, config.model
    longest = rollout.max_prompt_tokens + rollout.max_response_tokens
    if _masked_row(config, shape):
        yield "model.attention=varlen", "model", {"attention": "varlen"}
    if not model.gradient_checkpointing:
        yield "model.gradient_checkpointing=true", "model", {"gradient_checkpointing": True}
    if gpus > 1 and train.sharding == "none" and not model.lora.rank:
        yield "train.sharding=fsdp", "train", {"sharding": "fsdp"}
    if train.tokens_per_micro_batch > longest:
        yield f"train.tokens_per_micro_batch={longest}", "train", {"tokens_per_micro_batch": longest}
    engine = engine_traits(rollout.engine)
    if not engine.apart and engine.kv_cache_gib is None:
        rows = max(1, rollout.rows_per_batch // 8)
        yield f"rollout.rows_per_batch={rows}", "rollout", {"rows_per_batch": rows}
        yield "rollout.engine=vllm", "rollout", {"engine": "vllm"}
    if engine.kv_cache_gib is not None and rollout.kv_cache_gib:
        size = set_aside_gib(replace(rollout, kv_cache_gib=None), engine.kv_cache_gib, model, shape, longest)
        if rollout.kv_cache_gib > size or not _has_room(config, shape):
            yield f"rollout.kv_cache_gib={size:g}", "rollout", {"kv_cache_gib": size}
    if engine.sleeps:  # its weights and cache are then on other GPUs
        unset = " rollout.kv_cache_gib=null" if rollout.kv_cache_gib else ""
        yield f"rollout.engine=vllm_server{unset}", "rollout", {"engine": "vllm_server", "kv_cache_gib": None}
    if model.precision == "float32":
        yield "model.precision=bfloat16", "model", {"precision": "bfloat16"}
    if not model.lora.rank and train.sharding == "none":
        yield "model.lora.rank=32", "model", {"lora": replace(model.lora, rank=32)}


# ---- forward and backward passes -------------------------------------------------------------------------------------


def activations(shape: Shape, positions: int, rows: int, bfloat16: bool, checkpointing: bool, masked: int = 0) -> float:
    """Bytes that a forward pass over `positions` tokens keeps for the backward pass.

    Under bfloat16 autocast the residual stream and the norms stay float32, and the weights of the layers that are kept
    are kept in bfloat16 too.
    Where masks keep responses apart in rows of `masked` positions, every layer keeps them as numbers.
    """
    layer = _layer_activations(shape, positions, bfloat16, masked)
    once = positions * (12 * shape.hidden + 4 + masked) + rows * 24
    if checkpointing:  # inputs of all layers, and one layer calculated again
        return once + positions * 4 * shape.hidden * shape.layers + layer
    return once + layer * shape.layers


def _layer_activations(shape: Shape, positions: int, bfloat16: bool, masked: int) -> float:
    """Bytes that a layer keeps for its backward pass."""
    layer = float(positions * (kept_per_position(shape, bfloat16) + mask_per_position(masked, bfloat16)))
    return layer + 2 * shape.linear / shape.layers if bfloat16 else layer


def kept_per_position(shape: Shape, bfloat16: bool) -> int:
    """Bytes of one layer and position: norms, projections, rotated queries and keys, attention, and the MLP."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    number = 2 if bfloat16 else 4
    norms = 16 * shape.hidden + (10 if bfloat16 else 8) * shape.hidden + 8  # inputs of projections are cast one by one
    attention = number * 2 * (queries + keys) + 4 * shape.heads
    normalised = (number + 4) * (queries + keys) + 4 * (shape.heads + shape.kv_heads) if shape.qk_norm else 0
    return norms + attention + normalised + number * 4 * shape.intermediate


def mask_per_position(masked: int, bfloat16: bool) -> int:
    """Attention-mask bytes of a layer for each position, in rows of `masked` positions."""
    return masked * (2 if bfloat16 else 4)


def training_moments(
    config: Config, shape: Shape, objective: Objective, share: float, positions: int, masked: int
) -> Iterator[dict[str, float]]:
    """What training adds to weights and gradients: in the head, forward and backward, in the last layers, and in the
    embedding.

    Layers that are calculated again are not there while the head is gone through. Gradients of the head and the
    embedding are whole until they are added up, of one weight with their sum, or scattered from a copy.
    """
    model, bfloat16 = config.model, config.model.precision == "bfloat16"
    longest = config.rollout.max_prompt_tokens + config.rollout.max_response_tokens
    rows = math.ceil(positions / longest)
    kept = activations(shape, positions, rows, bfloat16, model.gradient_checkpointing, masked)
    layer = _layer_activations(shape, positions, bfloat16, masked)
    with_entropy = objective.needs_entropy_gradient
    forward, backward = (logits_bytes(shape, positions, with_entropy, backward) for backward in (False, True))
    embedding, gradients, widest = _gradients(shape, model.lora.rank)
    if not model.lora.rank:
        backward += 4.0 * shape.hidden * _block_width(shape, positions)
    again = layer if model.gradient_checkpointing else 0.0
    yield {"activations": kept - again, "logits": forward}
    yield {"activations": kept - again, "logits": backward, "whole gradients": embedding}
    number, inputs = 2.0 if bfloat16 else 4.0, 4.0 * shape.hidden * positions
    products, scattered = 2 * number * shape.intermediate * positions, 0.0
    in_layer = products + widest - 2 * inputs  # the head's states are gone
    if share > 1:  # whole until the layer is done; the copy that is scattered stays until the next layer is
        in_layer = max(in_layer, 3 * widest - 2 * products, gradients - layer)
        scattered = max(0.0, gradients - (inputs if model.gradient_checkpointing else layer))
    yield {"activations": kept, "a layer's backward": in_layer, "whole gradients": embedding + scattered}
    at_once = 3 if shape.tied else 2 + 2 / share if share > 1 else 1  # scattered once the weights are given back
    yield {"whole gradients": at_once * embedding + (gradients if share > 1 else 0.0)}


def _gradients(shape: Shape, rank: int) -> tuple[float, float, float]:
    """Bytes of whole gradients: of the embedding, of a layer, and of a projection of its MLP."""
    if rank:
        return 0.0, 4.0 * shape.adapters(rank) / shape.layers, 4.0 * rank * (shape.hidden + shape.intermediate)
    sizes = shape.vocabulary * shape.hidden, shape.linear / shape.layers, shape.hidden * shape.intermediate
    return 4.0 * sizes[0], 4.0 * sizes[1], 4.0 * sizes[2]


def logits_bytes(shape: Shape, positions: int, with_entropy: bool, backward: bool = False) -> float:
    """Bytes of the blocks of logits of `positions` positions.

    A block is there until the next one is; if an entropy is asked for, so are its exponentials, and on the way forward
    the products of both.
    """
    width = _block_width(shape, positions)
    several = 2 if width < shape.vocabulary else 1
    return 4.0 * positions * width * ((several + 1 if backward else 3) if with_entropy else several)


def _block_width(shape: Shape, positions: int) -> int:
    """How much of the vocabulary a block of logits is for."""
    return min(shape.vocabulary, max(256, GPU_BLOCK // positions))


# ---- sharding --------------------------------------------------------------------------------------------------------


def shares_copies(train: TrainConfig, gpus: int) -> bool:
    """Whether models are sharded: one process has none to share with."""
    return train.sharding == "fsdp" and gpus > 1


def sharers(train: TrainConfig, gpus: int) -> int:
    """Processes that share one copy of weights, gradients and moments."""
    return (train.shards or gpus) if shares_copies(train, gpus) else 1


# ---- hours -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StepArithmetic:
    """Arithmetic of a step whose responses are all of full length."""

    tokens: int
    """Tokens of responses."""
    scoring: float
    """Floating-point operations of the forward passes before the updates, those of prompts alone not counted."""
    training: float
    """Those of the updates."""

    @property
    def operations(self) -> float:
        """Operations to score and to train."""
        return self.scoring + self.training

    def hours(self, steps: int, speed: float) -> float:
        """Hours of `steps` steps at `speed` operations a second, of all GPUs together."""
        return steps * self.operations / speed / 3600


def forward(shape: Shape, rows: int, prompt: int, response: int) -> float:
    """Floating-point operations of a forward pass: two for each weight and token, the head where one is predicted.

    Attention looks back alone, so that a row of length T takes half of T^2.
    """
    length = prompt + response
    weights = shape.linear * length + shape.vocabulary * shape.hidden * response
    attention = shape.layers * shape.heads * shape.head_size * length**2
    return 2.0 * rows * (weights + attention)


def arithmetic(
    config: Config,
    shape: Shape,
    objective: Objective,
    teacher: Shape | None = None,
    reference: Shape | None = None,
) -> StepArithmetic:
    """Arithmetic of a step, with older policies' tokens where some may be such; the others are of other models.

    A prompt counts for each of its responses; a backward pass is two forward ones.
    """
    rollout, train = config.rollout, config.train
    rows = rollout.prompts_per_step * rollout.responses_per_prompt
    lengths = rollout.max_prompt_tokens, rollout.max_response_tokens
    once, taught, referred = (forward(model or shape, rows, *lengths) for model in (shape, teacher, reference))
    by_engine, sees_entropy = rollout.old_logp == "engine", engine_traits(rollout.engine).sees_entropy
    loop, fields, _ = step_scoring(objective, train.minibatches_per_step, rollout.may_be_stale, by_engine, sees_entropy)
    again = sum(loop.is_scored(number) for number in range(len(loop)))
    scorings = bool(fields & POLICY_FIELDS) + again / train.minibatches_per_step
    scoring = scorings * once + ("logp_ref" in fields) * referred + ("logp_teacher" in fields) * taught
    passes = 4 if config.model.gradient_checkpointing else 3
    return StepArithmetic(rows * rollout.max_response_tokens, scoring, objective.pass_count * passes * once)
