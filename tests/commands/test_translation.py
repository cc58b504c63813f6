"""Published settings of other libraries as expressions, and back."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from objectives import ObjectiveError, parse
from objectives.peers import PEERS
from objectives.peers.table import Rule
from objectives.peers.translate import from_peer, to_peer
from rlzoo.commands import main
from tests.conftest import error_of
from tests.objectives.zoo_names import VARIANTS

ACTOR = "actor_rollout_ref.actor."
GRPO = {"algorithm.adv_estimator": "grpo", "algorithm.use_kl_in_reward": False}
NO_KL = {f"{ACTOR}use_kl_loss": False, f"{ACTOR}entropy_coeff": 0}
SMALL_KL = {
    f"{ACTOR}use_kl_loss": True,
    f"{ACTOR}kl_loss_coef": 0.001,
    f"{ACTOR}kl_loss_type": "low_var_kl",
    f"{ACTOR}entropy_coeff": 0,
}
DAPO = {
    **GRPO,
    **NO_KL,
    f"{ACTOR}clip_ratio_low": 0.2,
    f"{ACTOR}clip_ratio_high": 0.28,
    f"{ACTOR}clip_ratio_c": 10.0,
    f"{ACTOR}loss_agg_mode": "token-mean",
    "algorithm.filter_groups.enable": True,
    "algorithm.filter_groups.metric": "acc",
    "algorithm.filter_groups.max_num_gen_batches": 10,
}
OVERLONG = {
    "reward_model.reward_manager": "dapo",
    "reward_model.reward_kwargs.overlong_buffer_cfg.enable": True,
    "reward_model.reward_kwargs.overlong_buffer_cfg.len": 4096,
    "reward_model.reward_kwargs.overlong_buffer_cfg.penalty_factor": 1.0,
    "reward_model.reward_kwargs.max_resp_len": 20480,
    "data.max_response_length": 20480,
}
PUBLISHED: dict[str, tuple[str, dict[str, Any], str, list[str]]] = {
    # The authors' and the libraries' scripts: whose settings, what they are, the expression, the differences.
    "verl recipe/dapo": (
        "verl",
        DAPO | OVERLONG,
        "grpo+soft_overlong(max_length=20480,cache=4096)+dynamic_sampling+clip_higher+dual_clip(cap=10.0)"
        "+token_mean-kl",
        [],
    ),
    "verl cispo_trainer": (
        "verl",
        {**GRPO, **SMALL_KL, f"{ACTOR}policy_loss.loss_mode": "cispo"}
        | {f"{ACTOR}clip_ratio_low": 10, f"{ACTOR}clip_ratio_high": 0.2},
        "grpo+cispo(high=0.2)+token_mean+kl(beta=0.001,clamp=20.0)",
        [],
    ),
    "verl gspo_trainer": (
        "verl",
        {**GRPO, **NO_KL, f"{ACTOR}policy_loss.loss_mode": "gspo", f"{ACTOR}loss_agg_mode": "seq-mean-token-mean"}
        | {f"{ACTOR}clip_ratio_low": "3e-4", f"{ACTOR}clip_ratio_high": "4e-4", f"{ACTOR}clip_ratio_c": 10.0},
        "gspo",
        ["clip_ratio_c=10.0"],
    ),
    "verl gpg_trainer": (
        "verl",
        {**GRPO, **NO_KL, "algorithm.adv_estimator": "gpg", f"{ACTOR}policy_loss.loss_mode": "gpg"},
        "grpo+scaled_center(counts=rewarded)+reinforce+token_mean-kl",
        [],
    ),
    "verl dppo_trainer": (
        "verl",
        {**GRPO, **NO_KL, "algorithm.norm_adv_by_std_in_grpo": False, f"{ACTOR}policy_loss.loss_mode": "dppo_tv"}
        | {f"{ACTOR}loss_agg_mode": "seq-mean-token-sum-norm", f"{ACTOR}clip_ratio_c": 10000.0}
        | {f"{ACTOR}clip_ratio_low": 0.15, f"{ACTOR}clip_ratio_high": 0.15},
        "grpo+group_center+divergence_clip(cap=10000.0)+constant_length-kl",
        ["loss_scale_factor=None"],
    ),
    "TRL paper index, DeepSeek-R1": (
        "trl",
        {"loss_type": "grpo", "beta": 0.001, "epsilon": 10.0, "num_generations": 16, "steps_per_generation": 16},
        "grpo+group_norm(eps=0.0001)+clip(low=1.0)+clip_higher(high=10.0)+unbiased_kl(beta=0.001)-kl",
        ["not clamped", "loss_type=grpo"],
    ),
    "TRL, masked importance sampling": (
        "trl",
        {"use_vllm": True, "vllm_importance_sampling_correction": True}
        | {"vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_cap": 2.0},
        "grpo+group_norm(eps=0.0001)+sampler_correction(level=product,outside=drop)+token_mean-kl",
        ["not clamped", "loss_type=dapo: with steps_per_generation above"],
    ),
}


@pytest.mark.parametrize("script", PUBLISHED)
def test_published_settings_are_an_expression_and_come_back(script: str) -> None:
    peer, settings, expression, differences = PUBLISHED[script]
    translation = from_peer(peer, settings)
    assert parse(translation.expression) == parse(expression)
    assert translation.expression == expression
    assert len(translation.differences) == len(differences)
    assert all(named in line for named, line in zip(differences, translation.differences, strict=True))
    back = to_peer(peer, parse(expression))
    assert from_peer(peer, back.settings).expression == expression
    changed = {key for key, value in back.settings.items() if translation.settings.get(key, value) != value}
    assert all(
        key == f"{ACTOR}clip_ratio_low" or any(key in line for line in translation.differences) for key in changed
    )


@pytest.mark.parametrize("name", PEERS)
def test_what_another_library_has_a_setting_for_comes_back(name: str) -> None:
    went = 0
    for expression in VARIANTS:
        objective = parse(expression)
        try:
            there = to_peer(name, objective)
        except ObjectiveError as error:
            assert "has no setting for" in str(error)
            continue
        went += 1
        eps = [line for line in there.differences if "to the deviation" in line]
        assert eps or parse(from_peer(name, there.settings).expression) == objective
    assert went >= {"verl": 12, "trl": 6}[name]


CLIP = f"{ACTOR}clip_ratio"


@pytest.mark.parametrize(
    ("settings", "clip"),
    [
        ({CLIP: 0.3}, ""),
        ({CLIP: 0.3, f"{CLIP}_low": None, f"{CLIP}_high": None}, "+clip(low=0.3)"),
        ({CLIP: 0.3, f"{CLIP}_high": None}, "+clip_higher(high=0.3)"),
        ({f"{CLIP}_low": None}, ""),
    ],
)
def test_a_null_clip_ratio_of_one_side_is_that_of_both(settings: dict[str, Any], clip: str) -> None:
    translation = from_peer("verl", GRPO | settings)
    assert translation.expression == f"grpo{clip}+dual_clip+token_mean-kl"
    unread = [line for line in translation.differences if f"{CLIP}=0.3: verl does not read it" in line]
    assert bool(unread) == (settings == {CLIP: 0.3})


TAUGHT = "distillation.distillation_loss."
OPD = {
    "distillation.enabled": True,
    f"{TAUGHT}use_task_rewards": False,
    f"{TAUGHT}use_policy_gradient": True,
    f"{TAUGHT}loss_mode": "k1",
}


def test_distillation_alone_asks_for_no_value_model() -> None:
    """The trainer starts one where adv_estimator is gae, its default (trainer/ppo/utils.py, need_critic)."""
    objective = parse("opd(variant=verl)")
    back = to_peer("verl", objective)
    assert back.settings["algorithm.adv_estimator"] == "grpo"
    for estimator in ("grpo", "rloo", "gae"):
        translation = from_peer("verl", back.settings | {"algorithm.adv_estimator": estimator})
        assert parse(translation.expression) == objective and not translation.differences


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (OPD | {f"{TAUGHT}clip_ratio_low": None, f"{TAUGHT}clip_ratio": None}, "have to be numbers"),
        (OPD | {f"{TAUGHT}loss_max_clamp": "much"}, "its loss_max_clamp one or null"),
        (OPD | {"algorithm.rollout_correction.rollout_is": "token"}, "multiply the teacher's advantage"),
        (OPD | {f"{TAUGHT}use_policy_gradient": False}, "verl refuses it; use_policy_gradient=True is opd"),
    ],
)
def test_no_setting_beside_the_distillation_is_dropped(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ObjectiveError, match=message):
        from_peer("verl", settings)


def test_verl_is_given_no_setting_that_only_a_recipe_of_another_package_reads() -> None:
    settings = GRPO | {f"{ACTOR}policy_loss.loss_mode": "gvpo", f"{ACTOR}gvpo_beta": 0.2}
    expression = from_peer("verl", settings).expression
    assert "group_variance(beta=0.2)" in expression
    with pytest.raises(ObjectiveError, match=r"has no setting for group_variance.*there is python -m"):
        to_peer("verl", parse(expression))


BUFFER, RESPONSE = "reward.reward_kwargs.overlong_buffer_cfg.", "reward.reward_kwargs.max_resp_len"


def test_what_the_buffer_for_long_responses_lacks_is_named() -> None:
    """Its manager `dapo` asserts that both are there."""
    (line, _) = to_peer("verl", parse("dapo")).differences
    assert f"{BUFFER}len=None" in line and RESPONSE in line
    settings = GRPO | {"reward.reward_manager.name": "dapo", f"{BUFFER}enable": True}
    for given, expression in (({}, "soft_overlong+"), ({RESPONSE: 512}, "soft_overlong(max_length=512)+")):
        translation = from_peer("verl", settings | given)
        assert f"grpo+{expression}" in translation.expression
        (line,) = translation.differences
        assert (RESPONSE in line) == (not given) and "to be given" in line


def test_a_name_that_a_program_reads_is_never_called_unread_and_never_given_twice() -> None:
    settings, program = GRPO | {"data.max_response_length": 512}, "recipe.entropy.main"
    assert not [line for line in from_peer("verl", settings, program=program).differences if "512" in line]
    assert from_peer("verl", settings | {RESPONSE: 512}, program=program)
    with pytest.raises(ObjectiveError, match=f"{RESPONSE} is given twice, as 512 and as 1024"):
        from_peer("verl", settings | {RESPONSE: 1024}, program=program)


GEO_MEAN = {f"{ACTOR}policy_loss.loss_mode": "geo_mean", f"{CLIP}_low": 0.4, f"{CLIP}_high": 0.4}
TO_GO = {"algorithm.adv_estimator": "reinforce_plus_plus", "algorithm.use_kl_in_reward": True}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (GRPO | {"algorithm.rollout_correction.rollout_is": "token"}, "geometric mean of its tokens' weights"),
        (GRPO | {"algorithm.rollout_correction.rollout_is": "sequence"}, ""),
        (TO_GO, "the mean of a response's advantages"),
        (GRPO, ""),
    ],
)
def test_what_differs_per_token_is_named_where_the_loss_takes_one_value_per_response(
    settings: dict[str, Any], expected: str
) -> None:
    translation = from_peer("verl", GEO_MEAN | settings)
    back = to_peer("verl", parse(translation.expression))
    for either in (translation, back):
        named = [line for line in either.differences if "each token" in line]
        assert len(named) == bool(expected) and all(expected in line for line in named)
    plain = from_peer("verl", settings)
    assert not [line for line in plain.differences if "each token" in line]


@pytest.mark.parametrize(
    ("settings", "expression"),
    [
        ({"epsilon": 1.5, "delta": 4.0}, "clip(low=1.0)+clip_higher(high=1.5)+dual_clip(cap=4.0)"),
        ({"epsilon": 1.5, "epsilon_high": 2.0}, "clip(low=1.0)+clip_higher(high=2.0)"),
        ({"epsilon": 0.1, "epsilon_high": 2.0, "delta": 4}, "clip(low=0.1)+clip_higher(high=2.0)+dual_clip(cap=4.0)"),
        ({"epsilon": 1.5, "delta": 2.0}, "clip(low=1.0)+clip_higher(high=1.0)+dual_clip(cap=2.5)"),
        ({"epsilon": 0.5, "delta": 1.25}, "clip(low=0.5)+clip_higher(high=0.25)+dual_clip(cap=1.5)"),
    ],
)
def test_a_width_of_one_or_more_and_a_low_delta_are_the_bounds_that_they_are(
    settings: dict[str, Any], expression: str
) -> None:
    translation = from_peer("trl", settings)
    assert translation.expression == f"grpo+group_norm(eps=0.0001)+{expression}+token_mean-kl"
    assert not any("delta" in difference for difference in translation.differences)
    assert from_peer("trl", to_peer("trl", parse(translation.expression)).settings).expression == translation.expression


def test_every_setting_is_read_named_or_of_the_run() -> None:
    settings = {"loss_type": "sapo", "epsilon": 0.1, "learning_rate": 1e-6, "my_tool": "grpo"}
    translation = from_peer("trl", settings)
    assert translation.elsewhere == ("learning_rate",)
    assert [line for line in translation.differences if "epsilon=0.1" in line and "does not read" in line]
    assert [line for line in translation.differences if "my_tool=grpo" in line and "not known" in line]
    with pytest.raises(ObjectiveError, match=r"policy_loss\.tau_pos=2.0 is not known here as of"):
        from_peer("verl", {**GRPO, f"{ACTOR}policy_loss.loss_mode": "sapo", f"{ACTOR}policy_loss.tau_pos": 2.0})


@pytest.mark.parametrize("name", PEERS)
def test_rules_read_known_settings_and_name_parts_of_the_zoo(name: str) -> None:
    table = PEERS[name]
    for rule in (rule for rules in table.stages.values() for rule in rules):
        assert isinstance(rule, Rule) and set(rule.settings) <= set(table.defaults), rule
        assert rule.terms is not None or rule.difference


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--from", "verll", "x.yaml"], ["--from verll", "did you mean verl?"]),
        (["--from", "openrlhf", "x.yaml"], ["--from openrlhf: the translation was removed; verl and trl are left"]),
        (["--to", "prime-rl", "stapo"], ["--to prime-rl: the translation was removed"]),
        (["--from", "verl"], ["--from verl takes one CONFIG.yaml, not 0"]),
        (["--from", "verl", "missing.yaml"], ["cannot read missing.yaml"]),
        (["--from", "verl", "gae.yaml"], ["algorithm.adv_estimator=gae", "value model"]),
        (["--from", "verl", "unknown.yaml"], ["adv_estimator=magic", "nothing here"]),
        (["--from", "verl", "list.yaml"], ["list.yaml holds no settings"]),
        (["--from", "verl", "broken.yaml"], ["broken.yaml is neither YAML, JSON nor TOML"]),
        (["--from", "verl", "wide.yaml"], ["fraction=2", "(0, 1]"]),
        (["--from", "verl", "--to", "trl", "stapo"], ["three questions"]),
        (
            ["--to", "trl", "stapo"],
            ["trl 1.16.0 has no setting for s2t in stapo; for parts of the zoo there is objectives.ad"],
        ),
        (["--to", "verl", "lopti"], ["verl 0.9.1 has no setting", "there is python -m objectives.adapters.verl"]),
        (["--to", "trl", "stapoo"], ["did you mean stapo"]),
        (["--search", "xyzzy"], ["--search xyzzy", "nothing in the zoo mentions it"]),
        (["--search", "clip", "stapo"], ["--search"]),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], says: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    estimator = "algorithm: {adv_estimator: %s}"
    texts = {"gae": estimator % "gae", "unknown": estimator % "magic", "list": "- 1", "broken": "a: [1"}
    texts["wide"] = yaml.safe_dump(
        GRPO | {f"{ACTOR}policy_loss.loss_mode": "kl_cov", f"{ACTOR}policy_loss.kl_cov_ratio": 2}
    )
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    line = error_of(capsys, "objectives", *words)
    assert all(text in line for text in says), line


def test_no_adapter_is_named_that_refuses_the_objective(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(capsys, "objectives", "--to", "trl", "otb").endswith(
        "has no setting for optimal_token_baseline and reinforce and seq_sum in otb"
    )


def test_a_program_and_a_person_read_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(DAPO))
    assert main(["objectives", "--from", "verl", str(config)]) == 0
    shown = capsys.readouterr().out
    assert main(["objectives", "--from", "verl", str(config), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert shown.splitlines()[0] == described["expression"]
    assert main(["objectives", "--to", "verl", described["expression"]]) == 0
    back = tmp_path / "back.yaml"
    back.write_text(capsys.readouterr().out)
    assert main(["objectives", "--from", "verl", str(back)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == described["expression"]


def test_a_search_finds_what_mentions_the_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["objectives", "--search", "Vary Together", "--json"]) == 0
    assert {"clip_cov"} <= {row["name"] for row in json.loads(capsys.readouterr().out)}
    assert main(["objectives", "--search", "2507.18071"]) == 0
    assert "gspo" in capsys.readouterr().out
