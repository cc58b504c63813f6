"""`rlzoo fit` counts what a real forward pass keeps, and says what makes the papers' settings fit."""

import json
import re
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from objectives import OF_TURNS, Loop, parse
from rlzoo.commands import main
from rlzoo.config import ModelConfig, load_config
from rlzoo.model.accelerator import make_accelerator
from rlzoo.model.layout import Responses
from rlzoo.model.lora import adapters, add_adapters
from rlzoo.model.policy import Policy
from rlzoo.model.sharding import shard
from rlzoo.rollout import memory
from rlzoo.rollout.memory import GIB, KNOWN, Shape, reference_shape, shape_of
from rlzoo.training.fit import (
    StepArithmetic,
    activations,
    arithmetic,
    fit,
    forward,
    gathered_bytes,
    host_bytes,
    predict,
    token_bytes,
)
from tests.conftest import error_of
from tests.model.tiny_models import CONFIGS, tiny_tokenizer
from tests.simulated_device.updates import counting

ROOT = Path(__file__).parents[2]
SIZES: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
SHAPES = {
    "llama": (LlamaConfig(**SIZES), Shape(64, 160, 3, 4, 2, 24, 512, tied=False)),
    "qwen3": (Qwen3Config(**SIZES), Shape(64, 160, 3, 4, 2, 24, 512, tied=False, qk_norm=True)),
}
FOURTEEN = Shape(5120, 17_408, 40, 40, 8, 128, 151_936, tied=False, qk_norm=True)
"""Qwen3-14B, 14.77e9 weights by its card."""
PAPERS = {path.stem: path for path in sorted((ROOT / "configs").glob("*_qwen*.yaml"))}
CARDS = {
    "Qwen/Qwen2.5-0.5B-Instruct": 0.494e9,
    "Qwen/Qwen3-1.7B-Base": 1.7e9,
    "Qwen/Qwen2.5-3B-Instruct": 3.09e9,
    "Qwen/Qwen2.5-Math-7B": 7.62e9,
    "Qwen/Qwen2.5-7B": 7.61e9,
    "Qwen/Qwen3-8B-Base": 8.19e9,
    "Qwen/Qwen3-14B-Base": 14.77e9,
    "Qwen/Qwen3-32B": 32.8e9,
    "Qwen/Qwen2.5-32B": 32.8e9,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1.78e9,
}
"""Parameters as the model cards have them."""


def tiny(name: str, checkpointing: bool = False, attention: str = "sdpa", share_prompts: bool = False) -> Policy:
    model = AutoModelForCausalLM.from_config(SHAPES[name][0], attn_implementation=attention).float()
    return Policy(model, tiny_tokenizer(), checkpointing, share_prompts)


def saved_bytes(policy: Policy, rows: int, length: int, bfloat16: bool) -> tuple[int, int]:
    """Bytes of the tensors that a forward pass saves for its backward pass, weights left out; and its positions."""
    own = {parameter.untyped_storage().data_ptr() for parameter in policy.parameters()}
    saved: dict[int, Any] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage
        return tensor

    tokens = torch.randint(512, (rows, length), generator=torch.Generator().manual_seed(0))
    batch = Responses([[1]] * rows, tokens, torch.full((rows,), length), torch.ones_like(tokens, dtype=torch.bool))
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=bfloat16),
    ):
        positions = policy(batch, 1.0).positions
    return sum(storage.nbytes() for storage in saved.values()), positions


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize(("rows", "length"), [(4, 64), (1, 200)])
@pytest.mark.parametrize("name", SHAPES)
def test_predicted_activations_are_within_a_tenth_of_what_a_forward_pass_saves(
    name: str, rows: int, length: int, bfloat16: bool
) -> None:
    measured, positions = saved_bytes(tiny(name), rows, length, bfloat16)
    predicted = activations(SHAPES[name][1], positions, rows, bfloat16, checkpointing=False)
    assert abs(predicted / measured - 1) < 0.1


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize(("attention", "masked"), [("sdpa", 125), ("varlen", 0)])
def test_masks_are_counted_where_the_attention_has_them(attention: str, masked: int, bfloat16: bool) -> None:
    policy = tiny("llama", attention=attention, share_prompts=True)
    measured, positions = saved_bytes(policy, 8, 32, bfloat16)
    assert positions == (2 * masked or 8 * 32)  # four responses behind their prompt in a row, or eight and no padding
    predicted = activations(SHAPES["llama"][1], positions, 8, bfloat16, checkpointing=False, masked=masked)
    assert abs(predicted / measured - 1) < 0.1


@pytest.mark.parametrize("name", SHAPES)
def test_checkpointed_layers_keep_their_inputs_beside_one_layer_that_is_calculated_again(name: str) -> None:
    shape = SHAPES[name][1]
    measured, positions = saved_bytes(tiny(name, checkpointing=True), 4, 64, bfloat16=False)
    layer = activations(shape, positions, 4, False, False) - activations(
        Shape(64, 160, 2, 4, 2, 24, 512, tied=False, qk_norm=shape.qk_norm), positions, 4, False, False
    )
    predicted = activations(shape, positions, 4, bfloat16=False, checkpointing=True)
    assert abs(predicted / (measured + layer) - 1) < 0.1


class Casts(TorchDispatchMode):
    """Remembers what is cast to bfloat16, as long as it lives."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref[Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and result.dtype == torch.bfloat16:
            self.made.append(weakref.ref(result))
        return result


def test_the_accelerator_keeps_no_cast_of_a_weight_whose_layer_is_calculated_again() -> None:
    policy, accelerator = tiny("llama", checkpointing=True).train(), make_accelerator("bfloat16")
    shapes = {tuple(weight.shape) for weight in policy.model.model.layers.parameters() if weight.dim() == 2}
    tokens = torch.randint(512, (2, 30), generator=torch.Generator().manual_seed(0))
    batch = Responses([[1]] * 2, tokens, torch.full((2,), 30), torch.ones_like(tokens, dtype=torch.bool))
    with accelerator.autocast(), Casts() as casts:
        stats = policy(batch, 1.0)
        assert stats.logp.requires_grad and len(casts.made) > 7 * SIZES["num_hidden_layers"]
        assert not [it for it in casts.made if (cast := it()) is not None and tuple(cast.shape) in shapes]


@pytest.mark.parametrize("name", SHAPES)
def test_weights_and_adapters_are_counted_as_they_are(name: str, tmp_path: Path) -> None:
    policy = tiny(name)
    policy.save(tmp_path)
    shape = shape_of(ModelConfig(name=str(tmp_path)))
    assert shape == SHAPES[name][1]
    assert abs(shape.parameters / policy.model.num_parameters() - 1) < 0.02
    add_adapters(policy.model, load_config(["model.lora.rank=3"]).model.lora)
    assert shape.adapters(3) == sum(weight.numel() for weight in adapters(policy).values())


@pytest.mark.parametrize("name", CONFIGS)
def test_sizes_read_from_a_file_are_those_that_transformers_reads(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CONFIGS[name].save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    saved.pop("layer_types", None)  # which older files lack
    (tmp_path / "config.json").write_text(json.dumps(saved))
    model = ModelConfig(name=str(tmp_path))
    shape = shape_of(model)
    monkeypatch.setattr(memory, "PLAIN", {})
    assert shape == shape_of(model)


@pytest.mark.parametrize("name", SHAPES)
def test_predicted_arithmetic_is_what_a_forward_pass_counts(name: str) -> None:
    policy, tokens = tiny(name), torch.zeros(3, 40, dtype=torch.long)
    policy.model.set_attn_implementation("eager")  # which looks ahead too
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        policy.model(tokens, logits_to_keep=30)
    shape = SHAPES[name][1]
    ahead = 2 * 3 * shape.layers * shape.heads * shape.head_size * 40**2
    assert counter.get_total_flops() == pytest.approx(forward(shape, 3, 10, 30) + ahead, rel=0.01)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def parts(phase: str, gpus: int, *words: str) -> Mapping[str, float]:
    """What a phase takes with the shape of `SIZES`, by what takes it."""
    config = load_config(list(words))
    found = predict(config, SHAPES["llama"][1], parse(config.objective), gpus)
    return next(it.parts for it in found if it.name == phase)


def test_buckets_are_as_large_as_ddp_makes_them(alone: None) -> None:
    wrapped = DistributedDataParallel(tiny("llama").model)
    sizes = str(wrapped._get_ddp_logging_data()["bucket_sizes"]).split(",")
    predicted = parts("training", 2)["DDP's buckets"]
    assert sum(map(int, sizes)) == pytest.approx(predicted, rel=0.02)
    assert "DDP's buckets" not in {**parts("training", 1), **parts("training", 2, "train.sharding=fsdp")}


def test_gathered_weights_are_two_layers_and_the_root_unit_of_fsdp(alone: None) -> None:
    sharded: Any = shard(tiny("llama"))
    units = [it._get_fsdp_state()._fsdp_param_group for it in sharded.modules() if isinstance(it, FSDPModule)]
    root, *layers = (4 * sum(it._orig_size.numel() for it in unit.fsdp_params) for unit in units)
    assert len(layers) == SIZES["num_hidden_layers"]
    assert root + 2 * layers[0] == pytest.approx(gathered_bytes(SHAPES["llama"][1]), rel=0.02)


@pytest.mark.parametrize("name", SHAPES)
def test_merged_adapters_are_the_linear_layers_once_more(name: str) -> None:
    policy = tiny(name)
    add_adapters(policy.model, load_config(["model.lora.rank=3"]).model.lora)
    kept = {parameter.data_ptr() for parameter in policy.parameters()}
    new = sum(it.nbytes for it in policy.merged().parameters() if it.data_ptr() not in kept)
    words = ("model.lora.rank=3", "model.precision=bfloat16")
    assert new == 4 * SHAPES[name][1].linear == parts("hand-over", 1, *words)["merged adapters"]


@pytest.mark.parametrize("expression", ["grpo", "stapo", "entropy20", "dapo+kl"])
def test_tokens_of_the_batch_are_counted_as_a_step_has_them(expression: str, tiny_model: Path) -> None:
    trainer, (collected, *_) = counting(tiny_model, f"objective={expression}", "train.minibatches_per_step=1")
    loop = Loop(parse(expression), moved=True)
    scored = trainer.scored(collected, loop.needs)
    batch = scored.with_fields(**dict.fromkeys(OF_TURNS - loop.needs))  # as a task of one turn has it
    step = loop.begin(batch)
    plan = step.plan(0, lambda: (batch.logp_sampler, batch.logp_sampler))
    tensors = [*step.prepared.tensors().values(), plan.policy_coefficient, plan.active]
    shape = batch.mask.shape
    held = {it.untyped_storage().data_ptr(): it for it in tensors if it.shape == shape}
    measured = sum(it.nbytes for it in held.values()) / batch.mask.numel()
    assert token_bytes(parse(expression)) == pytest.approx(measured, rel=0.15)


def test_sharded_models_start_with_a_share_where_whole_ones_do_not_fit() -> None:
    words = ["objective=grpo+kl", "rollout.engine=vllm", "model.precision=bfloat16", "train.sharding=fsdp"]
    words += ["model.gradient_checkpointing=true", "model.attention=varlen", "train.tokens_per_micro_batch=2048"]
    config, objective = load_config(words), parse("grpo+kl")
    found = fit(config, FOURTEEN, objective, 8, 80 * GIB)
    start, *_, handed_over = found.phases
    assert found.fits and (start.name, handed_over.name) == ("start", "hand-over")
    sampler, embedding = 2 * 14.77e9, 151_936 * 5120
    share = 2 * 4 * 14.77e9 / 8
    assert start.total - start.parts["reserved"] == pytest.approx(share + sampler + 6 * embedding + 4 * GIB, rel=0.02)
    moments_and_tokens = handed_over.parts["Adam"] + handed_over.parts["tokens of all GPUs"]
    assert handed_over.total - moments_and_tokens == pytest.approx(start.total - 4 * GIB)
    whole = fit(load_config([*words, "train.sharding=none"]), FOURTEEN, objective, 8, 80 * GIB)
    assert whole.phases[0].total > 80 * GIB and whole.remedy == ["train.sharding=fsdp"]


def test_a_start_that_a_cache_makes_too_large_fits_with_less_of_it_or_with_a_server() -> None:
    words = [str(PAPERS["stapo_qwen3_1.7b"]), "train.sharding=fsdp", "train.tokens_per_micro_batch=4096"]
    words += ["rollout.max_response_tokens=3072", "model.attention=sdpa", "model.share_prompts=false"]
    objective = parse("stapo")
    cached = fit(load_config([*words, "rollout.kv_cache_gib=75"]), FOURTEEN, objective, 64, 80 * GIB)
    assert not cached.fits and cached.remedy == ["rollout.kv_cache_gib=4"]
    alone = fit(
        load_config([*words, "rollout.kv_cache_gib=4", "model.precision=float32"]), FOURTEEN, objective, 64, 48 * GIB
    )
    assert alone.largest.name == "start"
    assert alone.remedy == ["rollout.engine=vllm_server", "rollout.kv_cache_gib=null"]
    mended = load_config([*words, "rollout.kv_cache_gib=4", *alone.remedy]).rollout
    assert mended.kv_cache_gib is None, "a key without effect there, which a run would refuse"


@pytest.mark.parametrize(
    ("words", "gib", "remedy"),
    [
        (
            ["model.compile=true", "model.precision=bfloat16"],
            200,
            ["model.lora.rank=32"],
        ),  # sharded it does not compile
        (
            ["rollout.noise=0.1", "rollout.rows_per_batch=8192", "rollout.max_response_tokens=16384"],
            340,
            ["train.sharding=fsdp", "model.precision=bfloat16"],  # vLLM reads no noise
        ),
    ],
)
def test_no_remedy_is_a_key_that_a_run_refuses_beside_the_others(words: list[str], gib: int, remedy: list[str]) -> None:
    small = ["model.gradient_checkpointing=true", "model.attention=varlen", "train.tokens_per_micro_batch=2048"]
    config = load_config(["objective=grpo+kl", "rollout.max_response_tokens=1024", *small, *words])
    assert fit(config, FOURTEEN, parse(config.objective), 8, gib * GIB).remedy == remedy


def test_the_machine_holds_what_loads_what_sleeps_and_what_is_saved() -> None:
    weights, embedding = 4 * 14.77e9, 4 * 151_936 * 5120

    def taken(*words: str, teacher: Shape | None = None) -> list[float]:
        config = load_config(["rollout.engine=vllm", "model.precision=bfloat16", *words])
        return list(host_bytes(config, FOURTEEN, parse(config.objective), 8, teacher).values())

    grpo, kl, other = "objective=grpo", "objective=grpo+kl", "model.reference=./other"
    sharded = taken(grpo, "train.sharding=fsdp")
    assert sharded == pytest.approx([weights / 2, weights / 2, weights / 2, 3 * weights], rel=0.02)
    layer = (weights - 2 * embedding) / 40
    by_server = taken(kl, "train.sharding=fsdp", "rollout.engine=vllm_server")
    assert by_server == pytest.approx([2 * embedding + layer, 2 * embedding + layer, 0, 3 * weights], rel=0.02)
    checked = weights + 1.5 * embedding  # whether numbers are finite is asked of one weight after the other
    alone = taken("objective=dapo")
    assert alone == pytest.approx([checked, weights + checked, 0, 2 * weights], rel=0.02)
    assert taken(kl) == pytest.approx([2 * weights, weights + checked, 0, 2 * weights], rel=0.02)
    assert taken(kl, other)[:2] == pytest.approx([3 * weights, 3 * weights], rel=0.02)
    assert taken(grpo, "model.lora.rank=8")[:2] == pytest.approx([checked, checked], rel=0.02)


def test_a_reference_of_another_size_is_counted_as_large_as_it_is() -> None:
    kl, larger = load_config(["objective=grpo+kl", "model.reference=Qwen/Qwen3-14B-Base"]), FOURTEEN
    policy, objective = KNOWN["Qwen/Qwen3-1.7B-Base"], parse(kl.objective)
    assert reference_shape(kl.model) == larger and reference_shape(load_config([]).model) is None
    assert predict(kl, policy, objective, 1, None, larger)[0].parts["reference"] == 4.0 * larger.parameters
    more = 8.0 * (larger.parameters - policy.parameters)
    same, other = (host_bytes(kl, policy, objective, 1, None, shape)["start"] for shape in (policy, larger))
    assert other - same == pytest.approx(more)
    same, other = (arithmetic(kl, policy, objective, None, shape).scoring for shape in (policy, larger))
    assert other > 2 * same


def test_fit_says_what_cache_takes_what_is_free_and_with_it_the_run_still_fits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [str(PAPERS["stapo_qwen3_1.7b"]), "gpus=8", "memory=80", "rollout.kv_cache_gib=4"]
    assert main(["fit", *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    (key, size), (more,) = (
        re.findall(r"(rollout.kv_cache_gib=(\d+)) takes", text)[0],
        re.findall(r"for ([\d.]+) of them", text),
    )
    assert "room for 2.3 whole responses of the 256" in text and int(size) > 40 and float(more) > 20
    assert main(["fit", *words, key]) == 0 and f"room for {more}" in " ".join(capsys.readouterr().out.split())
    assert main(["fit", *words, f"rollout.kv_cache_gib={int(size) + 1}"]) == 1


def test_passes_references_and_checkpoints_take_arithmetic_of_their_own() -> None:
    def taken(*words: str) -> tuple[float, float]:
        config = load_config(["rollout.max_prompt_tokens=8", *words])
        found = arithmetic(config, SHAPES["llama"][1], parse(config.objective))
        once = forward(SHAPES["llama"][1], 64 * 8, 8, 24)
        return found.scoring / once, found.training / once

    assert taken("objective=reinforce", "train.minibatches_per_step=1") == (0, 3)
    assert taken("objective=dapo", "train.minibatches_per_step=2") == (1, 3)
    assert taken("objective=grpo", "train.minibatches_per_step=2") == (2, 3)
    assert taken("objective=dapo+lopti", "model.gradient_checkpointing=true") == (1, 8)
    assert StepArithmetic(0, 1e15, 3e15).hours(steps=900, speed=1e15) == 1


@pytest.mark.parametrize("name", KNOWN)
def test_the_papers_models_have_the_parameters_of_their_cards(name: str) -> None:
    assert abs(KNOWN[name].parameters / CARDS[name] - 1) < 0.02


@pytest.mark.parametrize(("name", "memory"), [("one_gpu_gsm8k", 24), ("one_gpu_dapo_math", 80)])
def test_configurations_for_one_gpu_fit_it(name: str, memory: int, capsys: pytest.CaptureFixture[str]) -> None:
    config = str(ROOT / "configs" / f"{name}.yaml")
    assert main(["fit", config, "gpus=1", f"memory={memory}"]) == 0
    assert "It fits" in capsys.readouterr().out and "\\n" not in load_config([config]).task.instruction


def test_it_prints_one_table_of_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(PAPERS["stare_qwen2.5_math_7b"]), "memory=80"]
    assert main(["fit", *words]) == 1
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert "It does not fit: training takes the most" in text and "It would fit with " in text
    assert main(["fit", *words, "gpus=8", "train.sharding=fsdp"]) == 0
    assert "It fits" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["gpus=0", "memory=0", "teraflops=nan", "train.steps=0", "model.name=./nowhere"])
def test_wrong_words_are_said_in_one_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert word.partition("=")[0] in error_of(capsys, "fit", word)
