"""The policy: a causal language model that reports log-prob and entropy of response tokens."""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from rlzoo.config import ModelConfig
from rlzoo.errors import UserError, one_line
from rlzoo.model.layout import Layout, Responses, filled, grow, in_one_row, pack, packed, padded, to_device
from rlzoo.model.lora import adapters, without_adapters
from rlzoo.model.pretrained import Pretrained, locate, refuse_other_weights, without_progress_bars
from rlzoo.model.sharding import is_sharded, materialised, outline, whole_parameters
from rlzoo.model.sizes import LONGEST_TREE
from rlzoo.model.token_stats import head_logits, token_stats, token_stats_of_logits
from rlzoo.model.tokenizer import Tokenizer
from rlzoo.model.varlen import VARLEN, packed_options, packs


@dataclass(frozen=True)
class TokenStats:
    """Log-prob of each response token and, if asked for, entropy in nats and sum of squares of its distribution.

    All are [n, T] float32; sums of squares have no gradient. `positions` is the number of token positions that the
    model calculated for them, padding included.
    """

    logp: Tensor
    entropy: Tensor | None
    squares: Tensor | None
    positions: int


class Policy(nn.Module):
    """A causal language model, always without dropout: scoring, training and sampling see the same function.

    `fused` says whether its logits are head(last hidden state), softcapped if its configuration says so; then
    statistics are calculated without the logits ever existing whole. `compiled` says whether its layers are, where it
    scores and trains. `longest_tree` is the number of positions up to
    which responses to one prompt share it in the forward pass; 0 if the model or its attention cannot. `one_row` says
    whether a micro-batch is one row without padding and masks, as `varlen` and flash attention have it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        gradient_checkpointing: bool = False,
        share_prompts: bool = True,
    ) -> None:
        super().__init__()
        self.model, self.tokenizer = model, tokenizer
        self.softcap: float | None = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
        self.compiled = False
        self._checkpointed: list[nn.Module] = []
        if gradient_checkpointing:
            self._enable_checkpointing()
        self.train()
        text: Any = model.config.get_text_config()
        self.fused, self.one_row = False, packs(text._attn_implementation)
        self.longest_tree = LONGEST_TREE * text.hidden_size if share_prompts and not self.one_row else 0
        if model.device.type != "meta":
            self._try_out()

    def _try_out(self) -> None:
        """Settles by a few tokens how it calculates. Raises UserError for an attention that the model cannot have."""
        text: Any = self.model.config.get_text_config()
        self.fused = self._head_is_plain()
        if (self.one_row or self.longest_tree) and (reason := self._why_apart()):
            if text._attn_implementation == VARLEN:
                raise UserError(f"model.attention={VARLEN}: {reason}; set model.attention=sdpa, or eager")
            warnings.warn(f"every response is calculated behind a prompt of its own: {reason}", stacklevel=2)
            self.one_row, self.longest_tree = False, 0

    def forward(
        self, responses: Responses, temperature: float, with_entropy: bool = False, with_squares: bool = False
    ) -> TokenStats:
        """Statistics [n, T] of the responses where their mask is True, else zero.

        They are those of softmax(logits / temperature), float32 also under autocast. Only positions that predict a
        token of the mask reach the head. The padding of the responses makes no difference.
        """
        tokens, mask, device = responses.tokens, responses.mask, self.device
        layout = self._layout(responses.prompts, tokens, responses.lengths.tolist())
        seen = mask[torch.arange(tokens.shape[1]) < responses.lengths[:, None]]
        layout = layout.of(seen).on(device)
        targets, places = to_device(tokens[mask], device), to_device(mask.flatten().nonzero()[:, 0], device)
        options = self._options(layout)
        if self.fused:
            head = self._head
            logp, entropy, squares = token_stats(
                self._body(layout.inputs, **options)[layout.predicted_at],
                head.weight,
                targets,
                temperature,
                head.bias,
                with_entropy,
                self.softcap,
                with_squares,
                self.compiled,
            )
        else:
            logits = self._run(self.model, layout.inputs, **options).logits[layout.predicted_at]
            logp, entropy, squares = token_stats_of_logits(logits, targets, temperature, with_entropy, with_squares)

        def placed(values: Tensor) -> Tensor:  # the gradient of a masked scatter would wait for the device
            return values.new_zeros(mask.numel()).index_copy(0, places, values).view(mask.shape)

        entropy, squares = (None if values is None else placed(values) for values in (entropy, squares))
        return TokenStats(placed(logp), entropy, squares, layout.inputs.numel())

    def micro_batches(self, prompts: Sequence[Sequence[int]], lengths: Sequence[int], budget: int) -> list[Tensor]:
        """Row numbers of each micro-batch, so that its forward pass has at most `budget` positions if it can.

        Responses of similar length go together, and those to one prompt where they can share it; in a row of their
        own they only have to fit.
        """
        if self.one_row:
            sizes = [len(prompt) + max(0, length - 1) for prompt, length in zip(prompts, lengths, strict=True)]
            return [torch.tensor(rows) for rows in filled(sizes, budget)]
        trees = grow(prompts, lengths, self.longest_tree)
        batches = pack(trees, budget, one_each=not self.longest_tree)
        return [torch.tensor([row for trees in rows for tree in trees for row in tree.rows]) for rows in batches]

    @torch.no_grad()
    def next_logits(self, inputs: Tensor, **options: Any) -> Tensor:
        """Logits [n, V] in float32 of the token after `inputs` [n, L]; `options` go to the transformers model."""
        with torch.compiler.set_stance("force_eager") if self.compiled else nullcontext():
            if self.fused:
                head = self._head
                return head_logits(self._body(inputs, **options)[:, -1], head.weight, head.bias, self.softcap)
            return self._run(self.model, inputs, logits_to_keep=1, **options).logits[:, -1].float()

    def forward_flops(self, positions: int, predictions: int) -> float:
        """Floating-point operations of a forward pass: two per weight and position, the head's where it predicts.

        Attention between positions is left out, as is usual; a backward pass is two forward ones. Every expert of a
        mixture counts.
        """
        embedding: Any = self.model.get_input_embeddings()
        inputs, outputs = embedding.weight, self._head.weight
        tables = {id(table): table.numel() for table in (inputs, outputs)}
        body = sum(parameter.numel() for parameter in self.parameters()) - sum(tables.values())
        return 2.0 * (body * positions + outputs.numel() * predictions)

    def compile_layers(self) -> None:
        """Fuses the kernels of each layer and of the head with torch.compile, once they are first run.

        Sampling, whose shapes change with each token, stays as it is, and so do copies.
        """
        self.compiled = True
        for layer in self.model.modules():
            if isinstance(layer, GradientCheckpointingLayer):
                layer.compile(dynamic=True)

    def train(self, mode: bool = True) -> Self:
        """Dropout stays off in training too."""
        return super().train(False)

    def save(self, folder: Path, weights: dict[str, Tensor] | None = None) -> None:
        """Writes its weights, configuration and tokenizer as transformers loads them.

        `weights` are taken in place of its own, named as `checkpoint_weights` does.
        """
        with without_progress_bars():
            self.merged().model.save_pretrained(folder, state_dict=weights, save_original_format=weights is None)
        self.tokenizer.backend.save_pretrained(folder)

    def load(self, folder: Path) -> None:
        """Takes over the weights of a saved policy of the same architecture. Raises ValueError if some lack."""
        saved = saved_weights(type(self.model), Pretrained(str(folder), {}))
        if broken := not_finite(saved):
            raise ValueError(f"{broken} holds what is no number")
        self.model.load_state_dict(saved)

    def frozen_copy(self) -> "Policy":
        """A copy that does not learn, for the reference; where there are adapters, the frozen weights without them."""
        if adapters(self):
            return without_adapters(self, merged=False, memo={id(self.tokenizer): self.tokenizer})
        return copy.deepcopy(self, {id(self.tokenizer): self.tokenizer}).requires_grad_(False)

    def merged(self) -> "Policy":
        """Returns a copy with the adapters merged that shares all other weights; the policy itself if it has none."""
        if not adapters(self):
            return self
        return without_adapters(self, merged=True, memo={id(self.tokenizer): self.tokenizer})

    def sampling_copy(self, dtype: torch.dtype, share_head: bool = True) -> "Policy":
        """A copy with weights in `dtype` for sampling; buffers stay exact, and so does the head, which is shared.

        The copy of a sharded policy has whole weights and shares none; all processes must make it together.
        """
        if is_sharded(self):
            return self._whole_sampling_copy(dtype)
        if adapters(self):
            return self.merged().sampling_copy(dtype, share_head)
        memo: dict[int, Any] = {id(self.tokenizer): self.tokenizer}
        if self.fused:
            memo[id(self._head)] = self._head if share_head else copy.deepcopy(self._head).requires_grad_(False)
        memo |= {id(p): nn.Parameter(p.detach().to(dtype, copy=True), requires_grad=False) for p in self.parameters()}
        return copy.deepcopy(self, memo)

    def calculates_as(self, other: "Policy") -> None:
        """Takes over how one of the same architecture calculates, where that could be tried."""
        self.fused, self.one_row, self.longest_tree = other.fused, other.one_row, other.longest_tree

    def _whole_sampling_copy(self, dtype: torch.dtype) -> "Policy":
        empty = Policy(outline(self.model), self.tokenizer)
        empty.calculates_as(self)
        made = materialised(empty.sampling_copy(dtype, share_head=False), self.device).to(self.device)
        made.copy_weights(self)
        return made

    @torch.no_grad()
    def copy_weights(self, source: "Policy") -> None:
        """Takes over the weights of the policy that this is a sampling copy of."""
        parameters = dict(self.named_parameters(remove_duplicate=False))
        for name, new in whole_parameters(source.merged()):
            if parameters[name] is not new:
                parameters[name].copy_(new)
            del parameters[name]
        if parameters:
            raise RuntimeError(f"the policy that trains did not hand over {', '.join(list(parameters)[:3])}, ...")

    @property
    def device(self) -> torch.device:
        """The device on which the model calculates."""
        return next(self.parameters()).device

    @property
    def _head(self) -> nn.Linear:
        return self.model.get_output_embeddings()

    def _body(self, inputs: Tensor, **options: Any) -> Tensor:
        """Last hidden states [n, L, H]."""
        return self._run(self.model.base_model, inputs, **options)[0]

    def _run(self, module: nn.Module, inputs: Tensor, **options: Any) -> Any:
        for layer in self._checkpointed:
            layer.training = torch.is_grad_enabled()
        return module(input_ids=inputs, **options)

    def _enable_checkpointing(self) -> None:
        """Transformers checkpoints layers in training mode only; here that mode is theirs alone, without dropout."""
        if not self.model.supports_gradient_checkpointing:
            raise UserError(f"model.gradient_checkpointing=true: {type(self.model).__name__} does not support it")
        new, old = "activation_checkpointing_enable", "gradient_checkpointing_enable"
        getattr(self.model, new if hasattr(self.model, new) else old)({"use_reentrant": False})
        self._checkpointed = [layer for layer in self.model.modules() if isinstance(layer, GradientCheckpointingLayer)]
        for layer in self._checkpointed:
            for name, value in vars(layer).items():
                if "dropout" in name and isinstance(value, float):
                    setattr(layer, name, 0.0)

    def _layout(self, prompts: Sequence[Sequence[int]], tokens: Tensor, lengths: Sequence[int]) -> Layout:
        if self.one_row:
            return in_one_row(prompts, tokens, lengths)
        if self.longest_tree:
            return packed(prompts, tokens, lengths, self.longest_tree)
        return padded(prompts, tokens, lengths)

    def _options(self, layout: Layout) -> dict[str, Any]:
        """What to tell the transformers model of a layout; of plain causal attention nothing, for the fast kernels."""
        if layout.position is None:
            return {"use_cache": False}
        config = self.model.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ())
        if layout.bounds is not None:
            return packed_options(layout, config._attn_implementation, kinds)
        window = getattr(config, "sliding_window", None)
        masks: dict[str, Tensor] = {"full_attention": layout.attention()}
        if window is not None:
            masks["sliding_attention"] = layout.attention(window)
        if config._attn_implementation == "eager":
            lowest = torch.finfo(self.model.dtype).min
            masks = {kind: torch.where(mask, 0.0, lowest).to(self.model.dtype) for kind, mask in masks.items()}
        single = masks["full_attention" if window is None else "sliding_attention"]
        mask = {kind: masks[kind] for kind in kinds} if "sliding_attention" in kinds else single
        return {"use_cache": False, "position_ids": layout.position, "attention_mask": mask}

    @torch.no_grad()
    def _why_apart(self) -> str:
        """Why hidden states of responses in common rows are not those of separate ones, tried on a few tokens, or "".

        Flash attention, which few devices and dtypes have, is tried as `varlen`, which tells layers the same.
        """
        config: Any = self.model.config.get_text_config()
        arguments = [[1, 2, 3]] * 3, torch.arange(12).view(3, 4) % config.vocab_size, [4, 4, 4]
        kinds = (VARLEN, "eager") if self.one_row else (config._attn_implementation,) * 2
        try:
            if kinds[1] not in ("sdpa", "eager"):
                raise ValueError(f"model.attention={kinds[1]} takes no masks")
            states = []
            for attention, make in zip(kinds, (self._layout, padded), strict=True):
                with _attention(config, attention):
                    layout = make(*arguments).on(self.model.device)
                    states.append(self._body(layout.inputs, **self._options(layout))[layout.predicted_at])
            packed, expected = states
            close = torch.allclose(packed, expected, rtol=1e-2, atol=1e-2 * float(expected.abs().max()))
            return "" if close else f"{type(self.model).__name__} mixes what a mask keeps apart"
        except Exception as error:  # whatever a model raises that takes no such mask
            return one_line(error)

    @torch.no_grad()
    def _head_is_plain(self) -> bool:
        """Whether head and softcap alone make the model's logits, tried on a few tokens."""
        head = self.model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            return False
        inputs = torch.arange(8, device=self.model.device)[None] % len(head.weight)
        text: Any = self.model.config.get_text_config()
        try:
            with _attention(text, text._attn_implementation if text._attn_implementation == "sdpa" else "eager"):
                expected = self._run(self.model, inputs, use_cache=False).logits[0].float()
                body = self._body(inputs, use_cache=False)[0]
            logits = head_logits(body, head.weight, head.bias, self.softcap)
            plain = logits.shape == expected.shape and torch.allclose(logits, expected, rtol=1e-3, atol=1e-3)
            reason = "" if plain else "changes its logits after the head"
        except Exception as error:  # whatever a model raises that cannot calculate where it was loaded
            reason = f"cannot be tried ({one_line(error)})"
        if reason:
            warnings.warn(f"{type(self.model).__name__} {reason}: logits are calculated whole", stacklevel=2)
        return not reason


@contextmanager
def _attention(config: Any, attention: str) -> Iterator[None]:
    """Context in which a model has another attention: fused kernels often refuse CPUs and float32."""
    chosen, config._attn_implementation = config._attn_implementation, attention
    try:
        yield
    finally:
        config._attn_implementation = chosen


def load_policy(config: ModelConfig, tokenizer: Tokenizer) -> Policy:
    """Loads the weights of `model.name` in float32. Raises UserError if they are missing or do not fit."""
    model = pretrained_model(config, tokenizer)
    if broken := not_finite(model.state_dict()):
        raise UserError(
            f"model.name={config.name}: its weights {broken} hold what is no number; take another checkpoint"
        )
    return Policy(model, tokenizer, config.gradient_checkpointing, config.share_prompts)


def pretrained_model(config: ModelConfig, tokenizer: Tokenizer, **options: Any) -> PreTrainedModel:
    """What transformers loads for `model.name` in float32, with further `options`.

    Raises UserError if weights are missing or do not fit.
    """
    source = locate(config)
    try:
        refuse_other_weights(source)
        with without_progress_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                source.path,
                dtype=torch.float32,
                attn_implementation=config.attention,
                output_loading_info=True,
                use_safetensors=True,  # other files of weights are pickles
                **source.options,
                **options,
            )
    except Exception as error:  # the libraries underneath raise whatever a broken file makes them stumble over
        about_attention = isinstance(error, ImportError) or "attn_implementation" in str(error)
        key = f"model.attention={config.attention}" if about_attention else f"model.name={config.name}"
        raise UserError(f"{key}: {one_line(error)}") from None
    model, info = loaded
    if missing := sorted(info["missing_keys"]):
        raise UserError(f"model.name={config.name}: its files lack the weights {', '.join(missing[:3])}")
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer.backend) > rows:
        raise UserError(
            f"model.name={config.name}: its tokenizer knows {len(tokenizer.backend)} tokens, its embedding only {rows}"
        )
    _make_savable(model)
    return model


def saved_weights(kind: type[PreTrainedModel], source: Pretrained) -> dict[str, Tensor]:
    """The weights of a saved model of that class in float32. Raises ValueError if some lack."""
    refuse_other_weights(source)
    with without_progress_bars():
        loaded: Any = kind.from_pretrained(
            source.path, dtype=torch.float32, use_safetensors=True, output_loading_info=True, **source.options
        )
    saved, info = loaded
    if lacking := sorted(info["missing_keys"]):
        raise ValueError(f"its weights lack {lacking[0]}")
    return saved.state_dict()


def not_finite(weights: Mapping[str, Tensor]) -> str:
    """The name of a tensor with NaN or infinity in it; empty if there is none."""
    return next(
        (name for name, weight in weights.items() if weight.is_floating_point() and not weight.isfinite().all()), ""
    )


def _make_savable(model: PreTrainedModel) -> None:
    """Some published generation settings contradict themselves; transformers loads them but refuses to save them."""
    try:
        model.generation_config.validate(strict=True)
    except ValueError:
        model.generation_config.do_sample = True
