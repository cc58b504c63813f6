"""Makes the embedded model from nothing: a character tokenizer, a small Qwen3, and demonstrations with slips in them.

The demonstrations are right but for random digits, which no model can foresee. So the most probable digit is the right
one and greedy decoding is good, while a sampled response slips as often as the demonstrations do: what reinforcement
learning finds to improve.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from rlzoo.pretrained import written_atomically
from rlzoo.tasks.arithmetic import demonstration, stream
from rlzoo.tasks.base import Problem

CHARACTERS = "0123456789+-="
CONTEXT = 128

Progress = Callable[[int, int, float], None]
"""Called with the steps done, the number of all steps, and the loss."""


@dataclass
class WarmupConfig:
    output: str = "runs/warmup-arithmetic"
    """The folder of the finished model; give it to `rlzoo train` as `model.name`."""
    seed: int = 0
    """Seeds weights and demonstrations; the same seed on the same machine gives the same model."""
    digits: int = 3
    """Length of the longest numbers in the problems, as in `task.options.digits`."""
    wrong_digit_rate: float = 0.1
    """The rate at which a digit of a demonstration is replaced by a random other one."""
    hidden_size: int = 192
    """Width of the model; a multiple of 32, the width of an attention head."""
    intermediate_size: int = 512
    """Width inside the feed-forward layers."""
    layers: int = 4
    """Transformer layers."""
    steps: int = 2000
    """Optimiser updates."""
    demonstrations_per_step: int = 256
    """Demonstrations of one update; no problem is seen twice but by chance."""
    learning_rate: float = 2e-3
    """AdamW's highest rate, reached after a tenth of the steps; it falls to 0 along a cosine."""
