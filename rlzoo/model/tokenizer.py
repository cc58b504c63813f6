"""Text to token ids and back, usable before any weights load: tokenizer, chat template, stop tokens."""

import re
import resource
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedTokenizerBase,
)

from rlzoo.config import ModelConfig, TaskConfig
from rlzoo.errors import UserError, one_line
from rlzoo.model.pretrained import Pretrained, locate
from rlzoo.signals import within
from rlzoo.tasks.base import Message
from rlzoo.tasks.environment_class import answer_roles, tool_keys, tool_schemas
from rlzoo.tasks.text import begun_by, goes_on, is_rendered
from rlzoo.tasks.tools import CALLS

# ---- what a model's own files run ------------------------------------------------------------------------------------

TEMPLATE_SECONDS = 10.0
"""The most seconds that a chat template may calculate for a prompt; it takes milliseconds."""
TEMPLATE_MEMORY = 2**29
"""The most bytes that it may take beside what this process has; no time-out could stop a single large operation."""
TEMPLATE_CHARACTERS = 2**23
"""The most characters that it may write, more than any model reads."""


_ENCODING = threading.Lock()
"""A tokenizer keeps whether it parts special tokens from one call to the next, also from one thread's to another's."""


def token_ids(backend: PreTrainedTokenizerBase, text: str, **options: bool) -> list[int]:
    """The token ids of a text.

    Raises UserError where the tokenizer's own code panics, which is no Exception, or fails on what its files say, such
    as a `model_max_length` that is text.
    """
    try:
        with _ENCODING:
            return list(backend(text, **options)["input_ids"])
    except BaseException as error:
        if type(error).__name__ != "PanicException" and not isinstance(error, TypeError | ValueError):
            raise
        told = f"cannot read a text of {len(text)} characters: {one_line(error)}"
        raise UserError(f"the tokenizer of {backend.name_or_path} {told}") from None


class FailingTemplate(UserError):
    """`why` says what a template does wrong, `remedy` what to do about it."""

    def __init__(self, model: str, why: str, remedy: str = "set model.chat_template=none") -> None:
        super().__init__(f"model.chat_template=auto: the chat template of {model} {why}; {remedy}")
        self.model, self.why = model, why


def rendered(backend: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]], **options: Any) -> str:
    """What the chat template makes of messages.

    A template is a program that the model's author wrote. Raises FailingTemplate for one that fails, or takes more
    time, memory or text than the limits above.
    """
    slow = FailingTemplate(backend.name_or_path, f"takes more than {TEMPLATE_SECONDS:g} s")
    try:
        with within(TEMPLATE_SECONDS, one_line(slow)), _memory_within(TEMPLATE_MEMORY):
            text = str(backend.apply_chat_template([dict(message) for message in messages], tokenize=False, **options))
        if len(text) <= TEMPLATE_CHARACTERS:
            return text
        why = f"writes more than {TEMPLATE_CHARACTERS} characters"
    except TimeoutError:
        raise slow from None
    except MemoryError:
        why = f"takes more than {TEMPLATE_MEMORY >> 20} MiB"
    except Exception as error:  # a template may raise what it likes, and divide by zero
        why = f"fails ({one_line(error)})"
    raise FailingTemplate(backend.name_or_path, why)


@contextmanager
def _memory_within(more: int) -> Iterator[None]:
    """Context in which this process may take `more` bytes beyond what it has.

    Without a limit where the system tells neither, and beside other threads at work, which the limit would be for too.
    """
    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread()]
    if threading.current_thread() is not threading.main_thread() or not all(thread.daemon for thread in others):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with suppress(OSError, ValueError):
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(
            resource.RLIMIT_AS, (min([taken + more, *(limit for limit in (soft, hard) if limit >= 0)]), hard)
        )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


# ---- which tokens end a response -------------------------------------------------------------------------------------


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


# ---- the tokenizer of a run ------------------------------------------------------------------------------------------


_PARTING = "\ufdd0"
"""Parts what looks like a special token in a prompt until its template is rendered; Unicode has no such character."""
_TURN = "\ufdd1"
"""Stands for what the policy wrote in a turn; Unicode has no such character either."""
_NO_SYSTEM = "system message", "leave task.system_prompt out, or put what the rows' say into the users' messages"
_NO_PREFILL = "last message of the model's to go on with", "leave that message out of the prompts"
_NO_PLACE = (
    "the prompts of this dataset are rendered with a chat template already, where tools and turns have no place; "
    "leave task.tools and task.environment out, or give chat messages"
)
_END_OF_PROMPT = 32
"""Tokens, more than the opening and closing of a thought have."""


def _parted(special: re.Match[str]) -> str:
    return f"{special[0][0]}{_PARTING}{special[0][1:]}"


@dataclass(frozen=True)
class Tokenizer:
    """A Hugging Face tokenizer with what a run needs to know of its model.

    `stop_tokens` end a response; `context_length` is the most positions the model was made for, None if not said.
    """

    backend: PreTrainedTokenizerBase
    stop_tokens: frozenset[int]
    context_length: int | None
    uses_template: bool
    template_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the chat template besides the messages, with the schemas of tools."""
    has_turns: bool = False
    """Whether something answers behind a turn, so that a prompt of plain text is a message too."""
    keeps_special_tokens: bool = False
    """Whether texts have the special tokens that end no response: `task.keep_special_tokens`."""

    @property
    def tools(self) -> Sequence[Any]:
        """The schemas of the tools that the template describes."""
        return list(self.template_options.get("tools", ()))

    def encode(self, prompt: str | Sequence[Message]) -> list[int]:
        """Return the token ids of a prompt. Every reader of prompts calls this.

        Chat messages give the ids of `apply_chat_template`. If the last message is the assistant's, the response
        continues it. Text, and messages without a template, give the tokenizer's own ids, special tokens included. The
        token that begins a sequence stands in front once. A token that ends one is left out.
        """
        if isinstance(prompt, str) and (self.tools or self.has_turns):
            if self.is_rendered(prompt):
                raise UserError(_NO_PLACE)
            prompt = [{"role": "user", "content": prompt}]  # there is no other place for what the tools are
        if isinstance(prompt, str) or not self.uses_template:
            text = prompt if isinstance(prompt, str) else "\n\n".join(filter(None, (it["content"] for it in prompt)))
            ids = token_ids(self.backend, text, add_special_tokens=False)
            front = self._front_of_template if self._is_own(text) else self._front
            return ids if ids[: len(front)] == front else [*front, *ids]
        try:
            text = self._rendered(prompt)
        except FailingTemplate as error:
            raise self._with_remedy(error, prompt) from None
        if not text:
            raise FailingTemplate(self.backend.name_or_path, "writes nothing")
        return token_ids(self.backend, text, add_special_tokens=False)

    def _rendered(self, prompt: Sequence[Message]) -> str:
        """What the template makes of a prompt, up to where the response begins or goes on."""
        end = "continue_final_message" if goes_on(prompt) else "add_generation_prompt"
        return rendered(self.backend, prompt, **{end: True, **self.template_options})

    def _with_remedy(self, error: FailingTemplate, prompt: Sequence[Message]) -> FailingTemplate:
        """The error, with a remedy for the message without which the template could write the prompt."""
        before = prompt[:-1] if goes_on(prompt) else prompt
        no_system = [message for message in prompt if message["role"] != "system"]
        for others, what, remedy in ((no_system, *_NO_SYSTEM), (before, *_NO_PREFILL)):
            with suppress(FailingTemplate):
                if others and len(others) < len(prompt) and self._rendered(others):
                    return FailingTemplate(error.model, f"takes no {what}, and {error.why}", remedy)
        return error

    def is_rendered(self, text: str) -> bool:
        """Whether a chat template has been applied to a text: this model's own, or one of a common family."""
        return self._is_own(text) or is_rendered(text)

    def _is_own(self, text: str) -> bool:
        """Whether a text has the marks of this model's template; those that are no special tokens at its beginning."""
        opening, closing = self._turn
        is_opened = opening in text if self._special.search(opening) else self._bare(text).startswith(opening)
        return bool(opening and closing) and is_opened and closing in text.partition(opening)[2]

    def _bare(self, text: str) -> str:
        """Without the token that begins a sequence."""
        return text.lstrip().removeprefix(self.backend.bos_token or "").lstrip()

    @cached_property
    def _turn(self) -> tuple[str, str]:
        """What the template writes right in front of a user's words, and first behind them; "" where it fails."""
        before, _, behind = self._empty.partition(_TURN)
        before = self._bare(before)
        *_, opening = [0, *(found.start() for found in self._special.finditer(before))]
        closing = self._special.search(behind)
        return before[opening:].strip(), (closing[0] if closing else behind).strip()

    @cached_property
    def _empty(self) -> str:
        """What the template makes of a user's message, `_TURN` being what it says; "" where it fails."""
        if self.backend.chat_template is None:
            return ""
        try:
            return rendered(self.backend, [{"role": "user", "content": _TURN}], add_generation_prompt=True)
        except FailingTemplate:
            return ""

    @cached_property
    def _front(self) -> list[int]:
        """What the tokenizer puts in front of any text by itself, as a rule the token that begins a sequence."""
        whole, bare = token_ids(self.backend, "0"), token_ids(self.backend, "0", add_special_tokens=False)
        places = (place for place in range(len(whole)) if whole[place : place + len(bare)] == bare)
        return whole[: next(places, 0)]

    @cached_property
    def _front_of_template(self) -> list[int]:
        """What the tokenizer puts in front of rendered text: nothing where the template does not write it."""
        begin = token_ids(self.backend, self._empty, add_special_tokens=False)[: len(self._front)]
        return self._front if begin == self._front else []

    @cached_property
    def _special(self) -> re.Pattern[str]:
        """Any special token as text, the longest first; nothing where there is none."""
        added = {token.content for token in self.backend.added_tokens_decoder.values() if token.special}
        written = sorted({*added, *self.backend.all_special_tokens}, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, written)) or "(?!)")

    def _pieces(self, text: str) -> list[int]:
        """The token ids of rendered text in which what looks like a special token is parted."""
        return [token for piece in re.split(f"({self._special.pattern})", text) for token in self._piece(piece)]

    def _piece(self, text: str) -> list[int]:
        """The token ids of a special token that a template wrote, or of the text between two."""
        if self._special.fullmatch(text):
            number: Any = self.backend.convert_tokens_to_ids(text)
            return [int(number)]
        plain = text.replace(_PARTING, "")
        return token_ids(self.backend, plain, add_special_tokens=False, split_special_tokens=True) if plain else []

    def answered(self, turn: Sequence[int], answers: Sequence[Message]) -> list[int]:
        """What the chat template writes behind a turn for the answers to it, up to where the next one begins.

        The token that ends the turn is the policy's, unless a stop text has cut the turn before it.
        """
        behind = self._behind(
            [{**answer, "content": self._special.sub(_parted, answer["content"])} for answer in answers]
        )
        closing = self._further(behind.lstrip())  # some templates write a space before the token that ends a turn
        is_ended = turn[-1] in self.stop_tokens and closing[0] in self.stop_tokens
        return closing[1:] if is_ended else self._further(behind)

    def _further(self, text: str) -> list[int]:
        """The token ids of rendered text that goes on behind a turn, where no tokenizer may put a space of its own."""
        if _PARTING in text:
            return self._pieces(text)
        before = "" if self._special.match(text) else _TURN
        first, ids = (token_ids(self.backend, piece, add_special_tokens=False) for piece in (before, before + text))
        return ids[len(first) :]

    def _behind(self, answers: Sequence[Message]) -> str:
        """The text that the chat template writes behind a turn."""
        messages = [{"role": "user", "content": "1"}, {"role": "assistant", "content": _TURN}, *map(dict, answers)]
        options = {"add_generation_prompt": True, **self.template_options}
        return rendered(self.backend, messages, **options).partition(_TURN)[2]

    def lacks(self, role: str) -> str:
        """Why the chat template cannot write an answer of that role behind a turn; "" if it can."""
        answer = f'{{"1": "<2>"}}{_PARTING}3'  # whatever is quoted or escaped is not what was answered
        try:
            behind = self._behind([{"role": role, "content": answer}])
        except FailingTemplate as error:
            return error.why
        return "" if answer in behind else "it writes something else in its place"

    def begun(self, prompt: Sequence[int]) -> str:
        """What the end of a rendered prompt has begun of the response, `<think>` as a rule; "" if nothing."""
        end = self.backend.decode(list(prompt[-_END_OF_PROMPT:]), clean_up_tokenization_spaces=False)
        return begun_by(str(end))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special tokens left out; with `keeps_special_tokens` those that end it alone."""
        if self.keeps_special_tokens:
            kept = [token for token in ids if token not in self.stop_tokens and token != self.backend.pad_token_id]
            return str(self.backend.decode(kept, clean_up_tokenization_spaces=False))
        return str(self.backend.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def piece(self, token: int) -> str:
        """The text of one token within a response, special or not, with the space it may begin with."""
        alone, twice = (str(self.backend.decode([token] * n, clean_up_tokenization_spaces=False)) for n in (1, 2))
        return twice[len(alone) :]  # at the start of a text some tokenizers drop a token's space

    def unknown(self, ids: Sequence[int]) -> int:
        """How many of the tokens stand for text that the tokenizer does not know."""
        unknown, backend = self.backend.unk_token_id, self.backend
        if unknown is None or unknown in (backend.eos_token_id, backend.bos_token_id, backend.pad_token_id):
            return 0  # one that knows every byte, and has no token for what it does not know
        return list(ids).count(unknown)

    @property
    def ends(self) -> str:
        """What ends a response, in words."""
        return in_words(self.stop_tokens, self.backend)

    def is_special(self, token: int) -> bool:
        """Whether it stands for no text, as the end of a sequence does."""
        return token in self.stop_tokens or token in self._special_ids

    @cached_property
    def _special_ids(self) -> frozenset[int]:
        return special_tokens(self.backend) | {*self.backend.all_special_ids}


def load_tokenizer(config: ModelConfig, task: TaskConfig | None = None) -> Tokenizer:
    """The tokenizer of `model.name`, with the chat template's options and the tools of a task.

    Raises UserError if the name, the model's kind or the tokenizer is of no use, and for options that nothing reads.
    """
    source, model = locate(config), model_config(config)
    try:
        backend = AutoTokenizer.from_pretrained(source.path, **source.options)
    except Exception as error:  # the libraries underneath raise whatever a broken file makes them stumble over
        raise _unusable(config, error, "its tokenizer cannot be loaded") from None
    stops = stop_tokens(source, backend)
    if not stops:
        raise UserError(
            f"model.name={config.name}: its tokenizer has no end-of-sequence token, and its other files name none, "
            f"so no response could end; set eos_token in tokenizer_config.json"
        )
    context = getattr(model.get_text_config(), "max_position_embeddings", None)
    uses_template = config.chat_template == "auto" and backend.chat_template is not None
    options = dict(task.chat_template_kwargs) if task else {}
    for name in options:
        if not uses_template or name not in str(backend.chat_template):
            why = f"the chat template of {config.name} reads no {name}" if uses_template else "no chat template is used"
            raise UserError(f"task.chat_template_kwargs.{name}={options[name]} has no effect: {why}; leave it out")
    if task and (keys := tool_keys(task)):
        schemas = tool_schemas(task)
        if not uses_template or (schemas and CALLS not in str(backend.chat_template)):
            why = f"that of {config.name} has none" if uses_template else "none is used"
            key, named = next(iter(keys.items()))
            other = "choose another task" if key == "task.name" else f"leave {key} out"
            does = f"tell the model to call by {CALLS}" if schemas else "part turns"
            raise UserError(
                f"{key}={named}: the chat template has to {does}, and {why}; "
                f"choose a model whose template does, such as Qwen/Qwen3-1.7B, or {other}"
            )
        options |= {"tools": schemas} if schemas else {}
    has_turns = task is not None and bool(tool_keys(task))
    keeps = task is not None and task.keep_special_tokens
    tokenizer = Tokenizer(backend, stops, context, uses_template, options, has_turns, keeps)
    if not uses_template:
        return tokenizer
    tokenizer.encode([{"role": "user", "content": "1"}])  # which says what is wrong with the template
    if task:
        _try_answers(config, task, tokenizer)
    return replace(tokenizer, stop_tokens=stops | turn_end(backend))


def model_config(config: ModelConfig) -> PretrainedConfig:
    """The configuration of `model.name`. Raises UserError if there is none, or not one of a causal language model."""
    source = locate(config)
    try:
        model = AutoConfig.from_pretrained(source.path, **source.options)
    except Exception as error:
        raise _unusable(config, error, "its config.json cannot be loaded") from None
    own_code: Mapping[str, str] = getattr(model, "auto_map", None) or {}
    known = type(model) in AutoModelForCausalLM._model_mapping
    if not known and "AutoModelForCausalLM" in own_code and not config.trust_remote_code:
        raise UserError(_REMOTE_CODE.format(name=config.name))
    if not known and "AutoModelForCausalLM" not in own_code:
        raise UserError(f"model.name={config.name}: {type(model).__name__} is not a causal language model")
    return model


_REMOTE_CODE = (
    "model.name={name}: the model runs code of its own; read it, and set model.trust_remote_code=true if you trust it"
)


def _unusable(config: ModelConfig, error: Exception, problem: str) -> UserError:
    message = str(error)
    if "trust_remote_code" in message:
        return UserError(_REMOTE_CODE.format(name=config.name))
    if "connect to" in message or "offline mode" in message:
        return UserError(
            f"model.name={config.name}: no such folder, and the Hugging Face hub cannot be reached; "
            f"give a local folder, or check the connection and HF_HUB_OFFLINE"
        )
    if "is not a local folder" in message or "404" in message:
        return UserError(
            f"model.name={config.name}: no such folder, and no such model on the Hugging Face hub; "
            f"check the spelling, model.revision, and `hf auth login` for private models"
        )
    return UserError(f"model.name={config.name}: {problem}: {one_line(error)}")


def _try_answers(config: ModelConfig, task: TaskConfig, tokenizer: Tokenizer) -> None:
    for role in answer_roles(task):
        if why := tokenizer.lacks(role):
            key, named = next(iter(tool_keys(task).items()))
            raise UserError(
                f"{key}={named}: the chat template of {config.name} cannot answer a turn by a message of role {role} "
                f"({why}); choose a model whose template does, such as Qwen/Qwen3-1.7B"
            )
