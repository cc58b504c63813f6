"""Names and defaults of another library's settings, read from its installed package.

`python -m tests.peers.installed NAME` writes them into `objectives/peers/NAME.json`, with version and date.
"""

import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from objectives import peers
from objectives.peers.installed import Installed, flat

_OF_OBJECTIVES = ("actor_rollout_ref.actor.", "algorithm.", "distillation.", "data.max_")
"""Prefixes of verl's settings. Some settings under each prefix decide the objective."""


def installed(name: str) -> Installed:
    """What the package that is installed has. Raises ImportError where there is none."""
    return {"trl": _trl, "verl": _verl}[name]()


def _trl() -> Installed:
    fields = vars(import_module("trl").GRPOConfig)["__dataclass_fields__"].values()
    plain = (bool, int, float, str, type(None))
    return Installed(version("trl"), {it.name: it.default if isinstance(it.default, plain) else None for it in fields})


def _verl() -> Installed:
    """The files that verl generates for its engines, and those of programs that have their own."""
    config, folder = import_module("omegaconf").OmegaConf, Path(str(import_module("verl").__file__)).parent
    defaults: dict[str, Any] = {}
    for engine in ("", "megatron_", "torchtitan_", "veomni_"):
        file = folder / "trainer" / "config" / f"_generated_ppo_{engine}trainer.yaml"
        there = flat(config.to_container(config.load(file)))
        defaults = {key: value for key, value in there if key.startswith(_OF_OBJECTIVES)} | defaults
    programs: dict[str, dict[str, Any]] = {"verl.trainer": {}}
    for file in sorted(folder.glob("experimental/*/config/*_trainer.yaml")):
        own = dict(flat(config.to_container(config.load(file))))
        changed = {key: value for key, value in own.items() if key in defaults and defaults[key] != value}
        programs[f"verl.experimental.{file.parts[-3]}"] = changed
    return Installed(version("verl"), defaults, programs)


if __name__ == "__main__":
    (library,) = sys.argv[1:]
    found = asdict(installed(library)) | {"date": datetime.now(UTC).date().isoformat()}
    Path(peers.__file__).with_name(f"{library}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
