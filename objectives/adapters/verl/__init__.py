"""Any expression of the zoo inside verl's GRPO trainer on Ray.

    python -m objectives.adapters.verl 'stapo+clip_higher' data.train_files=... actor_rollout_ref.model.path=...

or in a launch script of your own, by configuration alone:

    VERL_USE_EXTERNAL_MODULES=objectives.adapters.verl
    actor_rollout_ref.actor.policy_loss.loss_mode='rlzoo:stapo+clip_higher'

`controller` is what runs once per rollout step, `worker` what runs in each update on every GPU, `rows` what goes from
one to the other, `teacher` where a teacher's log-probs are, `settings` what the objective decides about verl's
settings, `seams` what is relied on in verl.
Importing the package puts it into verl.
"""

import sys

from objectives.adapters.verl.seams import PEER


def install() -> None:
    """Has verl take its synchronous trainer from here; raises ObjectiveError for a verl that lacks or has changed."""
    PEER.check()
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    from objectives.adapters.verl.controller import trainer_for

    TRAINER_REGISTRY["sync"] = trainer_for


_STARTED = ("-m", __name__) in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
"""Whether `__main__` follows, which says in a line what fails."""

if not _STARTED:
    install()
