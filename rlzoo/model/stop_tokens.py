"""Which tokens end a response: those that a model's own files name, and the one that its chat template writes."""

from collections.abc import Iterable
from typing import Any

from transformers import GenerationConfig, PretrainedConfig, PreTrainedTokenizerBase

from rlzoo.errors import UserError, one_line
from rlzoo.model.chat_template import rendered
from rlzoo.model.pretrained import Pretrained
from rlzoo.model.token_ids import token_ids


def stop_tokens(source: Pretrained, backend: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokenizer's end-of-sequence token, and those of generation_config.json.

    Where that names none, those of config.json, as in transformers; its special tokens in any case. Defaults of a
    model's class, which no file says, are none.
    """
    generated, configured = _named("generation_config.json", source), _named("config.json", source)
    special = [token for token in configured if token in special_tokens(backend)]
    own = [] if backend.eos_token_id is None else [backend.eos_token_id]
    return frozenset([*own, *(generated or configured), *special])


def _named(file: str, source: Pretrained) -> list[int]:
    """The `eos_token_id` of a file, one or several; none where there is no such file. Raises UserError."""
    ends = _read(file, source)
    ids = ends if isinstance(ends, list) else [] if ends is None else [ends]
    if not all(isinstance(end, int) and end >= 0 for end in ids):
        raise UserError(f"the {file} of {source.path} has eos_token_id={ends!r}; give token ids")
    return ids


def _read(file: str, source: Pretrained) -> Any:
    revision = source.options.get("revision", "main")
    try:
        if file == "generation_config.json":
            return GenerationConfig.from_pretrained(source.path, revision=revision).eos_token_id
        values, _ = PretrainedConfig.get_config_dict(source.path, revision=revision)
    except OSError:
        return None
    except Exception as error:
        raise UserError(f"the {file} of {source.path} cannot be loaded: {one_line(error)}") from None
    ends = values.get("eos_token_id")
    return (values.get("text_config") or {}).get("eos_token_id") if ends is None else ends


def turn_end(backend: PreTrainedTokenizerBase) -> frozenset[int]:
    """The special token that the chat template writes behind an answer, as `<|im_end|>`; of base models it is no stop.

    None if it writes another thing there, or cannot render an answer.
    """
    answer = "0123456789"
    turns = [{"role": "user", "content": "1"}, {"role": "assistant", "content": answer}]
    try:
        text = rendered(backend, turns)
    except UserError:
        return frozenset()
    _, separator, behind = text.rpartition(answer)
    ids = token_ids(backend, behind, add_special_tokens=False) if separator and behind else []
    return frozenset(ids[:1]) & special_tokens(backend)


def special_tokens(backend: PreTrainedTokenizerBase) -> frozenset[int]:
    """The ids of those that stand for no text."""
    return frozenset(token for token, added in backend.added_tokens_decoder.items() if added.special)


def in_words(tokens: Iterable[int], backend: PreTrainedTokenizerBase) -> str:
    """Tokens with their ids, for people."""
    return " or ".join(f"{backend.convert_ids_to_tokens(token)} ({token})" for token in sorted(tokens))
