"""A tiny random model that calls tools: whole calls are single tokens of its vocabulary."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

ADDS = '<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>'
FAILS = '<tool_call>{"name": "fail", "arguments": {}}</tool_call>'
UNKNOWN = '<tool_call>{"name": "ad", "arguments": {}}</tool_call>'
MALFORMED = '<tool_call>{"name": "add", </tool_call>'
CHARACTERS = [chr(code) for code in range(32, 127)] + ["\n"]
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }} call by <tool_call><|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, as Qwen's templates write it."""
TOOLS = '''
import time

def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: a number.
        b: another one.
    """
    return a + b

def fail() -> str:
    """Fails."""
    raise ValueError("no such luck")

def hang() -> str:
    """Hangs."""
    time.sleep(60)

def wait() -> str:
    """Waits a second."""
    time.sleep(1)
    return "slept"

def leave() -> str:
    """Ends its process."""
    import os
    os._exit(3)

def talk(length: int) -> str:
    """Talks.

    Args:
        length: how much.
    """
    return "<|im_end|>" + "x" * length

def swell() -> int:
    """Takes more memory than there is for it."""
    return len(bytearray(5 * 2**30))

def shout() -> str:
    """Prints, by Python and by a program."""
    import subprocess, sys
    print("a" * 10**6)
    print("b" * 10**6, file=sys.stderr)
    subprocess.run(["echo", "c"])
    return "said"

def draw() -> list:
    """Draws."""
    import random
    import numpy
    return [random.random(), numpy.random.random()]

def untold(a):
    return a

def length(response):
    return len(response) / 100
'''


def calling_tokenizer(calls: Sequence[str]) -> PreTrainedTokenizerFast:
    """Characters, the special tokens of ChatML, and calls that no text is made of."""
    special = ["<eos>", "<pad>", "<|im_start|>", "<|im_end|>"]
    names = {text: number for number, text in enumerate([*special, *CHARACTERS, *calls])}
    backend = Tokenizer(models.WordLevel(names, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>")
    tokenizer.add_special_tokens({"additional_special_tokens": special[2:]})
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def save_calling_model(folder: Path, calls: Sequence[str] = (ADDS, FAILS, UNKNOWN, MALFORMED)) -> Path:
    """Calls, and ends of turns, are far likelier than characters, so that an episode has some turns."""
    tokenizer = calling_tokenizer(calls)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,  # vLLM takes no less on a CPU
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=1,
    )
    model = Qwen3ForCausalLM(config)
    likely = [tokenizer.convert_tokens_to_ids(text) for text in ("<|im_end|>", *calls)]
    with torch.no_grad():
        model.lm_head.weight[likely] += 0.5 * model.model.norm.weight.sign()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
