"""Every limit of a region's ledger, each with its reason."""

from __future__ import annotations

from holdfast.core.ledger.commit.authorization import NAME_MAX as SENDER_MAX
from holdfast.core.ledger.partial import PARTS_MAX

#: How many characters a move may say besides its cause.
DETAIL_MAX = 200

#: So many are kept on one node: all of them end with it, in one record.
HOLDS_MAX = PARTS_MAX

#: So many objects are gone in one record, and so much may be left of them, beside what the list's last part puts there.
REMOVED_MAX = 500

REMOVED_BYTES = 512 << 10

#: What is written of each of them at most, but for an assignment that ends first: its row, and what that breaks.
EACH_BYTES = 512

#: With its kind before it, it is the name of its agent, which has no more characters than any other sender's.
NAME_MAX = SENDER_MAX - len("agent/")

#: A host name has no more.
ADDRESS_MAX = 253

PORT_MAX = 65_535

#: Load alone is taken so often: what ranks nodes need not be newer, and logs stay quiet.
LOAD_EVERY_MS = 60_000

#: So often an ordinal of batch work is placed and given up by an agent.
ATTEMPTS_MAX = 3

#: So much ends in one record, or one assignment, however large it is.
ENDED_BYTES = 512 << 10

STEPS_MAX = 10_000

ORDINAL_MAX = 1 << 31

REASONS_MAX = 256
