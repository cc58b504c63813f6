"""`python -m objectives.adapters.verl EXPRESSION WORDS`: verl's own training, with an objective."""

import os
import sys
from pathlib import Path
from typing import Any

from objectives import ObjectiveError, parse
from objectives.adapters.verl import install

_MODULES = "VERL_USE_EXTERNAL_MODULES"
_HERE = "objectives.adapters.verl"


def main(words: list[str]) -> int:
    """Starts verl with the arguments after the expression. Returns 2 for a mistake, which it prints as one line."""
    try:
        if not words or "=" in words[0].split("(")[0] or words[0].startswith("-"):
            raise ObjectiveError("first comes an objective, as in: python -m objectives.adapters.verl 'stapo' WORDS")
        parse(words[0])
        install()
    except ObjectiveError as error:
        return _said(error)
    import hydra
    import verl.trainer.main_ppo

    from objectives.adapters.verl.settings import MARK
    from objectives.peers.verl import LOSS

    sys.argv = [sys.argv[0], f"{LOSS}='{MARK}{words[0]}'", *words[1:]]
    os.environ[_MODULES] = ",".join(dict.fromkeys([*filter(None, os.environ.get(_MODULES, "").split(",")), _HERE]))
    settings = Path(verl.trainer.main_ppo.__file__).parent / "config"
    hydra.main(config_path=str(settings), config_name="ppo_trainer", version_base=None)(_run)()
    return 0


def _run(config: Any) -> None:
    """What verl's own start does, with what the objective decides."""
    import verl.trainer.main_ppo
    from omegaconf import OmegaConf

    from objectives.adapters.verl.settings import settled

    try:
        config = settled(config)
        variable = f"ray_kwargs.ray_init.runtime_env.env_vars.{_MODULES}"  # for processes on other machines
        OmegaConf.update(config, variable, os.environ[_MODULES], force_add=True)
        verl.trainer.main_ppo.main.__wrapped__(config)
    except ObjectiveError as error:
        sys.exit(_said(error))


def _said(error: ObjectiveError) -> int:
    """Ray has what a process of its own raised as the `cause` of what it raises here."""
    print(f"objectives.adapters.verl: error: {getattr(error, 'cause', error)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
