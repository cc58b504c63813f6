import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AttentionInterface, AutoModelForCausalLM, AutoTokenizer

from rlzoo.config import ModelConfig
from rlzoo.errors import UserError
from rlzoo.model.layout import Responses
from rlzoo.model.policy import Policy, TokenStats, load_policy
from rlzoo.model.tokenizer import load_tokenizer
from rlzoo.model.varlen import VARLEN
from tests.conftest import save_tiny_model
from tests.model.tiny_models import CONFIGS, responses, slow_statistics, tiny_policy


def objective(stats: TokenStats) -> Tensor:
    """Something that differentiates every statistic with another weight."""
    assert stats.entropy is not None
    weights = torch.linspace(-1, 1, stats.logp.numel()).view(stats.logp.shape)
    return (weights * stats.logp + weights.flip(0) * stats.entropy).sum()


def gradients(policy: Policy, stats: TokenStats) -> dict[str, Tensor]:
    policy.zero_grad()
    objective(stats).backward()
    return {name: p.grad for name, p in policy.named_parameters() if p.grad is not None}


@pytest.mark.filterwarnings("ignore:CohereForCausalLM changes its logits")
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_statistics_equal_each_response_scored_alone_from_whole_logits_in_float64(
    name: str, temperature: float
) -> None:
    policy = tiny_policy(name)
    batch = responses()
    mask = batch.mask
    stats = policy(batch, temperature, with_entropy=True)
    logp, entropy = slow_statistics(policy, batch, temperature)
    assert stats.logp.dtype == stats.entropy.dtype == torch.float32
    torch.testing.assert_close(stats.logp.double(), logp, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(stats.entropy.double(), entropy, rtol=1e-5, atol=1e-4)
    assert not stats.logp[~mask].any() and not stats.entropy[~mask].any()


@pytest.mark.parametrize(("name", "fused"), [("qwen3", True), ("llama", True), ("gemma2", True), ("gpt2", True)])
def test_gradients_equal_those_of_whole_logits(name: str, fused: bool) -> None:
    policy = tiny_policy(name).double()
    batch = responses()
    assert policy.fused is fused
    found = gradients(policy, policy(batch, 0.8, with_entropy=True))
    policy.fused = False
    expected = gradients(policy, policy(batch, 0.8, with_entropy=True))
    assert found.keys() == expected.keys() == dict(policy.named_parameters()).keys()
    for key in expected:
        torch.testing.assert_close(found[key], expected[key], rtol=1e-9, atol=1e-9)


def test_a_model_that_changes_its_logits_after_the_head_is_not_fused() -> None:
    with pytest.warns(UserWarning, match="CohereForCausalLM changes its logits"):
        assert not tiny_policy("cohere").fused


@pytest.mark.parametrize("name", ["qwen3", "gemma2"])
def test_neither_padding_nor_neighbours_nor_their_order_change_a_response(name: str) -> None:
    policy = tiny_policy(name)
    batch = responses()
    prompts, tokens, mask = batch.prompts, batch.tokens, batch.mask
    together = policy(batch, 1.0, with_entropy=True)
    wide, seen = (torch.nn.functional.pad(tensor, (0, 9)) for tensor in (tokens, mask))
    wide = wide.where(seen, 5)  # whatever is under the padding
    wider = policy(Responses(prompts, wide, mask.sum(1), seen), 1.0, with_entropy=True)
    torch.testing.assert_close(wider.logp[:, :7], together.logp, rtol=1e-5, atol=1e-5)
    assert not wider.logp[:, 7:].any()
    for row in reversed(range(len(prompts))):
        one = slice(row, row + 1)
        alone = policy(Responses(prompts[one], tokens[one], mask[one].sum(1), mask[one]), 1.0, with_entropy=True)
        torch.testing.assert_close(alone.logp[0], together.logp[row], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(alone.entropy[0], together.entropy[row], rtol=1e-5, atol=1e-5)


def test_rows_without_response_tokens_are_zero_and_differentiable() -> None:
    policy = tiny_policy("qwen3")
    batch = responses()
    prompts, tokens, mask = batch.prompts, batch.tokens, batch.mask
    stats = policy(
        Responses(prompts, tokens, torch.zeros_like(mask.sum(1)), torch.zeros_like(mask)), 1.0, with_entropy=True
    )
    assert not stats.logp.any()
    assert all(not gradient.any() for gradient in gradients(policy, stats).values())


def test_tokens_that_the_loss_does_not_see_are_context_and_nothing_else() -> None:
    policy = tiny_policy("qwen3")
    batch = responses()
    prompts, tokens, mask = batch.prompts, batch.tokens, batch.mask
    lengths, seen = mask.sum(1), mask.clone()
    seen[:, 2:4] = False
    with torch.no_grad():
        whole = policy(Responses(prompts, tokens, lengths, mask), 1.0, with_entropy=True)
        found = policy(Responses(prompts, tokens, lengths, seen), 1.0, with_entropy=True)
    assert torch.equal(found.logp, whole.logp.where(seen, 0.0)) and torch.equal(
        found.entropy, whole.entropy.where(seen, 0.0)
    )
    assert (seen.sum(1) < lengths).any()


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_dropout_is_off_in_training_too(name: str) -> None:
    policy = tiny_policy(name)
    policy.train()
    batch = responses()
    first, second = (policy(batch, 1.0).logp for _ in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert first.requires_grad


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
def test_gradient_checkpointing_changes_nothing_but_memory(name: str) -> None:
    plain, checkpointed = tiny_policy(name), tiny_policy(name, gradient_checkpointing=True)
    batch = responses()
    expected = gradients(plain, plain(batch, 1.0, with_entropy=True))
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    next(checkpointed._checkpointed[0].children()).register_forward_pre_hook(count)
    stats = checkpointed(batch, 1.0, with_entropy=True)
    forward_calls = calls
    found = gradients(checkpointed, stats)
    assert calls > forward_calls, "the layer was not calculated again in the backward pass"
    for key in expected:
        torch.testing.assert_close(found[key], expected[key])


@pytest.mark.slow
def test_compiled_layers_change_nothing_but_speed_and_have_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph for each layer would be given up after `recompile_limit` of them."""
    monkeypatch.setattr(torch._dynamo.config, "fail_on_recompile_limit_hit", True)
    layers = torch._dynamo.config.recompile_limit + 2
    kinds: dict[str, Any] = {"num_hidden_layers": layers, "layer_types": ["full_attention"] * layers}
    plain, compiled = (tiny_policy("qwen3", True, VARLEN, initializer_range=0.1, **kinds) for _ in range(2))
    compiled.compile_layers()
    rounding: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}
    batch = responses()
    tokens = batch.tokens
    with torch.no_grad():
        scored, expected = (policy(batch, 0.7, with_squares=True) for policy in (compiled, plain))
    torch.testing.assert_close(scored.squares, expected.squares, **rounding)
    found, expected = (gradients(policy, policy(batch, 0.7, with_entropy=True)) for policy in (compiled, plain))
    for key in expected:
        torch.testing.assert_close(found[key], expected[key], **rounding)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert before
    assert torch.equal(compiled.next_logits(tokens), plain.next_logits(tokens))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before, "sampling was compiled"


def test_statistics_are_float32_and_close_under_bfloat16_autocast() -> None:
    policy = tiny_policy("qwen3", initializer_range=0.1)
    batch = responses()
    exact = policy(batch, 1.0, with_entropy=True)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = policy(batch, 1.0, with_entropy=True)
    assert rounded.logp.dtype == rounded.entropy.dtype == torch.float32
    torch.testing.assert_close(rounded.logp, exact.logp, rtol=0, atol=0.05)
    found, expected = gradients(policy, rounded), gradients(policy, exact)
    for key in expected:
        torch.testing.assert_close(found[key], expected[key], rtol=0, atol=0.1 * float(expected[key].abs().max()))


def test_a_saved_policy_is_an_ordinary_transformers_folder(tiny_model: Path, tmp_path: Path) -> None:
    config = ModelConfig(name=str(tiny_model))
    tokenizer = load_tokenizer(config)
    policy = load_policy(config, tokenizer)
    with torch.no_grad():
        policy.model.get_input_embeddings().weight.mul_(1.5)
    policy.save(tmp_path / "saved")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "saved")
    inputs = torch.tensor([[1, 2, 3]])
    torch.testing.assert_close(model(inputs).logits, policy.model(inputs).logits, rtol=0, atol=0)
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")("12+3")["input_ids"] == tokenizer.encode("12+3")
    fresh = load_policy(config, tokenizer)
    fresh.load(tmp_path / "saved")
    for own, saved in zip(fresh.parameters(), policy.parameters(), strict=True):
        torch.testing.assert_close(own, saved, rtol=0, atol=0)


def test_a_contradiction_in_the_generation_settings_does_not_prevent_saving(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "model")
    (folder / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.6, "top_p": 0.9}')
    config = ModelConfig(name=str(folder))
    load_policy(config, load_tokenizer(config)).save(tmp_path / "saved")


def test_a_frozen_copy_neither_learns_nor_changes_with_the_policy() -> None:
    policy = tiny_policy("qwen3")
    batch = responses()
    reference = policy.frozen_copy()
    before = reference(batch, 1.0).logp
    assert not before.requires_grad and not any(p.requires_grad for p in reference.parameters())
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    torch.testing.assert_close(reference(batch, 1.0).logp, before, rtol=0, atol=0)


def test_a_sampling_copy_rounds_weights_but_neither_head_nor_buffers() -> None:
    policy = tiny_policy("qwen3")
    sampler = policy.sampling_copy(torch.bfloat16)
    assert sampler.model.lm_head.weight is policy.model.lm_head.weight
    assert sampler.model.model.embed_tokens.weight.dtype == torch.bfloat16
    assert all(b.dtype == torch.float32 for b in sampler.buffers() if b.is_floating_point())
    assert policy.model.model.embed_tokens.weight.dtype == torch.float32
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(torch.randn_like(parameter))
    sampler.copy_weights(policy)
    for own, new in zip(sampler.model.model.parameters(), policy.model.model.parameters(), strict=True):
        torch.testing.assert_close(own, new.bfloat16(), rtol=0, atol=0)


def test_a_sampling_copy_misses_weights_that_it_does_not_get() -> None:
    policy = tiny_policy("qwen3")
    sampler = policy.sampling_copy(torch.bfloat16)
    policy.model.lm_head = torch.nn.Identity()
    with pytest.raises(RuntimeError, match=r"did not hand over model\.lm_head\.weight"):
        sampler.copy_weights(policy)


def test_a_sampling_copy_of_its_own_has_the_same_weights_and_shares_none() -> None:
    policy = tiny_policy("qwen3")
    shared, own = (policy.sampling_copy(torch.bfloat16, share_head=share) for share in (True, False))
    there = dict(shared.named_parameters(remove_duplicate=False))
    for name, weight in own.named_parameters(remove_duplicate=False):
        assert weight.dtype == there[name].dtype and torch.equal(weight, there[name])
    assert not {p.data_ptr() for p in own.parameters()} & {p.data_ptr() for p in policy.parameters()}


def test_what_a_model_folder_lacks_is_said_in_one_line(tiny_model: Path, tmp_path: Path) -> None:
    config = ModelConfig(name=str(tiny_model))
    tokenizer = load_tokenizer(config)
    with pytest.raises(UserError, match=r"^model\.attention=nonsense: "):
        load_policy(ModelConfig(name=str(tiny_model), attention="nonsense"), tokenizer)
    folder = save_tiny_model(tmp_path / "model")
    weights = folder / "model.safetensors"
    for content, message in ((b"broken", "deserializing"), (None, "no file named model.safetensors")):
        weights.write_bytes(content) if content else weights.unlink()
        with pytest.raises(UserError, match=f"^model.name=.*{message}") as caught:
            load_policy(ModelConfig(name=str(folder)), tokenizer)
        assert "\n" not in str(caught.value)


def test_weights_that_a_file_lacks_are_not_made_up(tmp_path: Path) -> None:
    policy = tiny_policy("llama")
    state = copy.copy(policy.model.state_dict())
    del state["lm_head.weight"]
    policy.model.save_pretrained(tmp_path, state_dict=state)
    policy.tokenizer.backend.save_pretrained(tmp_path)
    config = ModelConfig(name=str(tmp_path))
    with pytest.raises(UserError, match=r"lack the weights lm_head\.weight"):
        load_policy(config, load_tokenizer(config))


def test_a_model_of_the_hub_that_has_adapters_is_not_loaded(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which transformers would load from a pickle, too."""
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(
        "transformers.utils.peft_utils.find_adapter_config_file",
        lambda name, revision: asked.append((name, revision)) or "theirs",
    )
    monkeypatch.setattr("rlzoo.model.pretrained.expect_no_hub_without_a_network", lambda: None)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("it is loaded"))
    tokenizer = load_tokenizer(ModelConfig(name=str(tiny_model)))
    with pytest.raises(UserError, match=r"model\.name=nobody/theirs: it has adapters, by adapter_config\.json; merge"):
        load_policy(ModelConfig(name="nobody/theirs", revision="abc"), tokenizer)
    assert asked == [("nobody/theirs", "abc")]


def test_a_tokenizer_with_more_tokens_than_the_embedding_is_refused(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path)
    config = ModelConfig(name=str(folder))
    tokenizer = load_tokenizer(config)
    tokenizer.backend.add_tokens(["<more>"])
    with pytest.raises(UserError, match=r"knows \d+ tokens, its embedding only \d+"):
        load_policy(config, tokenizer)


def test_an_attention_that_refuses_the_cpu_is_not_asked_while_a_model_loads(tiny_model: Path) -> None:
    def refusing(*arguments: object, **options: object) -> tuple[torch.Tensor, None]:
        raise RuntimeError("only for bfloat16 on GPUs")

    AttentionInterface.register("refusing", refusing)
    config = ModelConfig(name=str(tiny_model), attention="refusing")
    with pytest.warns(UserWarning, match="behind a prompt of its own: model.attention=refusing takes no masks"):
        policy = load_policy(config, load_tokenizer(config))
    assert policy.fused and not policy.longest_tree
    tokens = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(RuntimeError, match="only for bfloat16"):
        policy(Responses([[1, 2]], tokens, torch.tensor([3]), tokens.bool()), 1.0)


@pytest.mark.filterwarnings("ignore:every response is calculated behind")
def test_a_model_that_cannot_be_tried_has_its_logits_calculated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "_body", None)
    with pytest.warns(UserWarning, match="LlamaForCausalLM cannot be tried .*: logits are calculated whole"):
        assert not tiny_policy("llama").fused
