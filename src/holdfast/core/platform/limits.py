"""Every limit of the platform ledger, each with its reason."""

from __future__ import annotations

from holdfast.core.model.values.limits import IDENTITIES_MAX

#: Replicas per workload, and identities per assignment. More would not fit into one record of the log.
COUNT_MAX = IDENTITIES_MAX

#: Priorities stay far below the largest number that a score can hold.
PRIORITY_MAX = 1_000_000
#: Highest weight of a quota.
TENANT_WEIGHT_MAX = 1_000

#: Longest life of a bearer token: 90 days, and 10 to change to the next one.
TOKEN_LIFE_MAX = 100 * 86_400_000

#: Unacknowledged offers of one grant. Each is stored until its region acknowledges it; more would be of no use.
OFFERS_MAX = 64

#: Sizes of one report: workloads, counts of one workload, kinds of nodes, issues, characters of a message.
REPORTS_MAX = 1_000

COUNTS_MAX = 16

NODES_MAX = 256

ISSUES_MAX = 64

MESSAGE_MAX = 512

#: Weights are small integers, so that a weighted sum of scores stays within 63 bits.
WEIGHT_MAX = 1_000

LOG_ID_MAX = 256

ADDRESS_MAX = 512

#: Workloads and grants that one part of a retirement releases.
OBJECTS_MAX = 500

#: Versions of one grant: more than any log can contain.
VERSION_MAX = 1 << 53
