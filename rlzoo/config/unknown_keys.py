"""What to write instead of a key that there is not: names that other trainers use, and what is not to be had here."""

from collections.abc import Sequence

from rlzoo.errors import near_names

MEANT = {
    "lr": "train.learning_rate",
    "batch_size": "rollout.prompts_per_step",
    "per_device_train_batch_size": "rollout.prompts_per_step",
    "micro_batch_size": "train.tokens_per_micro_batch",
    "num_generations": "rollout.responses_per_prompt",
    "group_size": "rollout.responses_per_prompt",
    "epochs": "train.steps",
    "max_steps": "train.steps",
    "max_tokens": "rollout.max_response_tokens",
    "max_new_tokens": "rollout.max_response_tokens",
    "max_completion_length": "rollout.max_response_tokens",
    "max_grad_norm": "train.gradient_clip",
    "model": "model.name",
    "task": "task.name",
    "dataset": "task.name",
    "report_to": "log.trackers",
    "save_steps": "checkpoint.every",
    "eval_steps": "evaluation.every",
    "output_dir": "output",
    "evaluation.temperature": "evaluation.decodings",
    "evaluation.top_p": "evaluation.decodings",
    "lora": "model.lora.rank",
    "peft": "model.lora.rank",
    "lora_alpha": "model.lora.alpha",
    "optim": "train.optimizer",
    "fsdp_size": "train.shards",
    "offload": "train.cpu_offload",
    "param_offload": "train.cpu_offload",
    "optimizer_offload": "train.cpu_offload",
    "scheduler": "train.schedule",
    "lr_scheduler_type": "train.schedule",
}
"""What others call it, alone or behind its last dot -> its key."""

ABSENT = {
    "beta": "it is a parameter of the objective: objective='grpo+kl(beta=0.04)'",
    "kl_coef": "it is a parameter of the objective: objective='grpo+kl(beta=0.04)'",
    "epsilon": "it is a parameter of the objective: objective='grpo+clip(low=0.2)'",
    "bf16": "write model.precision=bfloat16",
    "fp16": "write model.precision=bfloat16",
    "use_vllm": "write rollout.engine=vllm",
}
"""Names of what is no key at all, alone, before the first dot or behind the last -> what there is."""


def remedy(key: str, names: Sequence[str]) -> str:
    """What to write instead, for the end of an error; `names` are the keys that there are."""
    first, last = key.partition(".")[0], key.rpartition(".")[2]
    for name in (key, first, last):
        if name in ABSENT:
            return f"; {ABSENT[name]}"
    meant = meant_key(key, names)
    if meant:
        return f"; did you mean {meant}?"
    return f"; the keys are {', '.join(names)}" if len(names) < 12 else "; --help lists the keys"


def meant_key(key: str, names: Sequence[str]) -> str:
    """The key that was meant, empty if none is near."""
    last = key.rpartition(".")[2]
    known = [MEANT[name] for name in (key, last) if MEANT.get(name) in names]
    known += [name for name in names if name.endswith("." + key)]
    return next(iter(known or near_names(key, names, most=1)), "")
