"""Every metric of a host: its kind, its labels, and what it counts. The reference is written from this table.

A name that is not here is not counted: a test compares the table with the code.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class MetricKind(StrEnum):
    """How a metric moves: only up, anywhere, or as a distribution of milliseconds."""

    COUNT = "count"
    GAUGE = "gauge"
    TIME = "time"


class Metric(Struct, frozen=True):
    """One metric."""

    kind: MetricKind
    sentence: str
    labels: tuple[str, ...] = ()


_COUNT, _GAUGE, _TIME = MetricKind.COUNT, MetricKind.GAUGE, MetricKind.TIME

METRICS: dict[str, Metric] = {
    "agent_caught": Metric(_COUNT, "looks of an agent that found something to do, and nobody had said so"),
    "agent_moves": Metric(_COUNT, "edges that an agent moved its slots along", ("target",)),
    "agent_probes": Metric(_COUNT, "questions of probes", ("which", "result")),
    "agent_refused": Metric(_COUNT, "moves of an agent that the ledger refused", ("code",)),
    "agent_sessions": Metric(_COUNT, "sessions that an agent has opened"),
    "agent_sessions_over": Metric(_COUNT, "sessions of an agent that the ledger ended"),
    "agent_starts": Metric(_COUNT, "processes that an agent started, or why it could not", ("result",)),
    "agent_stops": Metric(_COUNT, "processes that an agent asked to end"),
    "agent_streams_broken": Metric(_COUNT, "streams of what stands on a node that broke"),
    "append_unknown": Metric(_COUNT, "appends that the store did not answer plainly, and that were repeated"),
    "batches": Metric(_COUNT, "batches that this leader landed"),
    "bindings_streams": Metric(_GAUGE, "agents that this server tells what stands on their nodes"),
    "bindings_told": Metric(_COUNT, "times that an agent was told what stands on its node"),
    "commands": Metric(_COUNT, "commands that this leader answered"),
    "commands_failed": Metric(_COUNT, "commands set aside because judging them failed", ("command",)),
    "commands_refused": Metric(_COUNT, "commands refused", ("code",)),
    "commit_ms": Metric(_TIME, "from handing a batch to the store to its answer"),
    "audit_begun_anew": Metric(_COUNT, "times that the audit was read from the log anew"),
    "audit_behind": Metric(_GAUGE, "batches in the log that the audit has not read yet"),
    "audit_bytes": Metric(_GAUGE, "the room that the audit takes"),
    "audit_failed": Metric(_COUNT, "times that the audit could not be kept, and was tried again"),
    "audit_kept": Metric(_COUNT, "entries of the audit that were kept"),
    "decisions_begun_anew": Metric(_COUNT, "times that decisions were read from the log anew"),
    "decisions_behind": Metric(_GAUGE, "batches in the log of which the decisions were not read yet"),
    "decisions_bytes": Metric(_GAUGE, "the room that kept decisions take"),
    "decisions_failed": Metric(_COUNT, "times that decisions could not be kept, and were tried again"),
    "decisions_kept": Metric(_COUNT, "decisions that were kept"),
    "denials": Metric(_COUNT, "requests that were denied to whoever asked", ("code",)),
    "denials_recorded": Metric(_COUNT, "denials that this leader put on record"),
    "endpoints_asked": Metric(_COUNT, "questions to endpoints, by whether they were answered", ("result",)),
    "endpoints_caught": Metric(_COUNT, "endpoints that only the patrol noticed: a change was missed"),
    "endpoints_published": Metric(_COUNT, "replicas that answered, or cannot be asked, and were to serve"),
    "endpoints_withdrawn": Metric(_COUNT, "replicas that answered no more, and were to serve no more"),
    "endpoints_withheld": Metric(_COUNT, "replicas that were not withdrawn because most others did not answer either"),
    "expired_reservations": Metric(_COUNT, "reservations of slots and of room that ended by ledger time"),
    "expiry_caught": Metric(_COUNT, "reservations that only a listing of everything noticed: a change was missed"),
    "follower_behind": Metric(_GAUGE, "batches in the log that this follower has not folded yet"),
    "follower_reads_failed": Metric(_COUNT, "readings of the log that failed"),
    "leading_term": Metric(_GAUGE, "the term that this server led last"),
    "link_acknowledged": Metric(_COUNT, "acknowledgements of a region that the platform logged"),
    "link_breaks": Metric(_COUNT, "ends of a region's stream from the platform", ("why",)),
    "link_forgotten": Metric(_COUNT, "ended assignments that a region forgot because the platform does not know them"),
    "link_objects": Metric(_COUNT, "objects in the steps that a region applied"),
    "link_offered_back": Metric(_COUNT, "replicas that a region offered back for want of room"),
    "link_offset_ms": Metric(_GAUGE, "how far a region's ledger time is ahead of the platform's, at most"),
    "link_refused": Metric(_COUNT, "steps of the platform's log that a region refused", ("code",)),
    "link_released": Metric(_COUNT, "rights to identities that a region gave back"),
    "link_removed": Metric(_COUNT, "ended assignments of which a region said that nothing is left"),
    "link_reported": Metric(_COUNT, "workloads in the reports of a region that the platform logged"),
    "link_reports": Metric(_COUNT, "reports of a region that the platform logged"),
    "link_sessions": Metric(_COUNT, "sessions in which a region joined at the platform"),
    "link_settled": Metric(_COUNT, "settled grants that the platform logged"),
    "link_spoken_for": Metric(_COUNT, "times that a region found that somebody else had spoken for it at the platform"),
    "link_steps": Metric(_COUNT, "steps, and parts of lists, that a region applied or had applied", ("kind",)),
    "link_stood_down": Metric(_COUNT, "times that a region ended everything because it is retired"),
    "link_summaries": Metric(_COUNT, "summaries of a region that the platform logged"),
    "link_went_back": Metric(_COUNT, "times that a region's log was not the one that the platform knows"),
    "link_words_refused": Metric(_COUNT, "what a region said and the platform refused", ("code",)),
    "mirror_breaks": Metric(_COUNT, "ends of a mirror's stream from the leader", ("why",)),
    "mirror_differed": Metric(_COUNT, "times that a mirror's state differed from the log, and was loaded anew"),
    "mirror_loads": Metric(_COUNT, "times that a mirror was given the whole state"),
    "mirror_streams": Metric(_GAUGE, "mirrors that this server tells its log"),
    "observation_restarts": Metric(_COUNT, "times that listening to sessions began anew", ("why",)),
    "proofs_failed": Metric(_COUNT, "questions whether a term still stands that the store did not answer"),
    "reconcile_caught": Metric(_COUNT, "work that only the resync noticed: a wake-up was missed", ("controller",)),
    "reconcile_depth": Metric(_GAUGE, "keys that wait for a controller", ("controller",)),
    "reconcile_errors": Metric(_COUNT, "looks that failed", ("controller", "error")),
    "reconcile_failing": Metric(_GAUGE, "keys that are not well", ("controller",)),
    "reconcile_lag_ms": Metric(_GAUGE, "how long the oldest key has waited", ("controller",)),
    "reconcile_listened_anew": Metric(_COUNT, "times that changes were left out and everything was listed"),
    "reconcile_ms": Metric(_TIME, "one look of a controller", ("controller",)),
    "reconcile_patrol_depth": Metric(_GAUGE, "keys that wait for the resync", ("controller",)),
    "reconcile_refused": Metric(_COUNT, "commands of a controller that were refused", ("controller", "code")),
    "reconcile_slow": Metric(_COUNT, "looks that took too long", ("controller",)),
    "reconcile_total": Metric(_COUNT, "looks, by what came of them", ("controller", "result")),
    "reporting_caught": Metric(
        _COUNT, "workloads, grants and summaries of which only the resync noticed that the platform was not told"
    ),
    "scheduler_caught": Metric(
        _COUNT, "nodes, requests and slots to place that only the resync noticed: a change was missed"
    ),
    "scheduler_placed": Metric(_COUNT, "slots that a scheduler placed"),
    "scheduler_plugin_errors": Metric(_COUNT, "errors of plugins after a placement", ("plugin",)),
    "scheduler_proposed": Metric(_COUNT, "slots that a scheduler proposed to place"),
    "scheduler_refused": Metric(_COUNT, "slots of proposals that the ledger refused", ("code",)),
    "scheduler_reports": Metric(_COUNT, "reports of why requests wait", ("result",)),
    "scheduler_sessions": Metric(_COUNT, "sessions that a scheduler apart from its region has opened"),
    "scheduler_shunned": Metric(_COUNT, "nodes left alone because view and ledger did not agree"),
    "scheduler_unanswered": Metric(_COUNT, "proposals that nobody answered"),
    "scheduler_unreserved": Metric(_COUNT, "reserved slots to which a plugin said no", ("plugin",)),
    "server_tokens_announced": Metric(_COUNT, "times that this server announced a token of its own in the store"),
    "server_tokens_minted": Metric(_COUNT, "tokens that this server made for itself"),
    "servers_admitted": Metric(_COUNT, "tokens of servers that this leader put into the log"),
    "servers_refused": Metric(_COUNT, "announcements of servers that this leader did not take", ("code",)),
    "shipping_lists": Metric(_COUNT, "full lists made for regions"),
    "shipping_objects": Metric(_COUNT, "objects, and ends of objects, sent to regions"),
    "shipping_steps": Metric(_COUNT, "steps and parts of full lists sent to regions"),
    "shipping_streams": Metric(_GAUGE, "regions that this server ships to"),
    "shipping_unproven": Metric(
        _COUNT, "streams that were refused: they were to go on from a place that nobody has signed"
    ),
    "snapshot_bytes": Metric(_GAUGE, "the size of the last snapshot"),
    "snapshot_ms": Metric(_TIME, "writing and verifying a snapshot"),
    "snapshots": Metric(_COUNT, "snapshots that were verified and count"),
    "snapshots_damaged": Metric(_COUNT, "snapshots that were found damaged"),
    "snapshots_failed": Metric(_COUNT, "snapshots that the store could not keep"),
    "state_digests": Metric(_COUNT, "digests of the state that were taken"),
    "state_digests_compared": Metric(_COUNT, "digests that were found in the log and agreed"),
    "stepped_down": Metric(_COUNT, "terms of this server that ended"),
    "store_fill_changes": Metric(_COUNT, "times that the store became fuller or emptier by a level", ("fill",)),
    "store_used_share": Metric(_GAUGE, "the used part of the store"),
    "task_gave_up": Metric(_COUNT, "tasks that failed too often", ("task",)),
    "task_restarts": Metric(_COUNT, "tasks that were started again", ("task",)),
    "task_running": Metric(_GAUGE, "1 while a task is kept going", ("task",)),
    "task_will_not_stop": Metric(_COUNT, "tasks that did not end when they were asked to", ("task",)),
    "trials": Metric(_COUNT, "commands that were tried out"),
    "trials_failed": Metric(_COUNT, "commands that were tried out and could not be judged", ("command",)),
    "trim_floor": Metric(_GAUGE, "the batch up to which the log was trimmed"),
    "watch_delivered": Metric(_COUNT, "changes handed to subscribers"),
    "watch_overflowed": Metric(_COUNT, "subscribers that fell behind and read the log instead"),
    "watch_published": Metric(_COUNT, "events that became durable"),
    "watch_subscribers": Metric(_GAUGE, "open subscriptions"),
    "watch_touches_left_out": Metric(_COUNT, "listeners told to list everything because too much was touched"),
}
