"""What regions have charged is within what they were lent, and together within the quota, at every step of the way.

A real platform with its grant controller, three real regions, and a network between them that delays, doubles, reorders
and drops: steps of the platform's stream arrive late, twice, or not in their turn, and so do acknowledgements and
reports. Quotas, demand and what runs change at any moment; regions fall silent and come back; the platform is restored
to an older state, in a new log. When all is quiet again and everything has arrived, every region has what it is asked
for, as far as there is so much.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.breaches import PLATFORM_ESCROW
from holdfast.core.model.records.grants import Grant, grant_key
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import RegionSummary
from holdfast.core.model.values.resources import ZERO, Resources, amount_of, elementwise_max, first_exceeded, total
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT, GRANT, REGION_HEALTH
from holdfast.core.platform.queries.accounts import quota_demand
from holdfast.core.reconcilers.platform.grant import GrantReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.accounts import charged
from tests.support.ledgers.platform import DIGEST, PlatformBench, a_quota, a_workload, a_world
from tests.support.ledgers.region import LINK, REPLICA, SCHEDULER, RegionBench, a_template

ACCOUNT = "quota/acme"
NAMES = ("eu", "us", "us2")
REGIONS = st.sampled_from(NAMES)
NEED = Resources(cpu=1_000, memory=500)
RESOURCES = ("cpu", "memory")
FEW = st.integers(0, 12)
#: More slots than a program has steps in which it places some.
SLOTS = 400
#: Whether the controller looks before each region has its list, and between that and its first word.
LOOKS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=3, max_size=3)


@cache
def _regional() -> tuple[RegionBench, int, Assignment]:
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    node = bench.a_node(cpu=10**7, memory=10**7)
    return bench, node, bench.a_workload(a_template(NEED.cpu, NEED.memory), count=SLOTS)


class Place:
    """One region: its ledger, the stream that it is to get, and what of it has been said and not arrived."""

    def __init__(self) -> None:
        bench, self.node, self.work = _regional()
        self.bench = bench.branch()
        self.first = bench.state.region.cursor
        #: Every version of its grant, in the order of the platform's log.
        self.stream: list[c.ShippedGrant] = []
        self.flight: list[Any] = []
        self.placed: list[int] = []
        self.next = 0
        self.log_id = "log-platform"

    @property
    def state(self) -> Any:
        return self.bench.state

    @property
    def arrived(self) -> int:
        return int(self.state.region.cursor) - self.first

    def uses(self) -> Resources:
        return charged(self.state, ACCOUNT)

    def hear(self, step: int) -> None:
        """A step of the stream arrives, whether or not its turn has come."""
        after, turn = self.first + step, self.arrived
        answer = self.bench.send(LINK, c.Ship(self.log_id, 1, after, after + 1, (self.stream[step],)))
        if step == turn:
            assert isinstance(answer, Committed), answer
        else:
            assert isinstance(answer, Refused), answer
            assert answer.code is (Code.ALREADY if step < turn else Code.GAP), answer

    def say(self) -> None:
        """An acknowledgement, from the region's log, goes on its way."""
        known = self.state.accepted_grants.get(ACCOUNT)
        if known is not None:
            settled, position = elementwise_max(known.target, self.uses()), pack_revision(self.state.info.seq, 0)
            self.flight.append(p.AcknowledgeGrant(ACCOUNT, known.version, settled, position))

    def begin_anew(self, log_id: str, grant: Grant | None) -> None:
        """Another log of the platform ships from now on: at first, what its newest state has."""
        self.log_id, self.stream, self.flight = log_id, [], []
        if grant is not None:
            self.ship(grant)

    def ship(self, grant: Grant) -> None:
        self.stream.append(c.ShippedGrant(ACCOUNT, grant.version, grant.target, grant.ends, grant.protected))

    def place(self, count: int) -> None:
        for _ in range(count):
            ordinal = self.next
            if ordinal == SLOTS:
                return
            asked = self.bench.proposal(self.work, c.SlotPlacement(ordinal, self.node))
            answer = self.bench.send(SCHEDULER, asked)
            if isinstance(answer, Refused):
                assert answer.code in (Code.OVER_GRANT, Code.GRANT_ENDED), answer
                return
            self.placed.append(ordinal)
            self.next += 1

    def release(self, count: int) -> None:
        for ordinal in [self.placed.pop() for _ in range(min(count, len(self.placed)))]:
            self.bench.accept(REPLICA, c.Stop(((1, ordinal),), "scaled-down"))
            answer = self.bench.move("agent/n1", Phase.RELEASED, "stopped", ordinal)
            assert isinstance(answer, Committed), answer


class Between(RuleBasedStateMachine):
    """A platform, three regions, and what can go wrong between them."""

    @initialize(cpus=FEW, memory=FEW)
    def begin(self, cpus: int, memory: int) -> None:
        self.bench: PlatformBench = a_world()
        self.bench.checked = False
        template = a_template(NEED.cpu, NEED.memory)
        self.work = self.bench.put(a_workload(template=template, replicas=100))
        self.places = {name: Place() for name in NAMES}
        self.hard = Resources(cpu=-1)
        self.restores = 0
        self.quota(cpus, memory)
        self.back_up()

    # What people and controllers do

    @rule(cpus=FEW, memory=FEW)
    def quota(self, cpus: int, memory: int) -> None:
        hard = Resources(cpu=cpus * NEED.cpu, memory=memory * NEED.memory)
        if hard != self.hard:
            self.bench.put(a_quota("acme", hard, protected=replace(hard, cpu=hard.cpu // 2, memory=0)))
            self.hard = hard

    @rule(name=REGIONS, count=FEW)
    def ask(self, name: str, count: int) -> None:
        """So many replicas are assigned there, if the region takes any."""
        answer = self.bench.send(ASSIGNMENT, self.bench.assignment(self.work, name, count))
        if isinstance(answer, Refused):
            assert answer.code in (Code.ALREADY, Code.REGION_UNAVAILABLE), answer

    @rule(name=REGIONS)
    def ask_for_the_rest(self, name: str) -> None:
        """All that the others are not asked for, to the last unit of the quota."""
        others = total(quota_demand(self.bench.state, "acme", other) for other in NAMES if other != name)
        left = [(amount_of(self.hard, one) - amount_of(others, one)) // amount_of(NEED, one) for one in RESOURCES]
        self.ask(name, max(0, *left) if min(left) < 0 else min(left))

    @rule()
    def control(self) -> None:
        self.look()

    def look(self) -> int:
        """The controller looks. Whatever it offers is accepted, and goes into the stream of its region."""
        self.bench.later(1)
        sent = GrantReconciler().reconcile(self.bench.state, ACCOUNT, self.bench.at).commands
        for wanted in sent:
            answer = self.bench.send(GRANT, wanted.command)
            assert isinstance(answer, Committed), (wanted.command, answer)
            self.places[wanted.command.region].ship(self.bench.grant(wanted.command.region))
        return len(sent)

    @rule(hours=st.integers(1, 20))
    def wait(self, hours: int) -> None:
        self.bench.later(hours * 3_600_000)
        for place in self.places.values():
            place.bench.at = self.bench.at

    # What regions do

    @rule(name=REGIONS, count=FEW)
    def place(self, name: str, count: int) -> None:
        self.places[name].place(count)

    @rule(name=REGIONS, count=FEW)
    def release(self, name: str, count: int) -> None:
        self.places[name].release(count)

    @rule(name=REGIONS)
    def say(self, name: str) -> None:
        self.places[name].say()

    @rule(name=REGIONS)
    def report(self, name: str) -> None:
        """What the region uses, as of now; how late it arrives is another matter."""
        place = self.places[name]
        uses = place.uses()
        summary = RegionSummary(uses=((ACCOUNT, uses),) if uses != ZERO else ())
        place.flight.append(p.Report(name, place.state.info.seq, summary=summary))

    # What the network does

    @rule(name=REGIONS)
    def next_step(self, name: str) -> None:
        place = self.places[name]
        if place.arrived < len(place.stream):
            place.hear(place.arrived)

    @rule(name=REGIONS)
    def exchange(self, name: str) -> None:
        """For a moment nothing is in the way: everything arrives, in both directions."""
        place = self.places[name]
        while place.arrived < len(place.stream):
            place.hear(place.arrived)
        self.report(name)
        place.say()
        while place.flight:
            self.arrive(name, 0, kept=False)

    @rule(name=REGIONS, which=st.integers(0, 99))
    def any_step(self, name: str, which: int) -> None:
        """One that was dropped before, or comes again, or too early."""
        place = self.places[name]
        if place.stream:
            place.hear(which % len(place.stream))

    @rule(name=REGIONS)
    def full_list(self, name: str) -> None:
        """The link begins anew: all that there is now, at the newest place of the stream."""
        place = self.places[name]
        known: list[c.ShippedItem] = [c.ShippedTemplate(*row) for row in place.state.templates.items()]
        known += [
            c.ShippedAssignment(place.work),
            *(c.ShippedPriorityClass(one) for one in place.state.priority_classes.values()),
        ]
        shown = [one for one in place.state.principals.values() if one.meta.created_by != "ledger"]
        known += [c.ShippedRegion("eu", "eu"), *map(c.ShippedPrincipal, shown), *place.stream[-1:]]
        to = place.first + len(place.stream)
        part = c.Ship(place.log_id, 1, 0, to, tuple(known), full=True)
        place.bench.accept(LINK, part)
        while place.state.region.listing is not None:
            place.bench.accept(LINK, part)
        assert place.arrived == len(place.stream)

    @rule(name=REGIONS, which=st.integers(0, 99), kept=st.booleans())
    def arrive(self, name: str, which: int, kept: bool) -> None:
        """Something that a region said, in any order, once or again."""
        flight = self.places[name].flight
        if flight:
            said = flight[which % len(flight)] if kept else flight.pop(which % len(flight))
            before = self._version(name)
            answer = self.bench.send(f"region/{name}", said)
            assert isinstance(answer, Committed) or answer.code is Code.ALREADY, answer  # type: ignore[union-attr]
            if self._version(name) > before:
                self.places[name].ship(self.bench.grant(name))

    def _version(self, name: str) -> int:
        grant = self.bench.state.grants.get(grant_key(name, ACCOUNT))
        return grant.version if grant is not None else 0

    # What becomes of the platform's store

    @rule()
    def back_up(self) -> None:
        self.backup, self.hard_then = self.bench.fork(), self.hard

    @rule(order=st.permutations(NAMES), looks=LOOKS)
    def restore(self, order: list[str], looks: list[tuple[bool, bool]]) -> None:
        """All that came after the backup is forgotten; the controller may lend before a region has heard, or spoken."""
        at = self.bench.at
        self.bench, self.hard = self.backup.fork(), self.hard_then
        self.bench.later(at - self.bench.at)
        self.restores += 1
        for name, place in self.places.items():
            self.bench.open_session(name)
            self.bench.accept(f"region/{name}", p.JoinRegion(name, f"log-{name}"))
            grant = self.bench.state.grants.get(grant_key(name, ACCOUNT))
            place.begin_anew(f"log-platform-{self.restores}", grant)
        for name, (before, between) in zip(order, looks, strict=True):
            if before:
                self.look()
            self.full_list(name)
            if between:
                self.look()
            self.exchange(name)
        charged, is_owed = (
            self.bench.charged(),
            any(key[0] == PLATFORM_ESCROW for key, _ in self.bench.state.breaches.items()),
        )
        assert is_owed == bool(first_exceeded(charged, self.hard))
        self.look()
        assert not first_exceeded(self.bench.charged(), elementwise_max(charged, self.hard)), (
            "nothing is lent while above"
        )

    @rule(name=REGIONS, which=st.integers(0, 99))
    def drop(self, name: str, which: int) -> None:
        flight = self.places[name].flight
        if flight:
            flight.pop(which % len(flight))

    @rule(name=REGIONS, is_lost=st.booleans())
    def fall_silent(self, name: str, is_lost: bool) -> None:
        if self._health(name) is RegionHealth.HEALTHY:
            self.bench.judge(name, RegionHealth.SUSPECT, *([RegionHealth.LOST] if is_lost else []))

    @rule(name=REGIONS)
    def come_back(self, name: str) -> None:
        health = self._health(name)
        if health is RegionHealth.HEALTHY:
            return
        self.bench.later(1)
        if health is RegionHealth.LOST:
            status = self.bench.state.regions[name].status
            heard = p.Acknowledge(name, f"log-{name}", status.position + 1, status.cursor, DIGEST)
            self.bench.accept(f"region/{name}", heard)
        self.bench.accept(REGION_HEALTH, p.JudgeRegion(name, RegionHealth.HEALTHY, "heard again"))

    def _health(self, name: str) -> RegionHealth:
        health: RegionHealth = self.bench.state.regions[name].status.health
        return health

    # What must hold

    @invariant()
    def nothing_is_sold_twice(self) -> None:
        if not hasattr(self, "places"):
            return
        state = self.bench.state
        for name, place in self.places.items():
            grant = state.grants.get(grant_key(name, ACCOUNT))
            assert not first_exceeded(place.uses(), grant.offered if grant is not None else ZERO), name
        used = total(place.uses() for place in self.places.values())
        assert not first_exceeded(used, elementwise_max(self.hard, self.bench.charged()))
        if not any(invariant == PLATFORM_ESCROW for invariant, _ in (key for key, _ in state.breaches.items())):
            assert not first_exceeded(used, self.hard)

    @rule()
    def heal(self) -> None:
        """Everything arrives, what is not asked for ends, and the controller is run until it has nothing to say."""
        for name in NAMES:
            self.come_back(name)
        for _ in range(40):
            for name in NAMES:
                self._stop_what_is_not_asked_for(name)
                self.exchange(name)
                self.nothing_is_sold_twice()
            if not self.look():
                break
        else:
            raise AssertionError("the controller does not come to rest")
        self._everybody_has_what_there_is()

    def _stop_what_is_not_asked_for(self, name: str) -> None:
        place, asked = self.places[name], quota_demand(self.bench.state, "acme", name)
        while first_exceeded(place.uses(), asked):
            place.release(1)

    def _everybody_has_what_there_is(self) -> None:
        if first_exceeded(self.bench.charged(), self.hard):
            # Nothing of anything is added before what is used has come down to the quota.
            assert first_exceeded(total(place.uses() for place in self.places.values()), self.hard)
            return
        asked = {name: quota_demand(self.bench.state, "acme", name) for name in NAMES}
        for resource in RESOURCES:
            wanted = {name: amount_of(amount, resource) for name, amount in asked.items()}
            if sum(wanted.values()) > amount_of(self.hard, resource):
                continue
            for name, amount in wanted.items():
                grant = self.bench.state.grants.get(grant_key(name, ACCOUNT))
                target = grant.target if grant is not None else ZERO
                assert amount_of(target, resource) >= amount, (name, resource, target, asked)

    def teardown(self) -> None:
        if hasattr(self, "places"):
            self.heal()
            self.bench.verify()
            for place in self.places.values():
                assert check(place.state, REGION.invariants) == []


TestBetween = Between.TestCase
TestBetween.settings = settings(max_examples=100, stateful_step_count=50)


EACH = st.tuples(FEW, FEW, FEW)


@given(then=EACH, now=EACH, order=st.permutations(NAMES), looks=LOOKS)
def test_what_regions_took_up_after_the_backup_is_not_lent_again(
    then: tuple[int, ...], now: tuple[int, ...], order: list[str], looks: list[tuple[bool, bool]]
) -> None:
    between = Between()
    between.begin(12, 12)
    for counts in (then, now):
        between.back_up()
        for name, count in zip(NAMES, counts, strict=True):
            between.ask(name, count)
        for _ in range(3):
            between.look()
            for name, count in zip(NAMES, counts, strict=True):
                between.exchange(name)
                between.place(name, max(0, count - len(between.places[name].placed)))
                between._stop_what_is_not_asked_for(name)
    between.restore(order, looks)
    between.nothing_is_sold_twice()
    between.teardown()


def test_what_is_lent_anew_between_a_regions_list_and_its_first_word_is_settled() -> None:
    between = Between()
    between.begin(12, 12)
    between.look()
    between.exchange("eu")
    between.place("eu", 1)
    between.restore([*NAMES], [(False, True)] * 3)
    assert between.bench.grant("eu").acknowledged == between.bench.grant("eu").version
    between.teardown()
