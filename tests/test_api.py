"""Python is the command line: the same keys, the same configuration, the same steps; and a script needs no guard."""

import gc
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rlzoo
import rlzoo.api
import rlzoo.training.run
from objectives import definitions_only
from rlzoo.commands import main
from rlzoo.comparing.grid_words import GridWords, read_grid_words
from rlzoo.config import Config, load_config
from rlzoo.config.reading import resolve
from rlzoo.config.words import key_and_value
from rlzoo.experiment.run_folder import RunFolder
from rlzoo.scripts import path_of
from rlzoo.starting import started, starting
from rlzoo.tasks import OWN
from tests.conftest import error_of
from tests.processes import ONE, launch

SMALL: dict[str, Any] = {
    "rollout.prompts_per_step": 4,
    "rollout.responses_per_prompt": 4,
    "train.steps": 2,
    "evaluation.problems": 4,
    "evaluation.samples": 2,
}
"""A run of seconds on the embedded model."""

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), max_size=12).filter(
    lambda text: "${" not in text and text != "???"
)
KEYS = st.fixed_dictionaries(
    {},
    optional={
        "objective": st.sampled_from(["grpo", "stapo(tau_p=0.005,q=0.8)+clip_higher", "dapo-soft_overlong"]),
        "seed": st.integers(0, 99),
        "model.name": st.sampled_from([f"embedded:{name}" for name in OWN]),
        "task.name": st.sampled_from(["sums", "knights", "reasoning_gym:chain_sum"]),
        "task.instruction": TEXT,
        "task.held_out": st.none() | TEXT.filter(bool),
        "task.options": st.dictionaries(st.sampled_from(["digits", "terms"]), st.integers() | TEXT, max_size=2),
        "train.learning_rate": st.floats(0, 1),
        "train.steps": st.integers(1, 10**9),
        "train.betas": st.tuples(st.floats(0, 0.999), st.floats(0, 0.999)),
        "model.share_prompts": st.booleans(),
        "evaluation.decodings": st.sampled_from([["1/1"], ["0.7/0.9", "0/1"]]),
        "rollout.kv_cache_gib": st.none() | st.floats(0.5, 9),
    },
)


@given(keys=KEYS)
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_keys_are_the_same_configuration_typed_in_a_file_and_in_python(
    keys: Mapping[str, Any], tmp_path: Path
) -> None:
    asked: list[Config] = []
    file = tmp_path / "keys.yaml"
    values = {key: [*it] if isinstance(it, tuple) else it for key, it in keys.items()}
    file.write_text(yaml.safe_dump(values, default_style='"'))  # YAML's versions do not agree on what is text
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("rlzoo.experiment.check.check_words", lambda config: None)
        patched.setattr(rlzoo.training.run, "train", lambda config, *_: asked.append(config) or RunFolder(tmp_path))
        assert main(["train", *(key_and_value(key, value) for key, value in keys.items())]) == 0
        assert main(["train", str(file)]) == 0
        rlzoo.train(file)
        rlzoo.train(**keys)
    assert all(config == asked[0] for config in asked) and len(asked) == 4


@pytest.mark.smoke
@pytest.mark.slow
def test_the_first_step_is_bitwise_the_same_typed_in_a_file_and_in_python(tmp_path: Path) -> None:
    keys = {**SMALL, "train.steps": 1, "objective": "stapo", "seed": 3}
    file = tmp_path / "keys.yaml"
    file.write_text(yaml.safe_dump(keys))
    typed = [key_and_value(key, value) for key, value in keys.items()]
    assert main(["train", *typed, f"output={tmp_path / 'typed'}"]) == 0
    assert main(["train", str(file), f"output={tmp_path / 'file'}"]) == 0
    rlzoo.train(**keys, output=tmp_path / "python", progress=False)
    typed_metrics, *others = ((tmp_path / it / "metrics.jsonl").read_bytes() for it in ("typed", "file", "python"))
    assert typed_metrics and others == [typed_metrics] * 2


@pytest.mark.parametrize(
    ("words", "key", "value", "origin"),
    [
        ([], "train.learning_rate", 1.5e-4, "embedded:sums"),
        (["task.name=knights"], "model.name", "embedded:knights", "embedded:knights"),
        (["model.name=embedded:knights"], "task.name", "knights", "embedded:knights"),
        (["model.name=other/model"], "train.learning_rate", 1e-6, "default"),
        (["train.steps=7"], "train.steps", 7, "command line"),
        (["FILE"], "train.steps", 9, "FILE"),
        (["FILE"], "train.learning_rate", 1.5e-4, "embedded:sums"),
        (["FILE", "train.steps=7"], "train.steps", 7, "command line"),
    ],
)
def test_defaults_are_those_of_the_chosen_model_and_task_and_say_where_they_come_from(
    words: list[str], key: str, value: object, origin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("train: {steps: 9}")
    assert main(["train", *(word.replace("FILE", str(file)) for word in words), "show=config"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{key}:"))
    assert line.endswith(f"# {origin.replace('FILE', str(file))}")
    assert yaml.safe_load(line)[key] in (value, str(value))


def test_what_is_shown_of_a_configuration_is_a_file_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "task.options.digits=3",
        "train.betas=0.8,0.9",
        "objective=dapo - soft_overlong",
        'task.instruction="a: b"',
    ]
    assert main(["train", *words, "show=config"]) == 0
    (tmp_path / "shown.yaml").write_text(capsys.readouterr().out)
    assert load_config([str(tmp_path / "shown.yaml")]) == load_config(words)
    assert resolve(words).origins["task.options"] == "command line"
    assert "show=keys is not one of config" in error_of(capsys, "train", "show=keys")


@pytest.mark.slow
def test_a_run_is_read_in_python_while_and_after_it_trains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = rlzoo.train(objective="grpo", output=tmp_path / "run", progress=False, **SMALL)
    assert capsys.readouterr().out == ""
    metrics, evaluations = run.metrics, run.evaluations
    assert isinstance(metrics, pd.DataFrame) and isinstance(evaluations, pd.DataFrame)
    assert [*metrics["step"]] == [1, 2] and [*evaluations["step"]] == [0, 2] and len(run.timings) == 2
    assert run.checkpoint is not None and run.checkpoint.name == "step-000002"
    assert len(run.curves().axes) == 4
    page = run.inspect(against="entropy20", step=0, progress=False)
    assert page.read_text().startswith("<!doctype html>")
    found = run.evaluate(progress=False, **{"evaluation.samples": 1})
    assert len(found) == 1 and found["samples"][0] == 1
    assert rlzoo.load_run(str(run.folder)).config == run.config
    again = rlzoo.train("resume=true", objective="grpo", output=run.folder, progress=False, **SMALL)
    assert again.metrics.equals(metrics)


@pytest.mark.smoke
@pytest.mark.slow
def test_objectives_are_compared_in_python(tmp_path: Path) -> None:
    found = rlzoo.compare(["grpo", "dapo-dynamic_sampling"], seeds=1, output=tmp_path, progress=False, **SMALL)
    assert not found.failures and len(found.runs) == 2
    assert {*found.table["objective"]} == {"grpo", "dapo-dynamic_sampling"}
    assert (tmp_path / "leaderboard.html").exists()


def test_seeds_are_a_number_a_list_or_chosen_where_they_decide_something(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[GridWords] = []
    monkeypatch.setattr(rlzoo.api, "compare_words", lambda words, *_: asked.append(read_grid_words(words)))
    given: list[Any] = [np.int64(2), [0, 5], np.array([0, 5]), "auto(up_to=5)", "auto"]
    for seeds in (2, *given):
        rlzoo.compare(["grpo"], seeds=seeds)
    found = [(it.keys.seeds, it.up_to) for it in asked]
    assert found == [([0, 1], 0), ([0, 1], 0), ([0, 5], 0), ([0, 5], 0), ([0, 1, 2], 5), ([0, 1, 2], 10)]


def test_arrays_are_their_numbers_and_an_argument_that_is_none_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Config] = []
    monkeypatch.setattr(rlzoo.training.run, "train", lambda config, *_: asked.append(config) or RunFolder(Path()))
    rlzoo.train(**{"train.betas": np.array([0.5, 0.75]), "train.steps": np.int64(3)})
    rlzoo.train(objective=None, model=None, output=None)
    assert asked == [load_config(["train.betas=0.5,0.75", "train.steps=3"]), load_config([])]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: rlzoo.train(objective="stapoo"), "did you mean stapo"),
        (lambda: rlzoo.train(train={"steps": "many"}), 'train.steps="many": it must be a whole number'),
        (lambda: rlzoo.compare(["grpo"], seeds=[1, 1]), "seeds"),
        (lambda: rlzoo.evaluate("./nowhere"), "./nowhere"),
        (lambda: rlzoo.load_run("./nowhere"), "no config.yaml"),
        (lambda: rlzoo.train(reward=lambda response: 1.0), "./reward.py:FUNCTION"),
        (lambda: rlzoo.train(task=object()), "task.name: no key takes a value of type object"),
        (lambda: rlzoo.train(**{"log.trackers": {"tensorboard"}}), "log.trackers: no key takes a value of type set"),
        (
            lambda: rlzoo.train(**{"task.options": {"digits": object()}}),
            "task.options.digits: no key takes a value of type object",
        ),
    ],
)
def test_a_mistake_is_a_user_error_in_one_line(call: Any, says: str) -> None:
    with pytest.raises(rlzoo.UserError) as error:
        call()
    assert says in str(error.value) and "\n" not in str(error.value)


def test_importing_rlzoo_imports_nothing_that_takes_long() -> None:
    heavy = "{'torch', 'omegaconf', 'transformers', 'rich'}"
    code = f"import sys, rlzoo; dir(rlzoo); print(*{heavy} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
    assert rlzoo.grade("1/2", r"So \boxed{0.5}.").correct == 1


@pytest.mark.slow
def test_training_imports_nothing_that_only_its_end_or_another_command_needs() -> None:
    later = (
        "{'datasets', 'matplotlib', 'pandas', 'pyarrow', 'scipy.stats', 'seaborn', 'sklearn', 'transformers.trainer'}"
    )
    code = f"import sys, rlzoo.report.terminal, rlzoo.training.run; print(*{later} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.slow
def test_a_script_needs_no_guard_and_is_started_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import rlzoo\nprint('started', __name__, flush=True)\n"
        f"run = rlzoo.train(objective='grpo', output={str(tmp_path / 'run')!r}, progress=False, **{SMALL!r})\n"
        "print(len(run.metrics), __spec__)\n"
    )
    assert launch([*ONE, script], tmp_path) == "started __main__\n2 None\n"


@pytest.mark.slow
def test_a_script_compares_and_trains_with_a_part_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    script = tmp_path / "elsewhere" / "script.py"
    keys = SMALL | {"train.steps": 1, "evaluation.samples": 1}
    script.write_text(
        "import rlzoo\nfrom objectives import Mask, register\n\n@register\nclass Mine(Mask):\n    name = 'own_part'\n\n"
        "    def keeps(self, batch):\n        return batch.mask\n\n"
        f"for name in ('grpo+own_part', 'grpo+script:own_part'):\n"
        f"    found = rlzoo.compare([name], seeds=1, output='grid', progress=False, **{keys!r})\n"
        f"    print(len(found.runs), *found.failures)\n"
        f"print(rlzoo.train(objective='grpo+own_part', output='run', progress=False, **{keys!r}).config.objective)\n"
    )
    assert launch([*ONE, script], tmp_path) == "1\n1\ngrpo+script:own_part\n"


def test_a_script_that_is_read_for_a_function_ends_at_its_call_of_rlzoo() -> None:
    script = "def reward(response): return 1.0\nimport rlzoo\nrlzoo.train(objective='grpo')\nnever = 1"
    names: dict[str, Any] = {}
    with definitions_only():
        exec(script, names)
    assert names["reward"]("") == 1.0 and "never" not in names


def test_a_function_is_named_by_where_other_processes_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert path_of("task.reward", json.dumps) == "json:dumps"

    def inner() -> None: ...

    with pytest.raises(rlzoo.UserError, match="inner"):
        path_of("task.reward", inner)
    inner.__module__, inner.__qualname__ = "__main__", "inner"
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "script.py"), raising=False)
    assert path_of("task.reward", inner) == f"{tmp_path / 'script.py'}:inner"
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    with pytest.raises(rlzoo.UserError, match="inner"):
        path_of("task.reward", inner)


def test_garbage_is_looked_for_again_once_models_are_loaded() -> None:
    with starting():
        with starting():
            assert not gc.isenabled()
            started()
            assert gc.isenabled() and gc.get_freeze_count() > 1000
        assert gc.get_freeze_count() == 0
        gc.disable()  # as a user's script may have it
    assert not gc.isenabled()
    gc.enable()
