"""Every limit of the platform's ledger, each with its reason."""

from __future__ import annotations

from holdfast.core.model.values.limits import IDENTITIES_MAX

#: Replicas of one workload, and identities in one assignment: more would not fit one record of the log.
COUNT_MAX = IDENTITIES_MAX

#: Static priorities stay far inside what a score can carry.
PRIORITY_MAX = 1_000_000

#: How long a token may be good: ninety days, and ten to change over to the next.
TOKEN_LIFE_MAX = 100 * 86_400_000

#: Offers to a region that does not answer are kept, each, until it does; more would tell it nothing new.
OFFERS_MAX = 64

#: How much one report may say.
REPORTS_MAX = 1_000

COUNTS_MAX = 16

NODES_MAX = 256

ISSUES_MAX = 64

MESSAGE_MAX = 512

#: Weights are small whole numbers: scores multiplied by them and added up stay within 63 bits.
WEIGHT_MAX = 1_000

LOG_ID_MAX = 256

ADDRESS_MAX = 512

#: One part releases so many workloads or grants at most.
OBJECTS_MAX = 500

#: More versions than any log has room for.
VERSION_MAX = 1 << 53
