"""Settings of others are read from what their users have; a script's are those that bash gives, or unknown."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from rlzoo.commands import main
from rlzoo.config.peer_settings import UNKNOWN, settings_in
from rlzoo.errors import UserError
from tests.conftest import error_of

GRPO = """set -x
clip_low=0.2
clip_high=${CLIP_HIGH:-0.28}
max_length=$((1024 * 4))
export MODE=grpo   # not ppo
ALGORITHM=(
    algorithm.adv_estimator=$MODE
    algorithm.use_kl_in_reward=False  # no penalty
)
ACTOR=(actor_rollout_ref.actor.clip_ratio_low=${clip_low} actor_rollout_ref.actor.clip_ratio_high=${clip_high})
CUDA_DEVICE_MAX_CONNECTIONS=1 python3 -m verl.trainer.main_ppo \\
    "${ALGORITHM[@]}" "${ACTOR[@]}" \\
    data.max_response_length=${max_length} \\
    data.train_files="['$HOME/a b.parquet']" \\
    actor_rollout_ref.actor.clip_ratio_c=10.0 $@
"""
READ = {
    "algorithm.adv_estimator": "grpo",
    "algorithm.use_kl_in_reward": False,
    "actor_rollout_ref.actor.clip_ratio_low": 0.2,
    "actor_rollout_ref.actor.clip_ratio_high": 0.28,
    "actor_rollout_ref.actor.clip_ratio_c": 10.0,
    "data.max_response_length": 4096,
}


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_script_hydras_overrides_and_lines_are_the_settings_that_a_file_of_yaml_has(tmp_path: Path) -> None:
    script = settings_in(written(tmp_path / "run.sh", GRPO))
    assert UNKNOWN in script.pop("data.train_files")
    lines = [f"{key}={value}" for key, value in READ.items()]
    others = {
        "overrides.yaml": yaml.safe_dump(lines),
        "run.txt": "# mine\n" + "\n".join(lines),
        "run.yaml": json.dumps(READ),
    }
    for name, text in others.items():
        assert settings_in(written(tmp_path / name, text)) == script == READ, name


def test_trls_arguments_are_read_with_and_without_an_equals_sign(tmp_path: Path) -> None:
    text = (
        "accelerate launch grpo.py --loss_type dapo --beta=0.04 --epsilon-high 0.28 \\\n  --mask_truncated_completions"
    )
    read = {"loss_type": "dapo", "beta": 0.04, "epsilon_high": 0.28, "mask_truncated_completions": True}
    assert settings_in(written(tmp_path / "run.sh", text)) == read


@pytest.mark.parametrize(
    "text",
    [
        "if [ $A = 1 ]; then\n  mode=rloo\nelse\n  mode=grpo\nfi\npython3 train.py algorithm.adv_estimator=$mode",
        "python3 train.py algorithm.adv_estimator=$1",
        "python3 train.py algorithm.adv_estimator=$(cat mode)",
        "python3 train.py algorithm.adv_estimator=grpo\npython3 train.py algorithm.adv_estimator=rloo",
        'mode=grpo\nif [ "$D" = 1 ]; then mode=rloo; fi\npython3 train.py algorithm.adv_estimator=$mode',
        "mode=grpo\ncase $D in\n  dapo) mode=rloo ;;\nesac\npython3 train.py algorithm.adv_estimator=$mode",
        "mode=grpo\n[ -n $D ] && { mode=rloo; }\npython3 train.py algorithm.adv_estimator=$mode",
        "mode=grpo\ncd $D &&\n  mode=rloo\npython3 train.py algorithm.adv_estimator=$mode",
        "mode=grpo\nwhile read mode; do :; done < modes\npython3 train.py algorithm.adv_estimator=$mode",
        "A=()\nif true; then\n  A+=(algorithm.adv_estimator=rloo)\nfi\npython3 train.py a.b=1 ${A[@]}",
    ],
)
def test_a_setting_of_the_objective_that_a_script_does_not_say_is_an_error(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "run.sh", text)
    said = error_of(capsys, "objectives", "--from", "verl", path)
    assert "algorithm.adv_estimator depends on a condition, a command or an argument of the script" in said


def test_an_undecided_setting_is_no_error_where_the_objective_does_not_depend_on_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kwargs = "reward.reward_kwargs"
    text = f"python3 train.py algorithm.adv_estimator=grpo {kwargs}.max_resp_len=$1"
    assert main(["objectives", "--from", "verl", written(tmp_path / "run.sh", text)]) == 0
    assert "grpo+dual_clip+token_mean-kl" in capsys.readouterr().out
    buffer = f"{kwargs}.overlong_buffer_cfg"
    longer = f"{text} reward.reward_manager.name=dapo {buffer}.enable=True {buffer}.len=9"
    said = error_of(capsys, "objectives", "--from", "verl", written(tmp_path / "run.sh", longer))
    assert "reward.reward_kwargs.max_resp_len depends on a condition" in said


def test_a_name_that_verl_ignores_has_a_line_and_programs_that_read_it_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """recipe/entropy reads reward_model.overlong_buffer itself (main_entropy.py, 151 to 157), verl 0.9.1 does not."""
    buffer = "reward_model.overlong_buffer"
    lengths = f"data.max_response_length=20480 {buffer}.enable=True {buffer}.len=4096 {buffer}.penalty_factor=1.0"
    settings = f"algorithm.adv_estimator=grpo {lengths}"
    shown = {}
    for program in ("recipe.dapo.main_dapo", "recipe.entropy.main_entropy"):
        path = written(tmp_path / "run.sh", f"python3 -m {program} {settings}")
        assert main(["objectives", "--from", "verl", path]) == 0
        shown[program] = capsys.readouterr().out
    ignored = "reward_model.overlong_buffer.enable=True: verl 0.9.1 ignores this name"
    assert ignored in shown["recipe.dapo.main_dapo"] and "soft_overlong" not in shown["recipe.dapo.main_dapo"]
    assert ignored not in shown["recipe.entropy.main_entropy"]
    assert "soft_overlong(max_length=20480,cache=4096)" in shown["recipe.entropy.main_entropy"]


def test_a_name_that_a_recipes_program_ignores_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its main_dapo.py, lines 140 to 156, gives the manager reward_model.overlong_buffer and no reward_kwargs."""
    buffer = "+reward_model.reward_kwargs.overlong_buffer_cfg.enable=True"
    program = "recipe.dapo.dapo_transfer_queue.main_dapo"
    path = written(tmp_path / "run.sh", f"python3 -m {program} algorithm.adv_estimator=grpo {buffer}")
    assert main(["objectives", "--from", "verl", path]) == 0
    shown = capsys.readouterr().out
    assert f"{program} ignores this name; it reads reward_model.overlong_buffer.enable" in shown
    assert "soft_overlong" not in shown


def test_assignments_on_one_line_end_at_semicolons_and_a_condition_may_have_a_comment(tmp_path: Path) -> None:
    text = 'low=0.2;\nhigh=0.28; rate=3  # it\'s higher\nif [ "$A" ]; then # why\n  cd "a;b"\nfi\n'
    path = written(
        tmp_path / "run.sh", text + "cd verl && train -m main a.low=$low a.high=$high a.rate=$rate | tee log"
    )
    assert settings_in(path) == {"a.low": 0.2, "a.high": 0.28, "a.rate": 3}


@pytest.mark.parametrize("text", ["it's\n", "A=(\n  a.c=2\n"])
def test_a_quote_or_an_array_that_never_closes_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a quote or an array never closes: (it's|A=)"):
        settings_in(written(tmp_path / "run.sh", f"train -m main a.b=1\n{text}train -m main a.b=2"))


def test_a_text_behind_a_command_is_no_command(tmp_path: Path) -> None:
    text = "cat <<'END' > f\nit's\ntrain -m main a.b=3\nEND\na=$(python3 - <<-X\nb='\n\tX\n)\ntrain -m main a.b=1 \\"
    assert settings_in(written(tmp_path / "run.sh", text)) == {"a.b": 1}


def test_a_variable_without_quotes_is_as_many_words_as_bash_makes_of_it(tmp_path: Path) -> None:
    text = 'MORE="\n  a.b=1 \\\n  a.c=$1 a.d=2"\nif true; then MORE="$MORE a.e=3"; fi\ntrain -m main a.f=4 $MORE'
    assert settings_in(written(tmp_path / "run.sh", text)) == {
        "a.f": 4, **{f"a.{name}": f"{UNKNOWN}" for name in "bcde"}
    }  # fmt: skip


def test_a_case_of_a_known_variable_runs_the_first_pattern_that_matches(tmp_path: Path) -> None:
    text = 'MODE=${MODE:-tv}\ncase "$MODE" in\n  kl | t?) low=0.1 ;;\n  tv) low=0.2 ;;\n  *) exit 1 ;;\nesac\n'
    assert settings_in(written(tmp_path / "run.sh", text + "train -m main a.low=$low")) == {"a.low": 0.1}


def test_a_variable_that_doubles_on_each_line_is_unknown(tmp_path: Path) -> None:
    text = "A=aaaa\n" + "A=$A$A\n" * 60 + "train a.b=$A"
    assert UNKNOWN in settings_in(written(tmp_path / "run.sh", text))["a.b"]


@pytest.mark.parametrize("text", ["A='x\n" + "b=1\n" * 20_000, "${" * 50_000])
def test_a_command_that_does_not_end_is_an_error_before_all_of_it_is_read(text: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a quote or an array never closes"):
        settings_in(written(tmp_path / "run.sh", text))


def test_an_unknown_name_that_may_decide_the_objective_is_an_error_and_another_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "run.txt", "algorithm.adv_estimator=grpo\nactor_rollout_ref.actor.clip_ratio_new=1")
    assert "actor_rollout_ref.actor.clip_ratio_new=1 is not known here" in error_of(
        capsys, "objectives", "--from", "verl", path
    )
    path = written(tmp_path / "run.txt", "algorithm.adv_estimator=grpo\nmy_tool.depth=1")
    assert main(["objectives", "--from", "verl", path]) == 0
    assert "my_tool.depth=1: not known, left out" in " ".join(capsys.readouterr().out.split())


def test_the_program_that_a_script_runs_has_its_own_defaults_or_a_line_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(module: str) -> str:
        text = f"pip -m pip\npython3 -m {module} algorithm.adv_estimator=grpo"
        assert main(["objectives", "--from", "verl", written(tmp_path / "run.sh", text)]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "sampler_ratio" in said("verl.experimental.one_step_off_policy.main_ppo")
    assert "sampler_ratio" not in said("verl.trainer.main_ppo") and "is no program" not in said("verl.trainer.main_ppo")
    assert "recipe.dapo.main_dapo is no program of verl" in said("recipe.dapo.main_dapo")


def test_a_script_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no settings"):
        settings_in(written(tmp_path / "run.sh", "echo a.b=1\nls"))


# ---- against bash ----------------------------------------------------------------------------------------------------

NAMES, VALUES = some.sampled_from(["a", "b", "c"]), some.sampled_from(["1", "0.5", "grpo", "True", "'x y'", '"z"'])
TERMS = some.one_of(
    VALUES,
    NAMES.map("${}".format),
    NAMES.map("${{{}}}".format),
    some.tuples(NAMES, some.sampled_from(["2", "k1"])).map("${{{0[0]}:-{0[1]}}}".format),
    some.tuples(some.integers(-9, 9), some.sampled_from("+-*/%"), some.integers(-9, 9).filter(bool)).map(
        "$(({0[0]} {0[1]} {0[2]}))".format
    ),
    some.just("$(echo 3)"),
)
LINES = some.one_of(
    some.tuples(NAMES, TERMS).map("{0[0]}={0[1]}".format),
    some.tuples(NAMES, TERMS).map("export {0[0]}={0[1]}  # why".format),
    some.tuples(NAMES, TERMS, some.booleans()).map("if {0[2]}; then\n  {0[0]}={0[1]}\nfi".format).map(str.lower),
    some.tuples(NAMES, TERMS, some.booleans()).map("if {0[2]}; then {0[0]}={0[1]}; fi  # why".format).map(str.lower),
    some.tuples(NAMES, TERMS, some.booleans()).map("{0[2]} && {{ {0[0]}={0[1]}; }}".format).map(str.lower),
    some.tuples(NAMES, TERMS, some.sampled_from(["x", "y", "y|x", "[xy]", '"x"'])).map(
        "case x in {0[2]}) {0[0]}={0[1]} ;; *) {0[0]}=2 ;; esac".format
    ),
    some.tuples(NAMES, NAMES, TERMS).map("case ${0[0]} in\n  1|grpo) {0[1]}={0[2]} ;;\n  '') a=0 ;;\nesac".format),
    some.tuples(NAMES, TERMS).map(": <<'END'\n{0[0]}={0[1]}\nEND".format),
    some.tuples(some.sampled_from(["", "$STRING "]), TERMS).map(
        lambda it: f'STRING="{it[0]}p.s={it[1]} p.t=$a"' if not {*it[1]} & {*"'\""} else "STRING="
    ),
    some.tuples(NAMES, TERMS, NAMES, TERMS).map("{0[0]}={0[1]}; {0[2]}={0[3]};".format),
    some.tuples(some.sampled_from(["", "+"]), TERMS).map("MORE{0[0]}=(\n  p.m={0[1]}\n)".format),
)


@example(lines=["a='x y'", "MORE=(\n  p.m=$a\n)"], terms=["1"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=some.lists(LINES, max_size=6), terms=some.lists(TERMS, min_size=1, max_size=3))
def test_what_is_read_of_a_script_is_what_bash_gives_the_command_or_unknown(
    tmp_path: Path, lines: list[str], terms: list[str]
) -> None:
    given = " \\\n  ".join(f'p.n{number}="{term}"' if "'" not in term and '"' not in term else f"p.n{number}={term}"
                          for number, term in enumerate(terms))  # fmt: skip
    script = "\n".join([*lines, f'train -m main {given} "${{MORE[@]}}" $STRING'])
    stub = "train() { printf '%s\\0' \"${@:3}\"; }\n"
    ran = subprocess.run(["bash", "-c", stub + script], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"})
    theirs: dict[str, Any] = dict(word.split("=", 1) for word in ran.stdout.split("\0") if "=" in word)
    read = settings_in(written(tmp_path / "run.sh", script))
    for name, value in read.items():
        if UNKNOWN not in str(value):
            assert value == (yaml.safe_load(theirs[name]) if theirs[name] else None), (script, name)
    assert theirs.keys() <= read.keys()
