"""Text to token ids and back, usable before any weights load."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from rlzoo.config import ModelConfig
from rlzoo.errors import UserError
from rlzoo.pretrained import locate
from rlzoo.tasks.base import Message


@dataclass(frozen=True)
class Tokenizer:
    """A Hugging Face tokenizer with what a run needs to know of its model."""

    backend: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    context_length: int | None
    uses_template: bool

    def encode(self, prompt: str | Sequence[Message]) -> list[int]:
        """The token ids of a prompt: plain text as it is, chat messages through the chat template."""
        if isinstance(prompt, str):
            return list(self.backend(prompt)["input_ids"])
        if self.uses_template:
            ids: Any = self.backend.apply_chat_template(
                [dict(message) for message in prompt], add_generation_prompt=True, return_dict=False
            )
            return list(ids)
        return list(self.backend("\n\n".join(message["content"] for message in prompt))["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens left out."""
        return str(self.backend.decode(list(ids), skip_special_tokens=True))


def load_tokenizer(config: ModelConfig) -> Tokenizer:
    """The tokenizer of `model.name`, its stop tokens and context length. Raises UserError naming what is wrong."""
    source = locate(config)
    try:
        backend = AutoTokenizer.from_pretrained(source.path, **source.options)
        model = AutoConfig.from_pretrained(source.path, **source.options)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model.name={config.name}: {' '.join(str(error).split())[:300]}") from None
    stops = {backend.eos_token_id}
    if (Path(source.path) / "generation_config.json").is_file():
        eos = GenerationConfig.from_pretrained(source.path).eos_token_id
        stops |= set(eos if isinstance(eos, list) else [eos])
    stops.discard(None)
    if not stops:
        raise UserError(f"model.name={config.name}: its tokenizer has no end-of-sequence token, so no response could end")
    template = config.chat_template == "auto" and backend.chat_template is not None
    return Tokenizer(backend, frozenset(stops), getattr(model.get_text_config(), "max_position_embeddings", None), template)
