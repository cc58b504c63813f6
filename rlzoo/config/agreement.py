"""What keys of an experiment say together."""

from rlzoo.config.decoding import read_decodings
from rlzoo.config.sections import Config, RolloutConfig, TrainConfig
from rlzoo.errors import UserError


def check_agreement(config: Config) -> None:
    """Refuses keys that no run could use together. Raises UserError naming them and what is allowed."""
    if not config.output.strip():
        raise UserError("output= is empty; give it a value, or leave it out")
    if config.model.attention.startswith("flash") and config.model.precision == "float32":
        raise UserError(f"model.attention={config.model.attention} needs model.precision=bfloat16")
    _check_lora(config)
    _check_sharding(config.train)
    _check_partial(config.rollout)
    read_decodings(config.evaluation.decodings)
    if "" in config.evaluation.stop:
        raise UserError("evaluation.stop has an empty text, which would end every response before it begins")
    if config.log.profile > config.train.steps:
        raise UserError(
            f"log.profile={config.log.profile} has no effect: the steps are 1 to train.steps={config.train.steps}; "
            f"name one of them, or leave it out"
        )
    if config.train.minibatches_per_step > config.rollout.prompts_per_step:
        raise UserError(
            f"train.minibatches_per_step={config.train.minibatches_per_step} exceeds "
            f"rollout.prompts_per_step={config.rollout.prompts_per_step}; groups are never split"
        )


def _check_partial(rollout: RolloutConfig) -> None:
    part, whole = rollout.partial_tokens, rollout.max_response_tokens
    key = f"rollout.partial_tokens={part}"
    if part >= whole:
        raise UserError(f"{key} has no effect with rollout.max_response_tokens={whole}; leave it out, or take fewer")
    if part and whole % part:
        near = min((n for n in range(1, whole) if whole % n == 0), key=lambda n: abs(n - part))
        raise UserError(f"{key} does not divide rollout.max_response_tokens={whole}; {near} does")
    if part and rollout.ahead:
        raise UserError(
            f"{key} has responses go on in later steps, which rollout.ahead={rollout.ahead} would sample "
            f"before; leave one of them out"
        )


def _check_lora(config: Config) -> None:
    lora = config.model.lora
    if lora.rank and config.train.sharding != "none":
        raise UserError(
            f"model.lora.rank={lora.rank}: adapters are not sharded; leave train.sharding={config.train.sharding} out"
        )
    for key, value in (("alpha", lora.alpha), ("targets", lora.targets)):
        if value and not lora.rank:
            raise UserError(
                f"model.lora.{key}={value} has no effect without model.lora.rank; set that, or leave it out"
            )


def _check_sharding(train: TrainConfig) -> None:
    for key, value in (("shards", train.shards), ("cpu_offload", train.cpu_offload)):
        if value and train.sharding == "none":
            raise UserError(
                f"train.{key}={str(value).lower()} has no effect without train.sharding=fsdp; set that, or leave it out"
            )
    if train.cpu_offload and train.optimizer == "adamw_8bit":
        raise UserError(
            "train.optimizer=adamw_8bit: with train.cpu_offload=true moments take nothing of the GPU, and torchao's "
            "8-bit updates are made there; leave one of the two out"
        )
