"""What stands in for the downloads of the papers' configurations: tiny random models of their architectures, and
datasets of a few rows in the columns that the real ones have on the hub.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config

from rlzoo.config import load_config

CONFIGS = {path.stem: path for path in sorted((Path(__file__).parents[2] / "configs").glob("*_qwen*.yaml"))}
SIZES: dict[str, Any] = {
    "vocab_size": 600,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "use_sliding_window": False,
}
LARGE = Qwen3Config(**SIZES, head_dim=16, max_position_embeddings=32_768, tie_word_embeddings=False)
LONG = Qwen2Config(**SIZES, max_position_embeddings=131_072, tie_word_embeddings=False)
MODELS = {
    "Qwen/Qwen3-1.7B-Base": Qwen3Config(**SIZES, head_dim=16, max_position_embeddings=32_768, tie_word_embeddings=True),
    "Qwen/Qwen2.5-3B-Instruct": Qwen2Config(**SIZES, max_position_embeddings=32_768, tie_word_embeddings=True),
    "Qwen/Qwen2.5-Math-7B": Qwen2Config(**SIZES, max_position_embeddings=4096, tie_word_embeddings=False),
    "Qwen/Qwen3-8B-Base": LARGE,
    "Qwen/Qwen3-14B-Base": LARGE,
    "Qwen/Qwen3-32B": LARGE,
    "Qwen/Qwen2.5-7B": LONG,
    "Qwen/Qwen2.5-32B": LONG,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": LONG,
}
"""With the context and the head of each."""
END, TURN, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }} call by <tool_call><|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
QUIZ = (
    'You meet 2 inhabitants: Ann and Bob. Ann said, "Bob is a knave". Bob told you that Ann is a knave or Bob is a '
    "knight. So who is a knight and who is a knave?"
)
ROLES = "(1) Ann is a knave\n(2) Bob is a knight"


def dapo(number: int) -> dict[str, Any]:
    """A row of BytedTsinghua-SIA/DAPO-Math-17k."""
    text = (
        "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
        f"$Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is ${number} + 1$?\n\n"
        'Remember to put your answer on its own line after "Answer:".'
    )
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": text, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(number + 1), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": f"9a9b6eb4-a1cb-49d1-8c1e-62eaf2f7407{number}"},
    }


def cleaned(number: int) -> dict[str, Any]:
    """A row of haizhongzheng/DAPO-Math-17K-cleaned."""
    return {"prompt": f"What is ${number} + 1$?", "target": str(number + 1)}


def aime(number: int) -> dict[str, Any]:
    """A row of math-ai/aime24."""
    url = f"https://artofproblemsolving.com/wiki/index.php/2024_AIME_I_Problems/Problem_{number + 1}"
    return {"id": number, "problem": f"Find ${number} + 100$.", "solution": rf"\boxed{{{number + 100}}}", "url": url}


def knights(number: int) -> dict[str, Any]:
    """A row of Logic-RL's data, whose prompts are rendered already."""
    system = "You are a helpful assistant. The identities stand within <answer> </answer> tags."
    question = f"{QUIZ} It is day {number}."
    prompt = f"{TURN}system\n{system}\n{TURN_END}\n{TURN}user\n{question}\n{TURN_END}\n{TURN}assistant\n<think>"
    return {
        "quiz": question,
        "names": ["Ann", "Bob"],
        "solution": [False, True],
        "solution_text": "Ann is a knave, and Bob is a knight.",
        "solution_text_format": ROLES,
        "statements": "(('lying', 1), ('or', ('lying', 0), ('telling-truth', 1)))",
        "index": number,
        "data_source": "kk_logic",
        "prompt": [{"content": prompt, "role": "user"}],
        "ability": "logic",
        "reward_model": {"ground_truth": {"solution_text_format": ROLES, "statements": "()"}, "style": "rule"},
        "extra_info": {"index": number, "split": "train"},
    }


ROWS = {
    "BytedTsinghua-SIA/DAPO-Math-17k": {"train": [dapo(n // 3) for n in range(24)]},  # each comes several times there
    "haizhongzheng/DAPO-Math-17K-cleaned": {"train": [cleaned(n) for n in range(8)]},
    "math-ai/aime24": {"test": [aime(n) for n in range(30)]},
    "data/kk/instruct/merge_34567ppl": {"train": [knights(n) for n in range(8)], "test": [knights(9), knights(10)]},
}


def stand_ins(paper: str, folder: Path) -> list[str]:
    """A paper's configuration as words, with what stands in for its downloads; that is made in the folder."""
    config = load_config([str(CONFIGS[paper])])
    sources = {"task.name": config.task.name} | (
        {"task.held_out": config.task.held_out} if config.task.held_out else {}
    )
    words = [str(CONFIGS[paper]), f"model.name={_model(config.model.name, folder / 'model')}"]
    for key, source in sources.items():
        for split, rows in ROWS[source].items():
            path = folder / key / "data" / f"{split}-00000-of-00001.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows), path)
        words.append(f"{key}={folder / key}")
    return words


def _model(name: str, folder: Path) -> Path:
    torch.manual_seed(0)
    tokenizer = _tokenizer()
    ends = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": None, "pad_token_id": None}
    config = type(MODELS[name])(**{**MODELS[name].to_diff_dict(), **ends})
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer() -> PreTrainedTokenizerFast:
    """Byte pairs of these texts, Qwen's special tokens and a template like theirs."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    specials = [END, TURN, TURN_END]
    trainer = trainers.BpeTrainer(vocab_size=500, initial_alphabet=alphabet, special_tokens=specials)
    backend.train_from_iterator(
        [str(row) for source in ROWS.values() for rows in source.values() for row in rows], trainer
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token=END, chat_template=TEMPLATE)
