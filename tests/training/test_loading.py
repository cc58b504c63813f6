"""Sharded models are never whole in a process but the one that saves; what is saved is what it always was."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Lfm2Config, Lfm2ForCausalLM

from rlzoo.config import ModelConfig
from rlzoo.model.policy import Policy, pretrained_model
from rlzoo.model.pretrained import locate
from rlzoo.model.sharded_loading import fill
from rlzoo.model.sharding import first_layers, materialised, outline, with_buffers
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.rollout.base import checkpoint_weights
from tests.model.tiny_models import CONFIGS, tiny_policy
from tests.processes import TWO, launch

SLACK = 24
"""MiB of what is neither weights nor moments."""


@pytest.mark.slow
def test_no_process_has_more_than_its_share_and_a_layer_while_it_loads_and_saves(tmp_path: Path) -> None:
    said = launch([*TWO, "-m", "benchmarks.gpu.loading", tmp_path, "4"])
    lines: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert [line["rank"] for line in lines] == [0, 1]
    for line in lines:
        share, layer = line["share"], line["layer"] + SLACK
        assert line["policy"] <= share + layer < line["model"]
        assert line["policy and reference"] <= 2 * share + layer
        assert line["rank"] == 0 or line["checkpoint"] <= layer
        assert line["resumed, with moments"] <= 3 * share + layer


@pytest.mark.filterwarnings("ignore:.*logits are calculated whole")
@pytest.mark.parametrize(("name", "files"), [("qwen3", 3), *((name, 1) for name in CONFIGS)])
def test_a_model_that_is_laid_out_and_filled_is_the_one_that_was_saved(name: str, files: int, tmp_path: Path) -> None:
    saved = tiny_policy(name)
    saved.save(tmp_path)
    if files > 1:
        size = sum(weight.nbytes for weight in saved.parameters()) // (files - 1)
        (tmp_path / "model.safetensors").unlink()
        saved.model.save_pretrained(tmp_path, max_shard_size=size)
        assert len(list(tmp_path.glob("*.safetensors"))) > 1
    config = ModelConfig(name=str(tmp_path), attention="eager")
    tokenizer = load_tokenizer(config)
    policy = Policy(with_buffers(pretrained_model(config, tokenizer, device_map="meta")), tokenizer)
    fill(materialised(policy, torch.device("cpu")), locate(config))
    found, expected = (dict(it.named_parameters(remove_duplicate=False)) for it in (policy, saved))
    assert list(found) == list(expected) and all(torch.equal(found[name], expected[name]) for name in found)
    assert len(list(policy.parameters())) == len(list(saved.parameters()))
    assert all(map(torch.equal, policy.buffers(), saved.buffers()))


def test_weights_that_are_no_numbers_are_refused_row_by_row_too(tmp_path: Path) -> None:
    policy = tiny_policy("llama")
    policy.save(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.norm.weight"][1] = float("nan")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"model\.norm\.weight hold what is no number"):
        fill(policy, locate(ModelConfig(name=str(tmp_path))))


@pytest.mark.filterwarnings("ignore:.*logits are calculated whole")
@pytest.mark.parametrize("name", CONFIGS)
def test_a_small_model_calculates_as_the_whole_one(name: str) -> None:
    policy = tiny_policy(name)
    small = Policy(first_layers(policy.model), policy.tokenizer)
    kinds = set(getattr(policy.model.config, "layer_types", None) or ["any"])
    assert small.model.num_parameters() < policy.model.num_parameters() or len(kinds) == 2
    assert (small.fused, small.longest_tree) == (policy.fused, policy.longest_tree)


def test_a_small_hybrid_shows_that_its_rows_cannot_share_a_prompt() -> None:
    config = Lfm2Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        layer_types=["conv", "conv", "full_attention", "conv"],
    )
    torch.manual_seed(0)
    model, tokenizer = Lfm2ForCausalLM(config), tiny_policy("qwen3").tokenizer
    assert Policy(first_layers(model), tokenizer).longest_tree == 0


@pytest.mark.filterwarnings("ignore:.*logits are calculated whole")
@pytest.mark.parametrize("name", CONFIGS)
def test_gathered_weights_are_saved_as_the_model_itself_is(name: str, tmp_path: Path) -> None:
    policy = tiny_policy(name)
    for folder, weights in (("own", None), ("gathered", dict(checkpoint_weights(policy.model)))):
        policy.save(tmp_path / folder, weights)
    own, gathered = (load_file(tmp_path / folder / "model.safetensors") for folder in ("own", "gathered"))
    assert own.keys() == gathered.keys() and all(torch.equal(own[key], gathered[key]) for key in own)


def test_an_outline_has_buffers_and_no_memory_for_weights() -> None:
    policy = tiny_policy("qwen3")
    made = outline(policy.model)
    assert {weight.device.type for weight in made.parameters()} == {"meta"}
    assert all(map(torch.equal, made.buffers(), policy.model.buffers()))
