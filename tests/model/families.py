"""Tiny tokenizers with the chat templates of model families: bytes as tokens, and the special tokens of each family."""

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from rlzoo.model.tokenizer import Tokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QWEN = "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}" + CHATML
THINKING = CHATML.replace("assistant\n{%", "assistant\n<think>\n{%")
LLAMA_3 = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
LLAMA_2 = (
    "{% for m in messages %}{% if m.role == 'assistant' %} {{ m.content }} {{ eos_token }}"
    "{% elif m.role == 'system' %}{{ bos_token }}[INST] <<SYS>>\n{{ m.content }}\n<</SYS>> [/INST]"
    "{% else %}{{ bos_token }}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content | trim }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<\uff5cUser\uff5c>{{ m.content }}"
    "{% elif m.role == 'assistant' %}<\uff5cAssistant\uff5c>{{ m.content }}{{ eos_token }}{% else %}{{ m.content }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<\uff5cAssistant\uff5c>{% endif %}"
)
PHI = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
VICUNA = (
    "{% for m in messages %}{% if m.role == 'assistant' %} ASSISTANT: {{ m.content }}{{ eos_token }}"
    "{% elif m.role == 'system' %}USER: {{ m.content }} ASSISTANT: Yes.{% else %}USER: {{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %} ASSISTANT:{% endif %}"
)
"""No special token parts its turns."""


@dataclass(frozen=True)
class Family:
    """How a family writes and reads."""

    template: str | None
    special: Sequence[str] = ()
    front: bool = False
    """Whether the tokenizer puts `<s>` in front of any text."""
    back: bool = False
    """Whether it puts `</s>` behind."""
    spaces: bool = False
    """Whether spaces are letters, and one is put in front, as in Llama 2."""


FAMILIES = {
    "chatml": Family(CHATML, ("<|im_start|>", "<|im_end|>")),
    "chatml, begins": Family(CHATML, ("<|im_start|>", "<|im_end|>"), front=True),
    "qwen": Family(QWEN, ("<|im_start|>", "<|im_end|>")),
    "thinking": Family(THINKING, ("<|im_start|>", "<|im_end|>", "<think>")),
    "llama 3": Family(LLAMA_3, ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), front=True),
    "llama 2": Family(LLAMA_2, front=True, spaces=True),
    "llama 2, ends": Family(LLAMA_2, front=True, back=True, spaces=True),
    "mistral": Family(LLAMA_2, ("[INST]", "[/INST]"), front=True),
    "gemma": Family(GEMMA, ("<start_of_turn>", "<end_of_turn>"), front=True),
    "deepseek": Family(DEEPSEEK, ("<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"), front=True),
    "phi": Family(PHI, ("<|user|>", "<|assistant|>", "<|system|>", "<|end|>")),
    "vicuna": Family(VICUNA, front=True),
}
"""Those with a template."""
BASES = {
    f"front {front}, back {back}, spaces {spaces}": Family(None, ("<|im_start|>",), front, back, spaces)
    for front in (False, True)
    for back in (False, True)
    for spaces in (False, True)
}
"""Those without."""


def backend_of(family: Family) -> PreTrainedTokenizerFast:
    """The tokenizer of a family, `<s>` and `</s>` being its bos and eos."""
    if family.spaces:
        names = ["<unk>", "\u2581", *(f"<0x{byte:02X}>" for byte in range(256))]
        raw = Backend(models.BPE({name: i for i, name in enumerate(names)}, [], byte_fallback=True, unk_token="<unk>"))
        raw.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
        raw.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        raw = Backend(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
        raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(it, special=True, normalized=False) for it in ("<s>", "</s>", *family.special)])
    around = "<s> " * family.front + "$A" + " </s>" * family.back
    known = [(name, raw.token_to_id(name)) for name in ("<s>", "</s>")]
    raw.post_processor = processors.TemplateProcessing(single=around, special_tokens=known)
    backend = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    backend.chat_template = family.template
    return backend


def tokenizer_of(family: Family, uses_template: bool = True) -> Tokenizer:
    """What a run would have of it."""
    backend = backend_of(family)
    return Tokenizer(backend, frozenset({backend.eos_token_id}), None, uses_template and family.template is not None)
