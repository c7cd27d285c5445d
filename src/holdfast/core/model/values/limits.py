"""Limits of texts and lists in commands, each with one name.

The table in `ledger.commit.size_limits` assigns them to fields and refuses larger values. Limits of one kind of object,
such as workloads per tenant, are defined with that kind.
"""

from __future__ import annotations

#: Names, keys, codes, addresses: every text without a limit of its own.
TEXT_MAX = 256
#: Entries of one list: as many as one command may place, move or stop.
ENTRIES_MAX = 1_000
#: Replicas of one gang: one proposal places them.
GANG_MAX = ENTRIES_MAX
#: The reason of an action, or an operator's note on a node.
REASON_MAX = 1_000
#: A message of a controller or a region.
MESSAGE_MAX = 4_096
#: GPUs of a node.
DEVICES_MAX = 64
#: Ports of one replica: a thousand placements with all their ports still fit in one record.
PORTS_MAX = 64
#: Replicas on a node: above it a node accepts no more, whatever its free capacity.
NODE_SLOTS_MAX = 10_000
#: Ports that a node assigns: their usage is stored in one row.
NODE_PORTS_MAX = 4_096
#: Labels, taints or tenancy entries of an object or a node, and rules of a template or a placement.
MARKS_MAX = 64
#: The value of an annotation.
ANNOTATION_MAX = 4_096
#: One argument of a command, or the value of one variable.
ARGUMENT_MAX = 32_768
#: A path on a node, or of a request to a replica.
PATH_MAX = 4_096
#: Identities of one workload.
IDENTITIES_MAX = 100_000
#: Rights to identities that one command grants or releases.
RIGHTS_MAX = 5_000
#: Former templates that a workload retains, the latest ones.
TEMPLATES_MAX = 10
#: Revisions of a policy that are retained though they are valid nowhere, the latest ones.
POLICIES_MAX = 10
#: Policies of a platform, by name. A policy with all its revisions rolled back does not count.
POLICY_NAMES_MAX = 100
#: Overrides of a ledger that have not ended: every gate reads all of them.
OVERRIDES_MAX = 200
#: Regions of a platform: the end of a workload that is in all of them fits in one record.
REGIONS_MAX = 1_000
#: Accounts that slots in a region are charged to.
ACCOUNTS_MAX = 10_000
#: Sums of denials in one record.
DENIALS_MAX = 200
#: Server tokens of a ledger, and of one server: its current token, the next, and as many of a twin.
SERVERS_MAX = 256
SERVER_TOKENS_MAX = 4
#: Nesting, such as of pending reasons.
DEPTH_MAX = 16
