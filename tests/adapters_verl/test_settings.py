"""What an objective decides about verl's settings, what is refused, and which recipes run."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import verl
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from objectives import ObjectiveError, parse
from objectives.adapters.verl import settings
from objectives.adapters.verl.seams import PEER
from objectives.adapters.verl.settings import settled
from objectives.adapters.verl.teacher import MODELS, NODES
from objectives.peers.verl import ACTOR, BETA, CLIP, KIND, KL, LOSS, MANAGER, MEAN, OVERLONG, REJECT
from objectives.peers.verl import LOW as CLIP_LOW
from tests.guide import GUIDE
from tests.objectives.zoo_names import RECIPES
from tests.processes import ROOT


def config(objective: str, **changes: Any) -> DictConfig:
    """The configuration as it comes, with an objective, eight responses to a prompt, and changes by dotted name."""
    made = settings._defaults().copy()
    for name, value in {LOSS: f"rlzoo:{objective}", "actor_rollout_ref.rollout.n": 8, **changes}.items():
        OmegaConf.update(made, name, value, force_add=True)
    return made


WITH_KEYS = {"algorithm.gdpo_reward_keys": ["accuracy", "format"]}
WITH_TEACHER = {f"{MODELS}.teacher_model.model_path": "a_model", NODES: 1}
"""A teacher as verl has to be told of it."""
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("stapo", {CLIP_LOW: 0.3}, "'stapo+clip(low=0.3)'"),
    ("stapo", {CLIP: 0.3}, "nor in verl beside its other settings: leave that out"),
    ("grpo", {MEAN: "seq-mean-token-sum"}, "'grpo+seq_sum'"),
    ("grpo", {f"{ACTOR}kl_loss_coef": 0.01}, "'grpo+kl(beta=0.01,clamp=20.0)'"),
    ("gspo", {f"{ACTOR}kl_loss_coef": 0.01}, "nor in verl beside its other settings: leave that out"),
    ("gspo", {f"{ACTOR}use_kl_loss": True}, "'gspo+kl(beta=0.001,clamp=20.0)'"),
    ("grpo", {KL: True}, "'grpo+kl(beta=0.001,clamp=20.0)'"),
    ("grpo", {KL: True, BETA: 0.04, KIND: "mse"}, "'grpo+kl(estimator=k2)'"),
    ("reinforce_pp", {KL: True}, "'reinforce_pp+kl(beta=0.001,clamp=20.0)'"),
    ("grpo", {f"{ACTOR}ppo_epochs": 2}, "'grpo+epochs'"),
    ("grpo", {"algorithm.adv_estimator": "rloo"}, "'grpo+leave_one_out'"),
    ("rloo", {"algorithm.adv_estimator": "rloo"}, "which does that already: leave that out"),
    ("stapo", {REJECT: "token_k1", f"{REJECT}_threshold": "0.5_1.25"}, "sampler_mask(level=token,low=0.8,high=2.0)'"),
    ("grpo", {"algorithm.filter_groups.enable": True}, "'grpo+dynamic_sampling'; verl differs: groups go by"),
]


@pytest.mark.parametrize(("objective", "refused", "said"), REFUSED)
def test_a_setting_that_the_objective_replaces_is_an_error_that_names_the_users_own_number(
    objective: str, refused: dict[str, Any], said: str
) -> None:
    with pytest.raises(ObjectiveError) as raised:
        settled(config(objective, **refused))
    assert said in str(raised.value)


def test_what_the_objective_decides_is_set_once_and_may_be_said_as_it_decides_it() -> None:
    made = settled(config("lopti+dynamic_sampling+sampler_correction"))
    actor, algorithm = made.actor_rollout_ref.actor, made.algorithm
    assert actor.ppo_epochs == 2 and actor.use_kl_loss is True and made.critic.enable is False
    assert algorithm.filter_groups.enable is True and algorithm.adv_estimator == "grpo"
    assert settled(made) == made
    assert settled(config("gspo")).actor_rollout_ref.actor.use_kl_loss is False
    for objective, said in (("grpo", {KL: True, BETA: 0.04}), ("reinforce_pp_baseline", {}), ("reinforce_pp", {})):
        made = settled(config(objective, **said))
        assert made.actor_rollout_ref.actor.use_kl_loss is True and settled(made) == made


PUNISHES = {MANAGER: "dapo", f"{OVERLONG}enable": True}


@pytest.mark.parametrize(
    ("objective", "settings"),
    [("dapo", {MANAGER: "gdpo"}), ("dapo", {MANAGER: "dapo"}), ("dapo-soft_overlong", PUNISHES)],
)
def test_a_reward_manager_of_verl_gives_the_rewards(objective: str, settings: dict[str, Any]) -> None:
    assert settled(config(objective, **settings)).reward.reward_manager.name == settings[MANAGER]


@pytest.mark.parametrize(
    ("objective", "changes", "said"),
    [
        ("dapo+soft_overlong", PUNISHES, "punishes long responses too; leave it out, or add -soft_overlong"),
        ("dapo+soft_overlong(cache=600)", {}, "cache=600 of soft_overlong exceeds data.max_response_length=512"),
        ("grpo", {"actor_rollout_ref.actor.strategy": "megatron"}, "leave it at fsdp"),
        ("grpo", {"actor_rollout_ref.actor.shuffle": True}, "take the responses of a prompt apart"),
        ("grpo", {"critic.enable": True}, "value model"),
        ("grpo", {"trainer.critic_warmup": 3}, "no critic"),
        ("grpo", {"trainer.use_v1": False}, "made for that trainer"),
        ("grpo", {"trainer.v1.trainer_mode": "separate_async"}, "sample ahead"),
        ("dapo", {"trainer.v1.sampler.custom_sampler.path": "own.py"}, r"or add -dynamic_sampling"),
        ("passk", {"actor_rollout_ref.rollout.n": 4}, "rollout.n=4: objective=passk needs at least 5"),
        ("stapo(variant=justrl)", {}, "scope=microbatch"),
        ("dro", {}, "needs beta"),
        ("arm(alpha=0.5)", {}, "log-probs of prompts"),
        ("otb", {"actor_rollout_ref.model.use_fused_kernels": True}, "verl needs the logits"),
        ("gdpo", {}, r"as in \+algorithm.gdpo_reward_keys=\[accuracy,format\]"),
        ("gdpo", WITH_KEYS | {"algorithm.gdpo_reward_weights": [1.0]}, "has 1 numbers for 2 of"),
        ("opd", {}, "log-probs of a teacher"),
        ("gigpo", {}, "the rewards and states of turns"),
    ],
)
def test_settings_that_cannot_be_are_refused(objective: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ObjectiveError, match=said):
        settled(config(objective, **changes))


# ---- the table -------------------------------------------------------------------------------------------------------


def row_of(recipe: str) -> str:
    """The line of a recipe in the table: what it takes of verl, or why it is refused."""
    try:
        objective = parse(recipe)
        given = {"rewards": WITH_KEYS, "logp_teacher": WITH_TEACHER}
        asked = {name: value for read, more in given.items() if read in objective.needs for name, value in more.items()}
        settled(config(recipe, **asked))
    except ObjectiveError as error:
        return f"| `{recipe}` | refused: {error} |"
    takes = {
        f"{objective.pass_count} epochs": objective.pass_count > 1,
        "the reference": "logp_ref" in objective.needs,
        "a teacher": "logp_teacher" in objective.needs,
        "refills": objective.refills,
        "log-probs of the engine": "logp_sampler" in objective.needs,
        "sums of squares": "sum_pi_squared_old" in objective.needs,
        "rewards by name": "rewards" in objective.needs,
        "a forward pass before later updates": objective.reads_current,
    }
    return f"| `{recipe}` | runs: {', '.join(name for name, needed in takes.items() if needed) or 'no more'} |"


def test_the_guide_lists_every_recipe_and_what_it_takes_or_why_it_is_refused() -> None:
    rows = [row_of(recipe) for recipe in RECIPES]
    table = "\n".join(["| recipe | in verl |", "|---|---|", *rows])
    guide = GUIDE.read_text("utf-8")
    assert guide.split("<!-- recipes in verl -->\n")[1].split("\n<!-- /recipes in verl -->")[0] == table, table


# ---- a peer that has changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seam", "expected", "said"),
    [
        ("verl.workers.engine_workers:TrainingWorker.train", ("self",), "TrainingWorker.train should .* is not there"),
        ("verl.workers.elsewhere:TrainingWorker", (), "TrainingWorker should take .* is not there"),
        ("verl.workers.utils.losses:ppo_loss", ("config", "output"), r"takes \(config, model_output, data, dp_group\)"),
    ],
)
def test_a_changed_peer_is_one_clear_error(seam: str, expected: tuple[str, ...], said: str) -> None:
    with pytest.raises(ObjectiveError, match=said):
        replace(PEER, seams={**PEER.seams, seam: expected}).check()
    PEER.check()


def test_what_verl_itself_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cachetools", None)
    monkeypatch.delitem(sys.modules, "verl.workers.rollout.router", raising=False)
    with pytest.raises(ObjectiveError, match=r"verl cannot be imported as it is installed: .*cachetools"):
        replace(PEER, seams={"verl.workers.rollout.router:LRUCache": ()}).check()


def test_a_verl_that_is_not_there_is_one_line_with_the_extra(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.metadata as it\n"
        "found = it.version\n"
        "def version(name):\n"
        "    if name == 'verl': raise it.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "it.version = version\n"
    )
    command = [sys.executable, "-W", "ignore", "-m", "objectives.adapters.verl", "stapo"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, env=environment)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.endswith("verl is not installed: pip install 'verl==0.9.*'\n")


# ---- the start -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "first comes an objective"),
        (["trainer.nnodes=1"], "first comes an objective"),
        (["stapoo"], "stapo"),
        (["stapo", "actor_rollout_ref.actor.clip_ratio_high=0.35"], "'stapo+clip_higher(high=0.35)'"),
    ],
)
def test_a_mistake_is_one_line_before_anything_starts(words: list[str], said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "objectives.adapters.verl", *words]
    if len(words) > 1:
        command.append(f"hydra.run.dir={tmp_path}")
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "error" in line]
    assert line.startswith("objectives.adapters.verl: error: ") and said in line


def words_of_the_guide(start: str) -> list[str]:
    """What the guide has after the command that starts so, line after line."""
    (command,) = re.findall(rf"^    {re.escape(start)} ((?:.*\\\n)*.*)$", GUIDE.read_text("utf-8"), re.MULTILINE)
    return [word for word in shlex.split(command.replace("\\\n", " ")) if word != "..."]


def composed(words: list[str]) -> DictConfig:
    """Verl's configuration with words of its own."""
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer", words)


def test_the_words_of_the_guide_are_verls_and_go_with_the_objective() -> None:
    expression, *words = words_of_the_guide("python -m objectives.adapters.verl")
    made = settled(composed([f"{LOSS}='rlzoo:{expression}'", *words]))
    assert settings.expression_in(made) == "stapo+clip_higher" and made.actor_rollout_ref.rollout.n == 8
    alone = settled(composed(words_of_the_guide("python -m verl.trainer.main_ppo") + words))
    assert alone == made


def test_naming_the_module_in_a_variable_puts_the_adapter_into_verl() -> None:
    asks = "import verl; from verl.trainer.ppo.v1 import get_trainer_cls; print(get_trainer_cls('sync').__module__)"
    environment = {**os.environ, "VERL_USE_EXTERNAL_MODULES": "objectives.adapters.verl"}
    command = [sys.executable, "-W", "ignore", "-c", asks]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, env=environment)
    assert done.stdout.strip().endswith("objectives.adapters.verl.controller"), done.stderr[-2000:]
