"""The settings of verl and TRL as parts, and back: one table for each library.

`rlzoo objectives --from` and `--to` read the tables through `translate`; the adapters read them through `replaced`,
to say what a setting that has no effect beside an objective would be in it.
"""

from objectives.peers.table import PeerTable
from objectives.peers.trl import TRL
from objectives.peers.verl import VERL

PEERS: dict[str, PeerTable] = {table.name: table for table in (VERL, TRL)}
REMOVED = ("openrlhf", "prime-rl")
"""Libraries that earlier versions translated, by tables that had fallen behind their source."""
