"""The configuration: files and words, later over earlier, and one clear error for everything else."""

import dataclasses
from pathlib import Path

import pytest

from objectives import ObjectiveError
from rlzoo.config import Config, flat, load_config, to_yaml
from rlzoo.config.reading import ABSENT, MEANT, given_keys
from rlzoo.config.schema import keys
from rlzoo.config.words import words_of
from rlzoo.errors import UserError
from rlzoo.experiment.check import check, check_keys

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))


def test_words_win_over_files_and_later_ones_over_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("train:\n  steps: 7\n  learning_rate: 1e-5\nseed: 3\n")
    config = load_config([str(file), "train.steps=8", "train.steps=9"])
    assert (config.train.steps, config.train.learning_rate, config.seed) == (9, 1e-5, 3)


def test_a_file_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "stapo-tau_p=0.005-0" / "config.yaml"
    path.parent.mkdir()
    path.write_text("train: {steps: 7}")
    assert load_config([str(path), "seed=1"]).train.steps == 7
    assert given_keys([str(path)]) == {"train.steps"}


def test_an_objective_is_taken_as_written() -> None:
    written = "stapo(tau_p=0.005,q=0.8)+clip_higher-s2t"
    assert load_config([f"objective={written}"]).objective == written


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Put the answer after #### please", "Put the answer after #### please"),
        ("Answer: yes", "Answer: yes"),
        ("no", "no"),
        ("1e5", "1e5"),
        ("null", "null"),
        ("[a] {b}", "[a] {b}"),
        ('"a" or "b"', '"a" or "b"'),
        ('"two\\nlines # and"', "two\nlines # and"),
        ("'it''s'", "it's"),
    ],
)
def test_text_is_taken_as_written_unless_it_is_quoted(text: str, read: str) -> None:
    config = load_config([f"task.instruction={text}"])
    assert config.task.instruction == read
    assert load_config(words_of(config)) == config
    assert given_keys([f"task.instruction={text}"]) == {"task.instruction"}


def test_a_key_that_may_have_no_text_is_set_to_none_by_null() -> None:
    for text in ("", "null"):
        assert load_config(["model.revision=main", f"model.revision={text}"]).model.revision is None


def test_a_penalty_on_length_that_begins_before_the_first_token_is_refused() -> None:
    words = ["objective=grpo+soft_overlong(cache=20)", "rollout.max_response_tokens={}"]
    check(load_config([words[0], words[1].format(20)]))
    with pytest.raises(ObjectiveError, match=r"cache=20 of soft_overlong exceeds rollout\.max_response_tokens=19"):
        check(load_config([words[0], words[1].format(19)]))


def test_white_space_in_a_list_is_kept_and_around_commas_it_is_not() -> None:
    assert load_config([r'evaluation.stop=["\n\n", " Question:"]']).evaluation.stop == ["\n\n", " Question:"]
    assert load_config([r'evaluation.stop="\n\nQuestion:"']).evaluation.stop == ["\n\nQuestion:"]
    assert load_config(["evaluation.stop=a, b"]).evaluation.stop == ["a", "b"]


def test_a_saved_configuration_reads_back_equal(tmp_path: Path) -> None:
    config = load_config(["task.options.terms=[2,3]", "model.revision=main", "train.betas=[0.8,0.9]"])
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert load_config([str(file)]) == config


def test_every_key_has_a_docstring() -> None:
    documented = {key.name: key.meaning for key in keys(Config)}
    assert set(documented) == set(flat(dataclasses.asdict(Config())))
    assert all(documented.values())


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_shipped_configuration_is_readable_and_in_range(file: Path) -> None:
    check_keys(load_config([str(file)]))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("train.step=5", "unknown key train.step=5; did you mean train.steps"),
        ("steps=5", "unknown key steps=5; did you mean train.steps"),
        ("train.steps=abc", "train.steps=abc: it must be a whole number"),
        ("train.steps=1e2", "train.steps=1e2: it must be a whole number"),
        ("train.steps.x=3", "train.steps.x=3: it must be a whole number"),
        ("rollout.kv_cache_gib=a", "it must be a number"),
        ("train.betas=0.9", "train.betas=0.9: it must be 2 numbers"),
        ("log.trackers={a: 3}", "one or more words"),
        ("task.options=3", "it must be keys and values"),
        ("model.trust_remote_code=maybe", "model.trust_remote_code=maybe: it must be true or false"),
        ("seed=0,1", "seed=0,1: .*rlzoo compare OBJECTIVE seeds=0,1"),
        ("output=", "output= is empty"),
        ("output=${nothing}", "never filled in"),
        ("task.instruction=${oc.env:HOME}", "never filled in"),
        ("task.options.text=${oc.env:HOME}", "never filled in"),
        ("evaluation.temperature=0", "unknown key evaluation.temperature=0; did you mean evaluation.decodings"),
        ("lr=1", "did you mean train.learning_rate"),
        ("task.options.b=null", "task.options.b=null is empty"),
        ("name=foo", "unknown key name=foo; did you mean output"),
        ("train.lr=1", "did you mean train.learning_rate"),
        ("lora.rank=8", r"did you mean model\.lora\.rank"),
        ("peft=true", r"did you mean model\.lora\.rank"),
        ("train.scheduler=cosine", r"did you mean train\.schedule"),
        ("train.optimizer=adamw_8bit", "unknown key train.optimizer=adamw_8bit; it was removed: AdamW is"),
        ("fsdp_size=8", r"did you mean train\.shards"),
        ("actor_rollout_ref.rollout.n=8", r"did you mean rollout\.responses_per_prompt"),
        ("train.cpu_offload=true", "unknown key train.cpu_offload=true; it was removed: model.lora.rank"),
        ("grpo", "did you mean objective=grpo"),
        ("me/model", "did you mean model.name=me/model"),
        ("data.jsonl", "did you mean task.name=data.jsonl"),
        ("train.steps=[", "is not readable"),
        ("missing.yaml", r"'missing\.yaml' does not exist"),
        ("something", "neither a key=value nor a .yaml file"),
    ],
)
def test_a_bad_word_is_one_error_that_names_it(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        load_config([word])
    assert "\n" not in str(error.value) and str(error.value).count(word) <= 2


def test_the_folder_of_a_run_is_taken_up_by_the_file_that_is_proposed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("train:\n  steps: 7\n")
    with pytest.raises(UserError, match="did you mean ") as error:
        load_config([str(tmp_path)])
    assert load_config([str(error.value).partition("did you mean ")[2].rstrip("?")]).train.steps == 7


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("log.trackers=tensorboard", ["tensorboard"]),
        ("log.trackers=tensorboard,wandb", ["tensorboard", "wandb"]),
        ("evaluation.decodings=0.7/0.9", ["0.7/0.9"]),
        ("evaluation.decodings=0.7/0.9, 0/1", ["0.7/0.9", "0/1"]),
        ("train.betas=0.8,0.9", (0.8, 0.9)),
    ],
)
def test_a_list_is_written_with_or_without_brackets(word: str, values: object) -> None:
    key, _, written = word.partition("=")
    for spelling in (word, f"{key}=[{written}]"):
        assert flat(dataclasses.asdict(load_config([spelling])))[key] == values


def test_what_others_call_a_key_leads_to_one_that_there_is() -> None:
    assert set(MEANT.values()) <= {key.name for key in keys(Config)}
    assert not {*MEANT, *ABSENT} & {key.name for key in keys(Config)}


def test_a_mistake_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    for content, message in (("train: {stepz: 7}", "unknown key train.stepz=7 in"), ("seed: x", 'seed="x" in')):
        file.write_text(content)
        with pytest.raises(UserError, match=f"{message}.*a.yaml"):
            load_config([str(file)])


def test_a_broken_file_is_one_error_that_names_it(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    for content in ("train: [1", "- 1\n- 2\n", "\x00"):
        file.write_text(content)
        with pytest.raises(UserError, match=r"broken\.yaml"):
            load_config([str(file)])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("train.steps=0", "train.steps=0 must be at least 1"),
        ("rollout.temperature=0", "rollout.temperature=0 must be greater than 0"),
        ("rollout.kv_cache_gib=0", "rollout.kv_cache_gib=0 must be greater than 0"),
        ("task.problems=0", "task.problems=0 must be at least 1"),
        ("task.few_shot=2", "unknown key task.few_shot=2; it was removed: write worked examples"),
        ("rollout.top_p=1.5", "rollout.top_p=1.5 must be greater than 0 and at most 1"),
        ("model.precision=float16", "model.precision=float16 is not one of float32, bfloat16"),
        ("evaluation.decodings=[]", "names no decoding"),
        ("evaluation.decodings=[hot]", "'hot' cannot be used: it is written temperature/top_p"),
        ("evaluation.decodings=[0.7]", "written temperature/top_p"),
        ("evaluation.decodings=[-1/1]", "temperature -1 must be a number, at least 0"),
        ("evaluation.decodings=[nan/1]", "temperature nan must be a number"),
        ("evaluation.decodings=[1/0]", "top-p 0 must be greater than 0 and at most 1"),
        ("evaluation.decodings=[0/0.9]", "no effect at temperature 0"),
        ("evaluation.decodings=[1/1,0.7/0.9,1.0/1.0]", "'1/1' cannot be used: it is there twice"),
        ("rollout.temperature=nan", "rollout.temperature=nan must be finite"),
        ("train.learning_rate=.inf", "train.learning_rate=.inf must be finite"),
        ("train.gradient_clip=nan", "train.gradient_clip=nan must be greater than 0"),
        ("task.reward_weights=[1,nan]", r"task.reward_weights=\[1,nan\] must be finite"),
        ("train.betas=[0.9,1]", r"train.betas=\[0.9,1\] must be at least 0 and less than 1"),
        ("train.minibatches_per_step=65", "exceeds rollout.prompts_per_step=64"),
    ],
)
def test_a_value_no_run_could_use_is_refused(word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_keys(load_config([word]))
