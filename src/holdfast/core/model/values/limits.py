"""How long a text and how many entries a list may be that anybody sends: one name for each most.

`ledger.commit.size_limits` says which field has which, and refuses what is more. What a kind of object may have
besides, such as how many workloads a tenant, stands with that kind.
"""

from __future__ import annotations

#: A name, a key, a code, an address: what is not named below.
TEXT_MAX = 256
#: Things in one list: as many as one command may place, move or stop.
ENTRIES_MAX = 1_000
#: Why somebody did something, or what an operator notes on a node.
REASON_MAX = 1_000
#: What a controller or a region says in words.
MESSAGE_MAX = 4_096
#: GPUs of a node.
DEVICES_MAX = 64
#: Ports of one replica: a thousand placements with all of theirs still fit in one record.
PORTS_MAX = 64
#: Replicas on a node: one that has so many takes no more, whatever else it has.
NODE_SLOTS_MAX = 10_000
#: Ports that a node hands out: what is taken of them is one row.
NODE_PORTS_MAX = 4_096
#: Marks of an object or a node, and rules of a template or a placement.
MARKS_MAX = 64
#: What a mark that is not for finding may say.
ANNOTATION_MAX = 4_096
#: One argument of a command, or the value of one variable.
ARGUMENT_MAX = 32_768
#: A path on a node, or of a request to a replica.
PATH_MAX = 4_096
#: Identities of one workload.
IDENTITIES_MAX = 100_000
#: Rights to identities that one command gives, or gives back.
RIGHTS_MAX = 5_000
#: Templates of a workload that are kept though it names another now: those that it named last.
TEMPLATES_MAX = 10
#: Revisions of a policy that are kept though they are valid nowhere: the last ones.
POLICIES_MAX = 10
#: Policies of a platform, by name. One that is taken back in all its revisions makes room for another.
POLICY_NAMES_MAX = 100
#: Overrides of a ledger that have not ended: every gate reads all of them.
OVERRIDES_MAX = 200
#: Regions of a platform: a workload that is in all of them ends in one record.
REGIONS_MAX = 1_000
#: Accounts that a region's nodes are charged to.
ACCOUNTS_MAX = 10_000
#: Sums of denials in one record.
DENIALS_MAX = 200
#: Tokens of servers that a ledger keeps, and of those one server's: the one it shows, the next, and as many of a twin.
SERVERS_MAX = 256
SERVER_TOKENS_MAX = 4
#: What lies in one another: a reason below a reason.
DEPTH_MAX = 16
