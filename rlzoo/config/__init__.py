"""Every key that a user can set: its default, its meaning, its range, and how files and words set it."""

from rlzoo.config.command_keys import (
    BenchmarksConfig,
    GradeConfig,
    GridConfig,
    InspectConfig,
    LeaderboardConfig,
    RegradeConfig,
    WarmupConfig,
    WarmupTaskConfig,
)
from rlzoo.config.decoding import Decoding, read_decodings
from rlzoo.config.ranges import check_ranges
from rlzoo.config.sections import (
    CheckpointConfig,
    Config,
    EvaluationConfig,
    LogConfig,
    ModelConfig,
    RolloutConfig,
    TaskConfig,
    TrainConfig,
)
from rlzoo.config.words import (
    EVALUATION_KEYS,
    flat,
    given_keys,
    keys,
    load_config,
    option_as_word,
    own_words,
    to_yaml,
    with_embedded_default,
    words_of,
)

__all__ = [
    "EVALUATION_KEYS",
    "BenchmarksConfig",
    "CheckpointConfig",
    "Config",
    "Decoding",
    "EvaluationConfig",
    "GradeConfig",
    "GridConfig",
    "InspectConfig",
    "LeaderboardConfig",
    "LogConfig",
    "ModelConfig",
    "RegradeConfig",
    "RolloutConfig",
    "TaskConfig",
    "TrainConfig",
    "WarmupConfig",
    "WarmupTaskConfig",
    "check_ranges",
    "flat",
    "given_keys",
    "keys",
    "load_config",
    "option_as_word",
    "own_words",
    "read_decodings",
    "to_yaml",
    "with_embedded_default",
    "words_of",
]
