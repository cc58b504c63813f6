"""The laboratory: what is known of objectives from tiny worlds in which the truth is known. No other room imports it.

- `suite`: small trainings in which a failure mode is there on purpose
- `map`: what one update does, exactly, in a language whose responses are all enumerated
- `warmup`, `planted_arithmetic`: models made from demonstrations, and a task with tokens that are known to be spurious
- `commands`, `keys`: `rlzoo suite`, `rlzoo map`, `rlzoo warmup` and the same from Python; commands find it by name
"""
