"""A real platform, three real regions, the controllers of both, and a link that loses, delays, doubles and reorders.

What goes down are steps in order, each object in them as it is when the step is made; a connection that breaks takes
with it what was under way, and the next one goes on from the region's own cursor, or with a full list. What goes up
arrives in any order, once, again, late or never. All clocks are one: how far they may be apart is another matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import Reconciler, principal
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import numbers
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.reconcilers.platform.assignment import AssignmentReconciler
from holdfast.core.reconcilers.region.expiry import RightsReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.queries.assignments import has_lapsed
from holdfast.core.region.queries.workload_report import workload_report
from holdfast.core.region.state.tables import RegionState
from holdfast.host.link.region.reports import released
from tests.support.ledgers.platform import DIGEST, ROOT, PlatformBench, a_world
from tests.support.ledgers.region import LINK, SCHEDULER, RegionBench

LAWS = {"eu": "EU", "us": "US", "us2": "US"}
NAMES = tuple(LAWS)
YEAR = 365 * 86_400_000
#: So many looks of all controllers in a row may have something to say before all is said.
LOOKS_MAX = 20
#: What a release, or anything else that comes late, may be told.
LATE = (Code.ALREADY, Code.STALE, Code.NOT_FOUND, Code.NOT_OWNER, Code.WRONG_PHASE)
_FORWARD = {
    Phase.BOUND: (Phase.STARTING, "started"),
    Phase.STARTING: (Phase.RUNNING, "running"),
    Phase.RUNNING: (Phase.READY, "probe-passed"),
    Phase.READY: (Phase.SERVING, "published"),
}

#: A workload's uid and an ordinal.
Identity = tuple[int, int]


@cache
def _empty(name: str) -> tuple[RegionBench, int]:
    bench = RegionBench(checked=False, name=name)
    bench.a_scheduler()
    node = bench.a_node(cpu=10**7, memory=10**7)
    bench.a_grant(ends=bench.at + YEAR)
    bench.ship(c.ShippedRegion(name, LAWS[name]))
    return bench, node


class Region:
    """One region: its ledger, what is under way to it and from it, and which of the platform's changes it was sent."""

    def __init__(self, name: str) -> None:
        bench, self.node = _empty(name)
        self.name = name
        self.bench = bench.branch()
        self.is_cut = False
        #: Each of its assignments that changed, and the place in the platform's log.
        self.changes: list[tuple[int, int]] = []
        self.sent = self.cursor
        self.down: list[c.Ship] = []
        self.heard: list[c.Ship] = []
        self.up: list[Any] = []
        #: All that it ever said.
        self.said: list[Any] = []

    @property
    def state(self) -> RegionState:
        return self.bench.state

    @property
    def cursor(self) -> int:
        return self.bench.state.region.cursor

    def could_run(self, now: int) -> Iterator[Identity]:
        """What may have a process here, or may get one without anybody else being asked."""
        for key, slot in self.state.slots.items():
            if slot.phase is not Phase.PENDING:
                yield key
        for assignment in self.state.assignments.values():
            if assignment.stage is AssignmentStage.ACTIVE and not has_lapsed(self.state, assignment, now):
                yield from ((assignment.workload, ordinal) for ordinal in numbers(assignment.ordinals))

    # The link, down

    def cut(self) -> None:
        """The connection is gone, and what was under way with it."""
        self.is_cut = True
        self.down = []
        self.sent = self.cursor

    def ship(self, platform: Any) -> None:
        """A step with all that changed since the last one, as it is now, goes on its way."""
        names = dict.fromkeys(uid for place, uid in self.changes if place > self.sent)
        to = pack_revision(platform.info.seq, INDEX_MAX)
        if self.is_cut or not names or to <= self.sent:
            return
        live = [platform.assignments[uid] for uid in names if uid in platform.assignments]
        gone = tuple(c.RemovedObject("assignment", str(uid)) for uid in names if uid not in platform.assignments)
        self.down.append(c.Ship("log-platform", 1, self.sent, to, _puts(platform, live), gone))
        self.sent = to

    def hear(self) -> None:
        """The next step arrives."""
        if self.down:
            step = self.down.pop(0)
            self.bench.accept(LINK, step)
            self.heard.append(step)

    def hear_all(self, platform: Any) -> None:
        """Every step arrives, and one with what changed since."""
        self.ship(platform)
        while self.down:
            self.hear()

    def hear_again(self, which: int) -> None:
        """A step that came before comes once more."""
        if self.heard:
            answer = self.bench.refuse(LINK, self.heard[which % len(self.heard)])
            assert answer.code is Code.ALREADY, answer

    def hear_list(self, platform: Any) -> None:
        """The stream begins anew with all that there is."""
        to = pack_revision(platform.info.seq, INDEX_MAX)
        if self.is_cut or to <= self.cursor:
            return
        state = self.state
        known: list[c.ShippedItem] = [c.ShippedRegion(self.name, LAWS[self.name])]
        known += [c.ShippedPriorityClass(one) for one in state.priority_classes.values()]
        known += [c.ShippedPrincipal(one) for one in state.principals.values() if one.meta.created_by != "ledger"]
        grants = state.accepted_grants.values()
        known += [c.ShippedGrant(one.account, one.version, one.target, one.ends, one.protected) for one in grants]
        mine = [one for one in platform.assignments.values() if one.region == self.name]
        self.bench.accept(LINK, c.Ship("log-platform", 1, 0, to, (*known, *_puts(platform, mine)), full=True))
        assert state.region.listing is None
        self.down, self.sent = [], to

    # The link, up

    def say(self) -> None:
        """Everything that there is to say, from the region's state, goes on its way."""
        if self.is_cut:
            return
        place = pack_revision(self.state.info.seq, 0)
        known = [uid for uid, _ in self.state.assignments_of.items()]
        words = [word.command for uid in known for word in released(self.state, uid, {})]
        words.append(p.Report(self.name, place, tuple(workload_report(self.state, uid) for uid in known)))
        words.append(p.Acknowledge(self.name, f"log-{self.name}", place, self.cursor, DIGEST))
        self.up += words
        self.said += words

    def drop(self, which: int) -> None:
        """Something that was said never arrives."""
        if self.up:
            self.up.pop(which % len(self.up))

    # What happens within the region

    def control(self, *controllers: Reconciler[RegionState]) -> None:
        """The controllers look until they have nothing to say."""
        for _ in range(LOOKS_MAX):
            sent = [(one, wanted.command) for one in controllers for wanted in self._looks(one)]
            if not sent:
                return
            for one, command in sent:
                answer = self.bench.send(principal(one.name), command)
                assert isinstance(answer, Committed), (command, answer)
        raise AssertionError(f"the controllers of {self.name} do not come to rest")

    def _looks(self, controller: Reconciler[RegionState]) -> list[Any]:
        keys = list(controller.keys(self.state))
        return [wanted for key in keys for wanted in controller.reconcile(self.state, key, self.bench.at).commands]

    def work(self, *, ends: bool) -> None:
        """What waits is placed and serves, as far as it may; what must end does so only if `ends`."""
        self.control(RightsReconciler(), ReplicaReconciler())
        for slot in self.state.slots.values():
            if slot.phase is Phase.TERMINATING and ends:
                self._move(slot, Phase.RELEASED, "stopped")
        self.control(RightsReconciler(), ReplicaReconciler())
        for slot in self.state.slots.values():
            key = slot.workload, slot.ordinal
            if slot.phase is Phase.PENDING:
                group = c.PlacementGroup(slot.assignment, slot.template, (c.SlotPlacement(slot.ordinal, self.node),))
                self.bench.send(SCHEDULER, c.Propose((group,), self.bench.at + 1_000))
            while (now := self.state.slots[key]).phase in _FORWARD:
                self._move(now, *_FORWARD[now.phase])
        self.control(RightsReconciler(), ReplicaReconciler())

    def fence(self, now: int) -> None:
        """What had to end so long ago has ended, whatever its agent did."""
        fence = self.state.info.settings.fence_time
        for slot in self.state.slots.values():
            if slot.phase is Phase.TERMINATING and slot.since + fence <= now:
                self._move(slot, Phase.RELEASED, "stopped")

    def _move(self, slot: Slot, target: Phase, cause: str) -> None:
        actor = "controller/endpoints" if cause == "published" else "agent/n1"
        answer = self.bench.move(actor, target, cause, slot.ordinal, slot.workload)
        assert isinstance(answer, Committed), answer


def _puts(platform: Any, assignments: list[Assignment]) -> tuple[c.ShippedItem, ...]:
    digests = sorted({share.template for one in assignments for share in one.shares})
    templates = [c.ShippedTemplate(digest, platform.templates[digest]) for digest in digests]
    return (*templates, *map(c.ShippedAssignment, assignments))


class World:
    """The platform and its regions. Every change of it goes through `send`, which notes whom it concerns."""

    def __init__(self) -> None:
        self.bench: PlatformBench = a_world()
        self.bench.checked = False
        self.regions = {name: Region(name) for name in NAMES}
        self.bench.at = max(self.bench.at, *(one.bench.at for one in self.regions.values()))
        self._pass(0)

    @property
    def state(self) -> Any:
        return self.bench.state

    def health(self, name: str) -> RegionHealth:
        health: RegionHealth = self.state.regions[name].status.health
        return health

    def send(self, actor: str, command: Any) -> Committed | Refused:
        before = dict(self.state.assignments.items())
        self._pass(1)
        answer = self.bench.send(actor, command)
        assert isinstance(answer, Committed | Refused), answer
        after, place = dict(self.state.assignments.items()), pack_revision(self.state.info.seq, INDEX_MAX)
        for uid in {*before, *after}:
            if before.get(uid) != after.get(uid):
                region = (before.get(uid) or after[uid]).region
                self.regions[region].changes.append((place, uid))
        return answer

    def accept(self, actor: str, command: Any) -> Committed:
        answer = self.send(actor, command)
        assert isinstance(answer, Committed), (command, answer)
        return answer

    def settle(self) -> None:
        """The assignment controller looks at every workload until it has nothing to say."""
        for _ in range(LOOKS_MAX):
            keys = list(AssignmentReconciler().keys(self.state))
            sent = [
                wanted
                for key in keys
                for wanted in AssignmentReconciler().reconcile(self.state, key, self.bench.at).commands
            ]
            if not sent:
                return
            for wanted in sent:
                answer = self.send(ASSIGNMENT, wanted.command)
                # A right that has just left a lost region is no more for that region's assignment to list.
                assert isinstance(answer, Committed) or answer.code is Code.REGION_UNAVAILABLE, (wanted.command, answer)
        raise AssertionError("the assignment controller does not come to rest")

    def arrive(self, name: str, which: int, *, kept: bool) -> None:
        """Something that a region said, whichever it is, arrives; and perhaps once more later."""
        up = self.regions[name].up
        if up:
            self._arrives(name, up[which % len(up)] if kept else up.pop(which % len(up)))

    def replay(self, name: str) -> None:
        """All that a region ever said arrives once more, the newest first."""
        for said in reversed(self.regions[name].said):
            self._arrives(name, said)

    def _arrives(self, name: str, said: Any) -> None:
        answer = self.send(f"region/{name}", said)
        assert isinstance(answer, Committed) or answer.code in LATE, (said, answer)

    def exchange(self, name: str) -> None:
        """For a moment nothing is in the way: everything arrives, in both directions, in its order."""
        region = self.regions[name]
        if region.is_cut:
            return
        region.hear_all(self.state)
        region.work(ends=True)
        region.say()
        while region.up:
            self.arrive(name, 0, kept=False)

    def judge(self, name: str, health: RegionHealth) -> None:
        """Whether it is so or not, the region is held to be healthy, suspect or lost."""
        now = self.health(name)
        if now is health:
            return
        if now is RegionHealth.LOST and health is RegionHealth.HEALTHY:
            status = self.state.regions[name].status
            heard = p.Acknowledge(name, f"log-{name}", status.position + 1, status.cursor, DIGEST)
            self.accept(f"region/{name}", heard)
        if now is RegionHealth.HEALTHY and health is RegionHealth.LOST:
            self.accept(ROOT, p.DeclareLost(name, "in a test"))
        elif (now, health) != (RegionHealth.LOST, RegionHealth.SUSPECT):
            self.accept("controller/region-health", p.JudgeRegion(name, health, "in a test"))

    def attest(self, name: str) -> None:
        """A person says the truth: of what the platform thinks that a lost region has, this does not run there."""
        region = self.regions[name]
        if self.health(name) is not RegionHealth.LOST:
            return
        region.cut()
        runs = {*region.could_run(self.bench.at)}
        for (uid, ordinal), right in self.state.rights.items():
            if right.region == name and (uid, ordinal) not in runs:
                self.accept(ROOT, p.AttestRight(uid, ordinal, name, "it is down"))

    def wait(self, milliseconds: int) -> Iterator[None]:
        """Time passes, with a stop wherever a lease ends, and wherever what ran by it must have ended."""
        end, fence = self.bench.at + milliseconds, self.state.info.settings.fence_time
        told = [one.right_until for r in self.regions.values() for one in r.state.assignments.values()]
        stops = sorted({at for until in told for at in (until, until + fence) if self.bench.at < at < end} | {end})
        for at in stops:
            self._pass(at - self.bench.at)
            for region in self.regions.values():
                region.control(RightsReconciler())
                region.fence(at)
            yield

    def _pass(self, milliseconds: int) -> None:
        self.bench.later(milliseconds)
        for region in self.regions.values():
            region.bench.at = self.bench.at
