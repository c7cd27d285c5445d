"""What a swarm must have met: faults that never happened prove nothing, however green the runs are.

A scenario must have met each fault that it lists and everything under its `covers`, in its own runs. All scenarios
together must have met what stands in `REQUIRED_EVENTS`, and, with fewer runs already, have seen every gate of `gates`
act and quotas and disruption budgets bind in a third of the runs. Of a few runs nothing can be asked: they are not
judged, and the swarm says so.

What happened in a run, counted: faults, packets, calls to stores, commands, refusals, moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from holdfast.sim.cluster.cluster import SimulatedCluster
from holdfast.sim.runs.gate_coverage import BUDGET_BOUND, GATES, QUOTA_BOUND, bound_counters, counters
from holdfast.sim.scenario import Scenario

_REFUSED = ("commands_refused", "scheduler_refused")


#: With fewer runs of a scenario, what it did not meet says nothing.
RUNS_MINIMUM = 10
#: With fewer runs of all scenarios together, a gate that never acted says nothing.
GATED_RUNS_MINIMUM = 50
#: Of all runs, one in so many must have had a quota, and one a disruption budget, that kept something waiting.
BOUND_ONE_IN = 3
#: In place of a scenario's name.
ALL = "all scenarios"
GATED = "gates"

#: By the counters of a run, and what each stands for.
REQUIRED_EVENTS = {
    "network.lost": "messages that never arrived",
    "network.answers_lost": "answers that never arrived though it was done",
    "network.duplicated": "messages that arrived twice",
    "network.reordered": "messages that overtook others",
    "network.cut": "messages into a partition",
    "network.late": "answers to whoever had given up",
    "network.slowed": "messages that took seconds",
    "store.append_unknown": "appends of which the server did not learn what became",
    "store.touch_unknown": "proofs of leading of which the server did not learn what became",
    "store.landed_late": "appends that landed after the server was told so little",
    "store.came_too_late": "appends that were refused then, for somebody else was faster",
    "store.landed_unheard": "appends that landed and whose answer was lost",
    "store.cut_off": "calls to a store that could not be reached",
    "store.hung": "calls to a store that did not answer",
    "store.power_cuts": "stores that started anew",
    "terms.taken-over": "servers that led after another one",
    "meter.stepped_down": "leaders that found out that they lead no more",
    "meter.proofs_failed": "leaders that could not show that they lead",
    "meter.reconcile_caught": "keys that only a resync found",
    "audit.linear": "linear reads that were judged",
    "audit.listed": "lists of which every object was judged",
    "refused.stale": "proposals from a view that was too old",
    "refused.no-session": "commands of machines whose session had ended",
    "refused.policy": "proposals under a policy that is not active",
    "refused.paused": "commands that somebody had paused",
    "refused.wrong-phase": "moves from a phase that a slot had left",
    "grant.lowered": "slices that were called back while a region held more",
    "breach.platform.escrow": "quotas that were lowered below what was lent",
    "command.offer-back": "replicas that a region could not place and offered back",
    "command.release-rights": "identities that a region gave back",
    "command.report": "words of regions about themselves",
    "moved.fenced": "replicas that were fenced",
    "moved.session-ended": "replicas whose agent was not heard of",
    "moved.found-again": "replicas whose agent came back in time",
    "moved.gone": "replicas that were gone when their agent came back",
    "moved.cannot-start": "processes that could not be started",
    "moved.exit": "processes that ended by themselves",
    "moved.over-limit": "processes that took more than they may",
    "moved.probe-lost": "processes that did not answer for a while",
    "moved.probe-failed": "processes that did not answer for so long that their agent ended them",
    "moved.restarted": "processes that were started again where they stood",
    "stopped.not-allowed": "replicas that were evicted",
    "stopped.grant-ended": "replicas whose emergency quota ended",
    "released.given-up": "replicas that an agent started again as often as it may",
    "released.expired": "reservations that nobody bound in time",
    "released.fenced": "slots of replicas that were fenced",
    "released.stopped": "slots of replicas that were stopped",
    "released.withdrawn": "slots that were wanted no more",
    "region.suspect": "regions that were not heard of",
    "region.lost": "regions that were given up",
    "region.healthy": "regions that came back",
    "watch.skipped": "changes that a controller was not told of",
    "watch.repeated": "changes that a controller was told of twice",
    "watch.stale": "changes that a controller was told of late",
}


class MissedEvent(Struct, frozen=True):
    """Something that never happened in all the runs of a scenario, or in all runs."""

    scenario: str
    counter: str
    stands_for: str


class Coverage(Struct, frozen=True):
    """What was missed, and of which scenarios that cannot be said, and why."""

    missed: tuple[MissedEvent, ...]
    unjudged: dict[str, str]


def assess_coverage(
    played: Mapping[str, Scenario], runs: Mapping[str, int], counts: Mapping[str, dict[str, int]]
) -> Coverage:
    """By scenario: how many runs there were of it, and what they counted together."""
    unjudged = {
        name: f"{runs.get(name, 0)} runs, and {RUNS_MINIMUM} are the least"
        for name in played
        if runs.get(name, 0) < RUNS_MINIMUM
    }
    missed = [
        MissedEvent(name, counter, "a fault" if counter.startswith("fault.") else "what this scenario is about")
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
        unjudged[GATED] = f"asked only of a swarm of several scenarios with at least {GATED_RUNS_MINIMUM} runs"
    if any(name in unjudged for name in played) or len(played) == 1:
        unjudged[ALL] = f"asked only of a swarm of several scenarios with at least {RUNS_MINIMUM} runs of each"
    else:
        missed += [MissedEvent(ALL, name, meant) for name, meant in REQUIRED_EVENTS.items() if not everything.get(name)]
    return Coverage(tuple(missed), unjudged)


def _shut_gates(counts: Mapping[str, int]) -> Iterator[MissedEvent]:
    """Gates that never acted."""
    for code, keeps in GATES.items():
        if not any(counts.get(name) for name in counters(code)):
            yield MissedEvent(ALL, f"gate.{code.value}", keeps)


def _unbound(counts: Mapping[str, int], runs: int) -> Iterator[MissedEvent]:
    """Quotas and budgets that kept something waiting in too few runs."""
    for name, what in ((QUOTA_BOUND, "a quota"), (BUDGET_BOUND, "a disruption budget")):
        found = counts.get(name, 0)
        if found * BOUND_ONE_IN < runs:
            yield MissedEvent(
                ALL, name, f"{what} bound in {found} of {runs} runs, and one in {BOUND_ONE_IN} is the least"
            )


def required_counters(scenario: Scenario) -> list[str]:
    """The counters that a scenario's runs must have moved, each once."""
    return list(dict.fromkeys(_listed(scenario)))


def _listed(scenario: Scenario) -> Iterator[str]:
    yield from (f"fault.{one.what}" for one in scenario.faults.planned)
    yield from (f"fault.{what}" for what, weight in scenario.faults.kinds.items() if weight)
    yield from scenario.covers


def sum_counts(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    """The counts of many runs as those of one, with what can be told only from several counters."""
    found: dict[str, int] = {}
    for one in counts:
        for name, count in one.items():
            found[name] = found.get(name, 0) + count
    # The first term of a ledger begins with its log: each one more is a take-over.
    found["terms.taken-over"] = found.get("command.start-term", 0) - found.get("command.start-log", 0)
    return dict(sorted(found.items()))


def count_events(scene: SimulatedCluster, faults: dict[str, int]) -> dict[str, int]:
    """How often everything happened, by name: what coverage is judged by."""
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
            # Of a proposal that is accepted otherwise only its scheduler counts what was refused.
            add(f"refused.{dict(labels)['code']}" if name in _REFUSED else f"meter.{name}", count)
    return dict(sorted({**found, **bound_counters(found)}.items()))
