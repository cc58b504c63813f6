"""Any expression of the zoo inside verl's GRPO trainer on Ray.

    python -m objectives.adapters.verl 'stapo+clip_higher' data.train_files=... actor_rollout_ref.model.path=...

or in a launch script of your own, by configuration alone:

    VERL_USE_EXTERNAL_MODULES=objectives.adapters.verl
    actor_rollout_ref.actor.policy_loss.loss_mode='rlzoo:stapo+clip_higher'

`controller` is what runs once per rollout step, `worker` what runs in each update on every GPU, `rows` what goes from
one to the other, `settings` what the objective decides about verl's settings. Importing the package puts it into verl.
"""

from objectives.adapters.verl.settings import PEER


def _install() -> None:
    """Has verl take its synchronous trainer from here."""
    PEER.check()
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    from objectives.adapters.verl.controller import trainer_for

    TRAINER_REGISTRY["sync"] = trainer_for


_install()
