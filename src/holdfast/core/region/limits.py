"""Every limit of a region's ledger, each with its reason."""

from __future__ import annotations

from holdfast.core.ledger.commit.authorization import NAME_MAX as SENDER_MAX
from holdfast.core.ledger.partial import PARTS_MAX

#: Longest detail of a move, in characters.
DETAIL_MAX = 200

#: Largest number of holds on one node: one record ends all of them with the node.
HOLDS_MAX = PARTS_MAX

#: Largest number of objects that one record deletes at the end of a full list, and the largest size of these deletions
#: together with the list's last part.
REMOVED_MAX = 500

REMOVED_BYTES = 512 << 10

#: Size of one deletion: its row and the breaches it opens. An assignment that ends adds its own size.
EACH_BYTES = 512

#: Longest node name: its agent's sender name is `agent/NAME`, with the limit of every sender name.
NAME_MAX = SENDER_MAX - len("agent/")

#: Longest host name.
ADDRESS_MAX = 253

PORT_MAX = 65_535

#: Reports that change only the load are accepted at most every 60 s: ranking needs no fresher load, and logs stay
#: small.
LOAD_EVERY_MS = 60_000

#: An ordinal of batch work has failed for good once agents gave it up this many times.
ATTEMPTS_MAX = 3

#: Largest size of what one StandDown record ends; a larger assignment has a record of its own.
ENDED_BYTES = 512 << 10

STEPS_MAX = 10_000

ORDINAL_MAX = 1 << 31

REASONS_MAX = 256
