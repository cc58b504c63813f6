"""The map of the zoo: what one update of each objective does, in a language small enough to know it exactly.

- `language`, `regimes`: all responses and policies over them; where objectives are looked at, and with which rollouts
- `behaviour`: what an objective asks for in a regime, and what a small step changes
- `estimates`: intervals that hold together; who is like whom
- `zoo_map`, `view`, `figures`: the whole map, and what is shown of it
"""
