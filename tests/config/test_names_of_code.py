"""Which keys name code from outside is said at the keys, and what is imported by a name is code to a recorded file."""

import ast
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import rlzoo
from rlzoo.config import Config, TaskConfig
from rlzoo.config.recorded import outside_names
from rlzoo.config.schema import keys
from rlzoo.errors import UserError
from rlzoo.rollout import engine_class
from rlzoo.tasks import check_task


@pytest.mark.parametrize("name", ["Mine", "mine.Mine", "1st", "Mi ne", ""])
@pytest.mark.parametrize("where", ["./mine.py", "mine"])
def test_a_name_by_which_a_file_is_run_is_code_whether_or_not_the_file_has_it(
    where: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    written, marker = f"{where}:{name}", tmp_path / "marker"
    (tmp_path / "mine.py").write_text("open('marker', 'w').close()")
    for key in ("task.name", "rollout.engine"):
        with suppress(UserError):
            check_task(TaskConfig(written)) if key == "task.name" else engine_class(written)
        assert marker.exists() == (name == "Mine") == (written in outside_names({key: written}))
        marker.unlink(missing_ok=True)
        for module in [module for module in sys.modules if module.partition("_")[0] == "mine"]:
            del sys.modules[module]


def test_only_a_task_may_be_a_data_set_of_reasoning_gym_and_only_by_its_whole_name() -> None:
    hidden = "reasoning_gym:/../mine.py:Mine"
    assert not outside_names({"task.name": "reasoning_gym:chain_sum"})
    assert hidden in outside_names({"task.name": hidden})
    assert hidden in outside_names({"rollout.engine": hidden})
    assert "reasoning_gym:chain_sum" in outside_names({"rollout.engine": "reasoning_gym:chain_sum"})


def test_every_key_by_which_something_is_imported_says_so() -> None:
    """All of it is imported by `load_outside`, which is told the key."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(rlzoo.__file__).parent.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    loading = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "load_outside"]
    told = {ast.literal_eval(call.args[0]) for call in loading} - {"experiments"}
    otherwise = {"objective", "model.trust_remote_code", "task.allow_unconfined", "task.unconfined_reward"}
    otherwise |= {"rollout.engine_args", "rollout.server", "model.attention"}
    assert {key.name for key in keys(Config) if key.names_code} == told | otherwise


def test_an_attention_that_transformers_loads_from_the_hub_is_code() -> None:
    assert outside_names({"model.attention": "someone/kernel"}) and not outside_names({"model.attention": "sdpa"})


def test_arguments_of_vllm_name_code_unless_they_are_known_not_to() -> None:
    assert not outside_names({"rollout.engine_args": {"kv_cache_dtype": "fp8"}, "rollout.engine_args.block_size": 32})
    for keys_given in ({"rollout.engine_args": {"worker_cls": "a.W"}}, {"rollout.engine_args.worker_cls": "a.W"}):
        assert "worker_cls:a.W" in outside_names(keys_given)
