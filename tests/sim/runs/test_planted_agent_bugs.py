"""A test of the tester: bugs planted in agents and guards are found by what the nodes really run.

Each is one that the rules forbid, and exists in this file only. It is found in a world with one kind of trouble, which
is clean without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from holdfast.core.agent import plan
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.host.protocol.commands import Renewed
from holdfast.host.protocol.session_client import SessionClient
from holdfast.replay.recording import PlannedAction, PlannedFault, RunPlan
from holdfast.sim.actors import process_behavior
from holdfast.sim.runs.run import RunReport, RunVerdicts, run
from holdfast.sim.scenario import parse

SCENARIO = """
name: planted
says: One kind of trouble in a world that is otherwise well.
workloads:
  billing-db: {replicas: 8, exclusive: true}
least: {commands: 1, acknowledged: 1, faults: 0, refused: 0}
"""
SECOND = 1_000
ONE_USER = """
name: planted
says: Nodes on which all runs as one user, and two tenants that come and go.
topology:
  regions:
    eu: {nodes: 3, oneUser: 3}
workloads:
  risk-api: {replicas: 2}
  search: {tenant: data, replicas: 2}
least: {commands: 1, acknowledged: 1, faults: 0, refused: 0}
"""


def guard_is_late(patch: pytest.MonkeyPatch) -> None:
    """RULES 4: a guard ends what it holds a minute after its deadline."""
    patch.setattr(process_behavior, "LATE_MS", 60 * SECOND)


def lease_extended_unheard(patch: pytest.MonkeyPatch) -> None:
    """RULES 3: an agent gives its guards another lease with every heartbeat, whether anybody answered it or not."""
    renew = SessionClient.renew

    async def always(self: SessionClient) -> Renewed | None:
        renewed = await renew(self)
        return Renewed(DEFAULTS.session_lease, 1 << 30, "", 0) if renewed is None else renewed

    patch.setattr(SessionClient, "renew", always)


def stopped_before_it_ended(patch: pytest.MonkeyPatch) -> None:
    """An agent says that a process has ended when it has asked it to."""
    terminate = plan._Slot._terminate

    def early(self: Any) -> None:
        if self._run is not None and self._run.here is ProcessState.STOPPING:
            self._move(Phase.RELEASED, "stopped")
        else:
            terminate(self)

    patch.setattr(plan._Slot, "_terminate", early)


class Planted(NamedTuple):
    """A bug, and the trouble that brings it out."""

    plant: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[PlannedFault, ...] = ()
    acts: tuple[PlannedAction, ...] = ()


KILLED = tuple(PlannedFault(30 * SECOND, "crash", f"eu-n{number}", 70 * SECOND) for number in (1, 3))
CUT_OFF = tuple(PlannedFault(30 * SECOND, "isolate", f"eu-n{number}", 70 * SECOND) for number in (1, 3))
ROLLS = tuple(PlannedAction((20 + 10 * number) * SECOND, "roll", number) for number in range(4))

PLANTED = {
    "a guard is late": Planted(guard_is_late, KILLED),
    "a lease is extended unheard": Planted(lease_extended_unheard, CUT_OFF),
    "a stop is told before the end": Planted(stopped_before_it_ended, acts=ROLLS),
}


def played(bug: str) -> RunReport:
    _, faults, acts = PLANTED[bug]
    return run(parse(SCENARIO, "in a test"), 1, RunPlan(110 * SECOND, faults, acts))


@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_planted_in_agents_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug].plant(monkeypatch)
    assert {finding.promise for finding in played(bug).findings} == {"one-live-process"}


@pytest.mark.parametrize("bug", PLANTED)
def test_the_same_trouble_is_clean_without_it(bug: str) -> None:
    report = played(bug)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)


def test_two_tenants_that_meet_where_all_runs_as_one_user_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent says that a process has ended when it has asked it to: the ledger is right to give the node to another
    tenant, and only the machine knows that what the first one had still lives there."""
    scenario = parse(ONE_USER, "in a test")
    acts = tuple(PlannedAction((15 + 5 * number) * SECOND, "recreate", number) for number in range(12))
    clean = run(scenario, 1, RunPlan(110 * SECOND, (), acts))
    assert clean.verdicts.safety == "held", clean.findings
    stopped_before_it_ended(monkeypatch)
    found = run(scenario, 1, RunPlan(110 * SECOND, (), acts))
    assert {one.promise for one in found.findings} == {"one-tenant"}, found.findings
