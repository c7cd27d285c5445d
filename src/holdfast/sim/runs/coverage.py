"""Swarm coverage: the events that a swarm must have produced. Faults that never happen prove nothing, even if all runs
pass.

The runs of a scenario must produce each fault that it lists and all events under its `covers`. All scenarios together
must produce `REQUIRED_EVENTS`. With fewer runs already, every gate of `gate_coverage` must act, and quotas and
disruption budgets must bind in a third of the runs. A swarm with too few runs is not judged, and its result states
that.

Events are counted per run: faults, packets, calls to stores, commands, refusals, moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.runs.gate_coverage import BUDGET_BOUND, GATES, QUOTA_BOUND, bound_counters, counters
from holdfast.sim.scenario import Scenario

_REFUSED = ("commands_refused", "scheduler_refused")

#: With fewer runs of a scenario its coverage is not judged.
RUNS_MINIMUM = 10
#: With fewer runs of all scenarios together the gates are not judged.
GATED_RUNS_MINIMUM = 50
#: A quota must bind in at least one of this many runs, and so must a disruption budget.
BOUND_ONE_IN = 3
#: Stands for the name of a scenario.
ALL = "all scenarios"
GATED = "gates"

#: By counter of a run: the events that it counts.
REQUIRED_EVENTS = {
    "network.lost": "messages that never arrived",
    "network.answers_lost": "answers that were lost after the work was done",
    "network.duplicated": "messages that arrived twice",
    "network.reordered": "messages that overtook others",
    "network.cut": "messages into a partition",
    "network.late": "answers after the timeout of the caller",
    "network.slowed": "messages that took seconds",
    "store.append_unknown": "appends with an unknown outcome",
    "store.touch_unknown": "proofs with an unknown outcome",
    "store.landed_late": "appends that were committed after an unknown outcome",
    "store.came_too_late": "late appends that lost to another append",
    "store.landed_unheard": "committed appends whose answer was lost",
    "store.cut_off": "calls to a store that could not be reached",
    "store.hung": "calls to a store that did not answer",
    "store.power_cuts": "stores that restarted",
    "terms.taken-over": "takeovers by another server",
    "meter.stepped_down": "leaders that stepped down",
    "meter.proofs_failed": "leaders whose proof failed",
    "meter.reconcile_caught": "keys that only a resync found",
    "audit.linear": "linear reads that were checked",
    "audit.listed": "lists whose objects were all checked",
    "refused.stale": "proposals from a stale view",
    "refused.no-session": "commands of machines whose session had ended",
    "refused.policy": "proposals under a policy that is not active",
    "refused.paused": "commands that an override had paused",
    "refused.wrong-phase": "moves from a phase that a slot had left",
    "grant.lowered": "grants that were lowered while a region held more",
    "breach.platform.escrow": "quotas that were lowered below their grants",
    "command.offer-back": "replicas that a region could not place and offered back",
    "command.release-rights": "identities that a region gave back",
    "command.report": "reports of regions",
    "moved.fenced": "replicas that were fenced",
    "moved.session-ended": "replicas whose agent was silent",
    "moved.found-again": "replicas whose agent came back in time",
    "moved.gone": "replicas that had ended when their agent came back",
    "moved.cannot-start": "processes that could not be started",
    "moved.exit": "processes that ended by themselves",
    "moved.over-limit": "processes that exceeded a limit",
    "moved.probe-lost": "processes that did not answer for a while",
    "moved.probe-failed": "processes that their agent ended for not answering",
    "moved.restarted": "processes that were restarted on their node",
    "stopped.not-allowed": "replicas that were evicted",
    "stopped.preempted": "replicas that were preempted",
    "stopped.grant-ended": "replicas whose emergency quota ended",
    "released.given-up": "replicas that reached the restart limit",
    "released.expired": "reservations that were not bound in time",
    "released.fenced": "slots of replicas that were fenced",
    "released.stopped": "slots of replicas that were stopped",
    "released.withdrawn": "slots that were no longer wanted",
    "region.suspect": "regions that were silent",
    "region.lost": "regions that were marked lost",
    "region.healthy": "regions that came back",
    "watch.skipped": "changes that a controller did not receive",
    "watch.repeated": "changes that a controller received twice",
    "watch.stale": "changes that a controller received late",
}


class MissedEvent(Struct, frozen=True):
    """An event that never happened in all runs of a scenario, or in all runs."""

    scenario: str
    counter: str
    stands_for: str


class Coverage(Struct, frozen=True):
    """Missed events, and the scenarios that were not judged, with the reasons."""

    missed: tuple[MissedEvent, ...]
    unjudged: dict[str, str]


def assess_coverage(
    played: Mapping[str, Scenario], runs: Mapping[str, int], counts: Mapping[str, dict[str, int]]
) -> Coverage:
    """Judge the coverage by the number of runs and the summed counters of each scenario."""
    unjudged = {
        name: f"{runs.get(name, 0)} runs, at least {RUNS_MINIMUM} required"
        for name in played
        if runs.get(name, 0) < RUNS_MINIMUM
    }
    missed = [
        MissedEvent(name, counter, "a fault" if counter.startswith("fault.") else "the subject of this scenario")
        for name, scenario in played.items()
        if name not in unjudged
        for counter in required_counters(scenario)
        if not counts[name].get(counter)
    ]
    everything = sum_counts(counts.values())
    total = sum(runs.values())
    if len(played) > 1 and total >= GATED_RUNS_MINIMUM:
        missed += [*_shut_gates(everything), *_unbound(everything, total)]
    else:
        unjudged[GATED] = f"judged only in a swarm of several scenarios with at least {GATED_RUNS_MINIMUM} runs"
    if any(name in unjudged for name in played) or len(played) == 1:
        unjudged[ALL] = f"judged only in a swarm of several scenarios with at least {RUNS_MINIMUM} runs of each"
    else:
        missed += [MissedEvent(ALL, name, meant) for name, meant in REQUIRED_EVENTS.items() if not everything.get(name)]
    return Coverage(tuple(missed), unjudged)


def _shut_gates(counts: Mapping[str, int]) -> Iterator[MissedEvent]:
    """Yield gates that never acted."""
    for code, keeps in GATES.items():
        if not any(counts.get(name) for name in counters(code)):
            yield MissedEvent(ALL, f"gate.{code.value}", keeps)


def _unbound(counts: Mapping[str, int], runs: int) -> Iterator[MissedEvent]:
    """Yield whether a quota or a disruption budget was binding in too few runs."""
    for name, what in ((QUOTA_BOUND, "a quota"), (BUDGET_BOUND, "a disruption budget")):
        found = counts.get(name, 0)
        if found * BOUND_ONE_IN < runs:
            yield MissedEvent(
                ALL, name, f"{what} bound in {found} of {runs} runs, at least one in {BOUND_ONE_IN} required"
            )


def required_counters(scenario: Scenario) -> list[str]:
    """Return the counters that a scenario's runs must have increased, without duplicates."""
    return list(dict.fromkeys(_listed(scenario)))


def _listed(scenario: Scenario) -> Iterator[str]:
    yield from (f"fault.{one.what}" for one in scenario.faults.planned)
    yield from (f"fault.{what}" for what, weight in scenario.faults.kinds.items() if weight)
    yield from scenario.covers


def sum_counts(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Return the summed counters of many runs, with those that follow from several counters."""
    found: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    # A log begins with its first term, so each further term is a takeover.
    found["terms.taken-over"] = found.get("command.start-term", 0) - found.get("command.start-log", 0)
    return dict(sorted(found.items()))


def count_events(scene: SimulatedCluster, faults: dict[str, int]) -> dict[str, int]:
    """Return all counters of a run, by name."""
    found: dict[str, int] = {}

    def add(name: str, count: int) -> None:
        found[name] = found.get(name, 0) + count

    for what, count in faults.items():
        add(f"fault.{what}", count)
    for what, count in scene.world.network.tally.items():
        add(f"network.{what}", count)
    for store in scene.world.stores.values():
        for what, count in store.happened.items():
            add(f"store.{what}", count)
    for audit in scene.audits.values():
        for what, count in audit.counts.items():
            add(f"audit.{what}", count)
    for what, count in (*scene.servers.heard.items(), *scene.chronicle.counts().items(), *scene.acted.items()):
        add(what, count)
    for metrics in scene.servers.metrics:
        for (name, labels), count in metrics.counts.items():
            # Refused parts of an accepted proposal are counted only by its scheduler.
            add(f"refused.{dict(labels)['code']}" if name in _REFUSED else f"meter.{name}", count)
    return dict(sorted({**found, **bound_counters(found)}.items()))
