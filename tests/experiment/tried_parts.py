"""Run by test_faulty_parts.py, as parts stay registered: what the trial says of each part, as JSON."""

import json
from types import ModuleType

from objectives import ObjectiveError, Part, parse
from rlzoo.config import RolloutConfig
from rlzoo.errors import UserError
from rlzoo.experiment.trial import try_objective
from tests.experiment import faulty_advantages, faulty_losses, faulty_penalties, faulty_quietly, sound_parts
from tests.experiment.faults import BASES


def verdicts(module: ModuleType) -> dict[str, str]:
    """Of every part that a module defines."""
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Part)]
    names = [kind.name for kind in kinds if kind.__module__ == module.__name__]
    return {name: verdict(f"{BASES.get(name, 'grpo-kl')}+{module.__name__}:{name}") for name in names}


def verdict(expression: str) -> str:
    """What is said of it; empty if nothing is."""
    for size in (2, 8):
        try:
            objective = parse(expression)
            if objective.minimum_group <= size:
                try_objective(objective, RolloutConfig(responses_per_prompt=size, max_response_tokens=24))
        except (UserError, ObjectiveError) as error:
            return str(error)
    return ""


if __name__ == "__main__":
    faulty = verdicts(faulty_advantages) | verdicts(faulty_losses) | verdicts(faulty_penalties)
    print(json.dumps({"faulty": faulty, "quietly": verdicts(faulty_quietly), "sound": verdicts(sound_parts)}))
