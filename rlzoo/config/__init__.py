"""Every key that a user can set: its declaration, and how files and the command line set it.

Here are the names that most modules need; the others are where they are declared.
"""

from rlzoo.config.reading import flat, load_config
from rlzoo.config.sections import Config, ModelConfig, RolloutConfig, TaskConfig, TrainConfig
from rlzoo.config.words import to_yaml

__all__ = ["Config", "ModelConfig", "RolloutConfig", "TaskConfig", "TrainConfig", "flat", "load_config", "to_yaml"]
