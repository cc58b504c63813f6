"""A teacher's log-probs of the sampled tokens, out of verl's data.

verl's slot for on-policy distillation are the columns `teacher_logprobs` and `teacher_ids` [n, P + T, k] (verl 0.9.1,
agent_loop.py, `_compute_teacher_logprobs`). At each token of prompt and response they have the teacher's opinion of the
next one, k = 1 where it is that of the sampled token, and nothing at the last (vllm_rollout/utils.py,
`extract_prompt_logprobs`).
"""

from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from torch import Tensor
from verl.utils import hf_tokenizer
from verl.utils.fs import copy_to_local
from verl.workers.utils.padding import response_from_nested

from objectives import Objective, ObjectiveError
from objectives.adapters.verl.rows import padded
from objectives.peers.verl import TEACHER, TEACHES

FIELD, LOGP, IDS = "logp_teacher", "teacher_logprobs", "teacher_ids"
MODELS, NODES = "distillation.teacher_models", "distillation.nnodes"
LOOP, TEMPERATURE = (f"actor_rollout_ref.rollout.{name}" for name in ("agent.agent_loop_config_path", "temperature"))
_SLOT = f"{IDS} and {LOGP} in extra_fields"


def is_verls(objective: Objective, config: DictConfig) -> bool:
    """Whether verl has to start a teacher: a part reads one, and no agent loop of the user's may bring its opinion."""
    is_users = OmegaConf.select(config, LOOP) and not OmegaConf.select(config, TEACHER)
    return FIELD in objective.needs and not is_users


def check_teacher(objective: Objective, config: DictConfig) -> None:
    """Raises ObjectiveError where verl's teacher is not named, or scores otherwise than the policy samples."""
    if not is_verls(objective, config):
        return
    missing = [] if teacher_paths(config) else [f"{MODELS}.teacher_model.model_path"]
    missing += [] if OmegaConf.select(config, NODES) else [NODES]
    if missing:
        raise ObjectiveError(
            f"objective={objective} reads the log-probs of a teacher, which verl does not start without "
            f"{' and '.join(missing)}: set {'it' if len(missing) == 1 else 'them'}, or name by {LOOP} an agent loop "
            f"that gives {_SLOT}"
        )
    if (temperature := OmegaConf.select(config, TEMPERATURE)) != 1:
        raise ObjectiveError(
            f"{TEMPERATURE}={temperature}: verl's teacher scores at 1 whatever it is, and objective={objective} "
            "compares it with the policy at the temperature of sampling; leave it at 1"
        )


def teacher_paths(config: DictConfig) -> list[str]:
    """Where the weights of verl's teachers are."""
    models = OmegaConf.select(config, MODELS) or {}
    return [model.model_path for model in models.values() if model.get("model_path")]


def check_vocabulary(config: DictConfig, tokenizer: Any) -> None:
    """Raises ObjectiveError for a teacher of verl's whose tokens are others than those of the policy's tokenizer."""
    ours = tokenizer.get_vocab()
    for path in teacher_paths(config):
        theirs = hf_tokenizer(copy_to_local(path)).get_vocab()
        if theirs != ours:
            raise ObjectiveError(
                f"the teacher {path} has another vocabulary than {config.actor_rollout_ref.model.path}: {len(theirs)} "
                f"tokens, and {len(ours)}, which are not the same; a token of one means nothing to the other, so "
                "choose a teacher of the same family"
            )


def teacher_logp(data: TensorDict, real: Tensor, objective: Objective) -> Tensor:
    """[n, T] the teacher's log-probs of the responses' tokens, in rows that do not only fill up.

    Raises ObjectiveError where there are none, and where they are of other tokens than the sampled ones or of another
    place.
    """
    logp, ids = (_of_responses(data, name, objective) for name in (LOGP, IDS))
    sampled, lengths = padded(data["responses"]), data["responses"].offsets().diff()
    present = torch.arange(sampled.shape[1]) < lengths[:, None]
    elsewhere = ((ids != sampled) & present & real[:, None]).nonzero()
    if len(elsewhere):
        row, place = elsewhere[0].tolist()
        raise ObjectiveError(
            f"verl's {IDS} are not the tokens that were sampled: {int(ids[row, place])} where response {row} has "
            f"{int(sampled[row, place])} as token {place}; the teacher has to read the same tokens, and each stands at "
            "the one before"
        )
    return logp.float()


def _of_responses(data: TensorDict, name: str, objective: Objective) -> Tensor:
    """Values [n, T] of a column of the teacher, each moved from the token before to the token that it belongs to."""
    if not isinstance(data.get(name, None), Tensor):
        raise ObjectiveError(
            f"objective={objective} reads the log-probs of a teacher, but verl's data has no {name} of each response: "
            f"set {TEACHER}=true and {MODELS}.teacher_model.model_path, or have your agent loop give {_SLOT}"
        )
    if (data[name].offsets().diff() <= data["responses"].offsets().diff()).any():
        raise ObjectiveError(f"verl's {name} has no more places than a response has tokens: its prompt belongs to it")
    values = padded(response_from_nested(data[name], data["response_mask"]))
    if values.dim() == 3 and values.shape[2] > 1:
        raise ObjectiveError(
            f"verl's {name} has {values.shape[2]} numbers for a token, those of the teacher's likeliest ones, and "
            f"objective={objective} reads the sampled one's: leave {TEACHES} at k3"
        )
    return values.view(values.shape[:2])
