"""A response ends where the model's own files say."""

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from rlzoo.config import ModelConfig
from rlzoo.model.tokenizer import Tokenizer, load_tokenizer
from tests.conftest import save_tiny_model
from tests.model.families import FAMILIES, backend_of

CHATML = backend_of(FAMILIES["chatml"])
EOS, TURN_END, TURN_START = (CHATML.get_vocab()[name] for name in ("</s>", "<|im_end|>", "<|im_start|>"))
ORDINARY = some.sampled_from([3, 5, 7])
ENDS = some.none() | ORDINARY | some.lists(ORDINARY | some.just(TURN_START), min_size=1, max_size=3)
"""What a file says, if it says anything: one or several."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = save_tiny_model(tmp_path_factory.mktemp("ends"), eos=False)
    CHATML.save_pretrained(folder)
    return folder


def loaded(folder: Path, template: str = "auto", **said: object) -> Tokenizer:
    """The tokenizer where `config` and `generation_config` say this of the end, or are not there at all."""
    for name, ends in said.items():
        file = folder / f"{name}.json"
        values = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**values, "eos_token_id": ends}))
    return load_tokenizer(ModelConfig(name=str(folder), chat_template=template))


def listed(ends: object) -> set[int]:
    return set() if ends is None else {*ends} if isinstance(ends, list) else {int(str(ends))}


@settings(max_examples=40, deadline=None)
@given(generated=ENDS, configured=ENDS, template=some.sampled_from(["auto", "none"]))
def test_a_response_ends_where_the_models_files_say(
    folder: Path, generated: object, configured: object, template: str
) -> None:
    tokenizer = loaded(folder, template, generation_config=generated, config=configured)
    named = listed(generated) or listed(configured)
    special = listed(configured) & {EOS, TURN_END, TURN_START}
    turn = {TURN_END} if template == "auto" else set()
    assert tokenizer.stop_tokens == {EOS, *named, *special, *turn}
    assert all(f"({token})" in tokenizer.ends for token in tokenizer.stop_tokens) and "</s>" in tokenizer.ends


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy, to be changed."""
    return Path(shutil.copytree(folder, tmp_path / "own"))


def test_what_only_the_class_of_a_model_says_is_no_end(own: Path) -> None:
    values = json.loads((own / "config.json").read_text())
    del values["eos_token_id"]
    llama = {**values, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
    (own / "config.json").write_text(json.dumps(llama))
    assert loaded(own, generation_config=None).stop_tokens == {EOS, TURN_END}  # and not Llama's 2


def test_the_text_part_of_a_model_may_say_it(own: Path) -> None:
    values = json.loads((own / "config.json").read_text())
    (own / "config.json").write_text(json.dumps({**values, "text_config": {"eos_token_id": 3}, "eos_token_id": None}))
    assert loaded(own, "none", generation_config=None).stop_tokens == {EOS, 3}
