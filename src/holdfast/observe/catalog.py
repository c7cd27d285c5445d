"""Every metric that the code counts: its kind, its labels, and its meaning. The reference is generated from this table.

A test compares the table with the code: a name that is missing here is not counted.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class MetricKind(StrEnum):
    """How a metric changes: a counter, a gauge, or a distribution of milliseconds."""

    COUNT = "count"
    GAUGE = "gauge"
    TIME = "time"


class Metric(Struct, frozen=True):
    kind: MetricKind
    sentence: str
    labels: tuple[str, ...] = ()


_COUNT, _GAUGE, _TIME = MetricKind.COUNT, MetricKind.GAUGE, MetricKind.TIME

METRICS: dict[str, Metric] = {
    "agent_caught": Metric(_COUNT, "resyncs of an agent that found work: a notification was missed"),
    "agent_moves": Metric(_COUNT, "phase changes that an agent reported for its slots", ("target",)),
    "agent_probes": Metric(_COUNT, "attempts of probes", ("which", "result")),
    "agent_refused": Metric(_COUNT, "phase changes of an agent that the ledger refused", ("code",)),
    "agent_sessions": Metric(_COUNT, "sessions that an agent has opened"),
    "agent_sessions_over": Metric(_COUNT, "sessions of an agent that the ledger ended"),
    "agent_starts": Metric(_COUNT, "starts of processes by an agent, by result", ("result",)),
    "agent_stops": Metric(_COUNT, "processes that an agent stopped"),
    "agent_streams_broken": Metric(_COUNT, "streams of an agent's bindings that broke"),
    "api_answers": Metric(_COUNT, "answers of a server's API", ("verb", "status")),
    "api_forwarded": Metric(_COUNT, "requests that a follower forwarded to its leader"),
    "api_to_region": Metric(_COUNT, "requests that the platform forwarded to a region"),
    "append_unknown": Metric(_COUNT, "appends with an unknown outcome, which were repeated"),
    "batches": Metric(_COUNT, "batches that this leader committed"),
    "bindings_streams": Metric(_GAUGE, "agents that this server streams bindings to"),
    "bindings_told": Metric(_COUNT, "messages with an agent's bindings"),
    "commands": Metric(_COUNT, "commands that this leader answered"),
    "commands_failed": Metric(_COUNT, "commands that failed with an internal error", ("command",)),
    "commands_refused": Metric(_COUNT, "commands refused", ("code",)),
    "commit_ms": Metric(_TIME, "time from sending a batch to the store to its answer"),
    "audit_begun_anew": Metric(_COUNT, "rebuilds of the audit index from the log"),
    "audit_behind": Metric(_GAUGE, "batches of the log that the audit index has not read yet"),
    "audit_bytes": Metric(_GAUGE, "bytes that the audit index uses"),
    "audit_failed": Metric(_COUNT, "failed writes of the audit index, which were retried"),
    "audit_kept": Metric(_COUNT, "entries stored in the audit index"),
    "decisions_begun_anew": Metric(_COUNT, "rebuilds of the decision index from the log"),
    "decisions_behind": Metric(_GAUGE, "batches of the log that the decision index has not read yet"),
    "decisions_bytes": Metric(_GAUGE, "bytes that the decision index uses"),
    "decisions_failed": Metric(_COUNT, "failed writes of the decision index, which were retried"),
    "decisions_kept": Metric(_COUNT, "decisions stored in the decision index"),
    "denials": Metric(_COUNT, "requests that were denied", ("code",)),
    "denials_recorded": Metric(_COUNT, "denials that this leader recorded"),
    "endpoints_asked": Metric(_COUNT, "probes of endpoints, by result", ("result",)),
    "endpoints_caught": Metric(_COUNT, "endpoints that only the resync found: a change was missed"),
    "endpoints_published": Metric(_COUNT, "replicas whose endpoint was published"),
    "endpoints_withdrawn": Metric(_COUNT, "replicas whose endpoint was withdrawn after failed probes"),
    "endpoints_withheld": Metric(_COUNT, "replicas kept published by the brake, since most others failed"),
    "expired_reservations": Metric(_COUNT, "reservations and holds that expired"),
    "expiry_caught": Metric(_COUNT, "reservations that only the resync found: a change was missed"),
    "follower_behind": Metric(_GAUGE, "batches of the log that this follower has not folded yet"),
    "follower_reads_failed": Metric(_COUNT, "failed reads of the log by a follower"),
    "leading_term": Metric(_GAUGE, "the term that this server led last"),
    "link_acknowledged": Metric(_COUNT, "acknowledgements of a region that the platform committed"),
    "link_breaks": Metric(_COUNT, "ends of a region's stream from the platform", ("why",)),
    "link_forgotten": Metric(_COUNT, "ended assignments that a region removed, unknown to the platform"),
    "link_objects": Metric(_COUNT, "objects in the steps that a region applied"),
    "link_offered_back": Metric(_COUNT, "replicas that a region offered back for lack of capacity"),
    "link_offset_ms": Metric(_GAUGE, "how far a region's ledger time is ahead of the platform's, at most"),
    "link_refused": Metric(_COUNT, "steps of the platform's log that a region refused", ("code",)),
    "link_released": Metric(_COUNT, "rights to identities that a region released"),
    "link_removed": Metric(_COUNT, "ended assignments that a region reported as removed"),
    "link_reported": Metric(_COUNT, "workloads in reports of a region that the platform committed"),
    "link_reports": Metric(_COUNT, "reports of a region that the platform committed"),
    "link_sessions": Metric(_COUNT, "sessions that a region opened at the platform"),
    "link_settled": Metric(_COUNT, "settled grants that the platform committed"),
    "link_spoken_for": Metric(_COUNT, "times that another sender had acted for a region at the platform"),
    "link_steps": Metric(_COUNT, "steps and list parts that a region applied, or had applied before", ("kind",)),
    "link_stood_down": Metric(_COUNT, "times that a retired region stopped everything"),
    "link_summaries": Metric(_COUNT, "summaries of a region that the platform committed"),
    "link_went_back": Metric(_COUNT, "times that a region's log did not match the one acknowledged at the platform"),
    "link_words_refused": Metric(_COUNT, "messages of a region that the platform refused", ("code",)),
    "mirror_breaks": Metric(_COUNT, "ends of a mirror's stream from the leader", ("why",)),
    "mirror_differed": Metric(_COUNT, "times that a mirror's state differed from the log, and was reloaded"),
    "mirror_loads": Metric(_COUNT, "complete states loaded by a mirror"),
    "mirror_streams": Metric(_GAUGE, "mirrors that this server streams its log to"),
    "observation_restarts": Metric(_COUNT, "restarts of the observation of sessions", ("why",)),
    "proofs_failed": Metric(_COUNT, "proofs of a term that the store did not answer"),
    "reconcile_caught": Metric(_COUNT, "work that only the resync found: a change was missed", ("controller",)),
    "reconcile_depth": Metric(_GAUGE, "keys that wait for a controller", ("controller",)),
    "reconcile_errors": Metric(_COUNT, "reconciliations that failed", ("controller", "error")),
    "reconcile_failing": Metric(_GAUGE, "keys in back-off after a failure", ("controller",)),
    "reconcile_lag_ms": Metric(_GAUGE, "how long the oldest key has waited", ("controller",)),
    "reconcile_listened_anew": Metric(_COUNT, "full lists of a controller, since changes were left out"),
    "reconcile_ms": Metric(_TIME, "duration of one reconciliation", ("controller",)),
    "reconcile_patrol_depth": Metric(_GAUGE, "keys that wait for the resync", ("controller",)),
    "reconcile_refused": Metric(_COUNT, "commands of a controller that were refused", ("controller", "code")),
    "reconcile_slow": Metric(_COUNT, "reconciliations that took too long", ("controller",)),
    "reconcile_total": Metric(_COUNT, "reconciliations, by result", ("controller", "result")),
    "reporting_caught": Metric(_COUNT, "workloads, grants and summaries that only the resync found unreported"),
    "scheduler_bound": Metric(_COUNT, "slots placed by proposals, as the leader answered them", ("scheduler",)),
    "scheduler_caught": Metric(_COUNT, "nodes, requests and slots that only the resync found"),
    "scheduler_conflicts": Metric(_COUNT, "placements that the leader refused", ("code", "scheduler")),
    "scheduler_placed": Metric(_COUNT, "slots that a scheduler placed"),
    "scheduler_plugin_errors": Metric(_COUNT, "errors of plugins after a placement", ("plugin",)),
    "scheduler_preempted": Metric(_COUNT, "slots that a scheduler preempted for others", ("rule",)),
    "scheduler_proposed": Metric(_COUNT, "slots that a scheduler proposed to place"),
    "scheduler_refused": Metric(_COUNT, "slots of proposals that the ledger refused", ("code",)),
    "scheduler_reports": Metric(_COUNT, "reports of pending reasons", ("result",)),
    "scheduler_sessions": Metric(_COUNT, "sessions that a standalone scheduler opened"),
    "scheduler_shunned": Metric(_COUNT, "nodes put in quarantine because view and ledger disagreed"),
    "scheduler_unanswered": Metric(_COUNT, "proposals without an answer"),
    "scheduler_unreserved": Metric(_COUNT, "reserved slots that a plugin rejected", ("plugin",)),
    "server_tokens_announced": Metric(_COUNT, "tokens of its own that this server announced in the store"),
    "server_tokens_minted": Metric(_COUNT, "tokens that this server created for itself"),
    "servers_admitted": Metric(_COUNT, "tokens of servers that this leader admitted"),
    "servers_refused": Metric(_COUNT, "announcements of servers that this leader refused", ("code",)),
    "shipping_lists": Metric(_COUNT, "full lists made for regions"),
    "shipping_objects": Metric(_COUNT, "objects and deletions sent to regions"),
    "shipping_steps": Metric(_COUNT, "steps and parts of full lists sent to regions"),
    "shipping_streams": Metric(_GAUGE, "regions that this server ships to"),
    "shipping_unproven": Metric(_COUNT, "streams that were refused, since no signature covers their start position"),
    "snapshot_bytes": Metric(_GAUGE, "the size of the last snapshot"),
    "snapshot_ms": Metric(_TIME, "duration of writing and verifying a snapshot"),
    "snapshots": Metric(_COUNT, "snapshots that were written and verified"),
    "snapshots_damaged": Metric(_COUNT, "snapshots that were found damaged"),
    "snapshots_failed": Metric(_COUNT, "snapshots that could not be stored"),
    "state_digests": Metric(_COUNT, "state digests that were computed"),
    "state_digests_compared": Metric(_COUNT, "state digests in the log that matched"),
    "stepped_down": Metric(_COUNT, "terms of this server that ended"),
    "store_fill_changes": Metric(_COUNT, "changes of the store's space level", ("fill",)),
    "store_used_share": Metric(_GAUGE, "used share of the store"),
    "task_gave_up": Metric(_COUNT, "tasks that are not restarted, since they failed too often", ("task",)),
    "task_restarts": Metric(_COUNT, "restarts of tasks", ("task",)),
    "task_running": Metric(_GAUGE, "1 while a task is supervised", ("task",)),
    "task_will_not_stop": Metric(_COUNT, "tasks that did not end when cancelled", ("task",)),
    "trials": Metric(_COUNT, "dry runs of commands"),
    "trials_failed": Metric(_COUNT, "dry runs that failed with an internal error", ("command",)),
    "trim_floor": Metric(_GAUGE, "batch up to which the log is trimmed"),
    "watch_delivered": Metric(_COUNT, "changes delivered to subscribers"),
    "watch_overflowed": Metric(_COUNT, "subscribers that fell behind and read the log instead"),
    "watch_published": Metric(_COUNT, "events that became durable"),
    "watch_subscribers": Metric(_GAUGE, "open subscriptions"),
    "watch_touches_left_out": Metric(_COUNT, "listeners that had to list everything because too many keys changed"),
}
