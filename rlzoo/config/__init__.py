"""Every key that a user can set: what is said of each, and how files and words set it."""

from rlzoo.config.agreement import check_agreement
from rlzoo.config.command_keys import (
    BenchmarksConfig,
    GradeConfig,
    GridConfig,
    InspectConfig,
    LeaderboardConfig,
    PushConfig,
    RegradeConfig,
    SlurmConfig,
    TrustConfig,
    VerifierConfig,
)
from rlzoo.config.commands import check_effect, keys_of, own_keys, split_words
from rlzoo.config.decoding import read_decodings
from rlzoo.config.facts import Key, keys
from rlzoo.config.reading import (
    Resolved,
    flat,
    given_keys,
    load_config,
    option_as_word,
    own_words,
    read_recorded,
    resolve,
)
from rlzoo.config.sections import (
    CheckpointConfig,
    ColumnsConfig,
    Config,
    EvaluationConfig,
    LogConfig,
    LoraConfig,
    ModelConfig,
    RolloutConfig,
    TaskConfig,
    TrainConfig,
)
from rlzoo.config.writing import deciding, key_and_value, to_yaml, words_of

__all__ = [
    "BenchmarksConfig",
    "CheckpointConfig",
    "ColumnsConfig",
    "Config",
    "EvaluationConfig",
    "GradeConfig",
    "GridConfig",
    "InspectConfig",
    "Key",
    "LeaderboardConfig",
    "LogConfig",
    "LoraConfig",
    "ModelConfig",
    "PushConfig",
    "RegradeConfig",
    "Resolved",
    "RolloutConfig",
    "SlurmConfig",
    "TaskConfig",
    "TrainConfig",
    "TrustConfig",
    "VerifierConfig",
    "check_agreement",
    "check_effect",
    "deciding",
    "flat",
    "given_keys",
    "key_and_value",
    "keys",
    "keys_of",
    "load_config",
    "option_as_word",
    "own_keys",
    "own_words",
    "read_decodings",
    "read_recorded",
    "resolve",
    "split_words",
    "to_yaml",
    "words_of",
]
