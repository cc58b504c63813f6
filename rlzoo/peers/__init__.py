"""What people set in verl, TRL, OpenRLHF and prime-rl, as expressions, and back: one table for each library."""

from rlzoo.peers.openrlhf import OPENRLHF
from rlzoo.peers.prime_rl import PRIME_RL
from rlzoo.peers.rows import Peer
from rlzoo.peers.trl import TRL
from rlzoo.peers.verl import VERL

PEERS: dict[str, Peer] = {peer.name: peer for peer in (VERL, TRL, OPENRLHF, PRIME_RL)}
