"""A region of any size for benchmarks, filled through its own ledger: nothing is put past a gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.bench.report import Unmeasured, must
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.draft import Draft, Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.house import OpenSession, StartLog, StartTerm
from holdfast.core.model.allotment import Assignment, Purpose, Share, Stage
from holdfast.core.model.evidence import Decision
from holdfast.core.model.meta import Meta
from holdfast.core.model.resources import Resources
from holdfast.core.model.settings import Settings
from holdfast.core.model.tenancy import Principal, PrincipalSpec, PriorityClass, PriorityClassSpec
from holdfast.core.model.topology import Device, Taint, Toleration
from holdfast.core.model.workload import Template
from holdfast.core.region import commands as c
from holdfast.core.region.book import REGION
from holdfast.core.region.state import RegionState
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.look import Sight
from holdfast.core.scheduling.mixing import seed_of
from holdfast.core.scheduling.scheduler import Scheduler

AT = 1_700_000_000_000
SCHEDULER = "scheduler/bench"
TENANTS = ("acme", "globex", "initech", "umbrella")
SLOTS_EACH = 1_000
#: Proposals are written in advance; on a slow disk they must not expire before they are sent.
SETTINGS = Settings(proposal_life=120_000)
PLENTY = Resources(2**39, 2**39, 2**39, 2**39)


class Machine(Struct, frozen=True):
    """What a node has."""

    capacity: Resources
    devices: tuple[Device, ...] = ()


MACHINE = Machine(Resources(64_000, 262_144, 1_000_000))


class BenchRegion:
    """A region under load. Ledger time stands still: what is measured does not depend on it.

    `keep` is given every batch and its digest, as a store would be. Nodes are `machines`, one after the other.
    """

    def __init__(
        self,
        nodes: int,
        at: int = AT,
        keep: Callable[[bytes, bytes], None] | None = None,
        machines: Sequence[Machine] = (MACHINE,),
        settings: Settings = SETTINGS,
    ) -> None:
        self.state = RegionState()
        self.at = at
        self._keep = keep
        self._machines = machines
        self._sequence = 0
        self._found: Decision | None = None
        self.run(
            ("ledger", StartLog("bench", "region/bench", "person/bench", settings)), ("ledger", StartTerm(1, "bench"))
        )
        self._ship_terms()
        self.run((SCHEDULER, OpenSession()))
        session = self.state.session_of.get(SCHEDULER)
        assert session is not None
        self.session = session
        self.template = Template(
            command=("serve",),
            need=Resources(100, 128, 10),
            require=(("arch", "x86"),),
            tolerate=(Toleration("dedicated", "batch"),),
        )
        self.digest = template_digest(self.template)
        self.ship(c.TemplateShipped(self.digest, self.template))
        self.node_uids = self._register(nodes)
        self.assignments: list[Assignment] = []

    def run(self, *commands: tuple[str, Any]) -> None:
        """Commit commands of built-in and machine principals as one batch; each must be accepted."""
        draft = Draft(REGION, self.state)
        for actor, command in commands:
            self._must(draft, Envelope(actor, command, self.at))
        self._commit(draft)

    def _must(self, draft: Draft[RegionState], envelope: Envelope[Any]) -> None:
        answer = draft.consider(envelope, self.at)
        must(isinstance(answer, Landed), answer)

    def _commit(self, draft: Draft[RegionState]) -> None:
        raw, digest = draft.seal()
        draft.land()
        if self._keep is not None:
            self._keep(raw, digest)

    def ship(self, *puts: c.Shipped) -> None:
        """One step of the platform."""
        cursor = self.state.place.cursor
        self.run(("controller/link", c.Ship("platform", 1, cursor, cursor + 1, puts)))

    def _ship_terms(self) -> None:
        spec = PriorityClassSpec(priority=50)
        grants = [
            c.GrantShipped(f"quota/{t}", 1, PLENTY, self.at + 10**9, Resources(10_000, 10_000, 1_000)) for t in TENANTS
        ]
        principals = [Principal(meta=Meta(name=f"{kind}/*"), spec=PrincipalSpec()) for kind in ("agent", "scheduler")]
        self.ship(
            c.RegionShipped("bench", "eu"),
            c.ClassShipped(PriorityClass(meta=Meta(name="normal"), spec=spec)),
            *(c.PrincipalShipped(principal) for principal in principals),
            *grants,
        )

    def _register(self, count: int) -> list[int]:
        """Nodes in three zones, labelled, every fifth tainted: the gates have something to look at."""
        for first in range(0, count, 500):
            names = [f"node-{number:05d}" for number in range(first, min(first + 500, count))]
            self.run(*((f"agent/{name}", OpenSession()) for name in names))
            draft = Draft(REGION, self.state)
            for name in names:
                number = int(name[5:])
                labels = (("arch", "x86"), ("disk", "ssd"))
                has = self._machines[number % len(self._machines)]
                pool, zone = f"pool-{number % 4}", f"zone-{number % 3}"
                node = c.RegisterNode(name, pool, zone, has.capacity, has.devices, labels=labels)
                session = self.state.session_of.get(f"agent/{name}") or 0
                self._must(draft, Envelope(f"agent/{name}", node, self.at, session, 1))
            self._commit(draft)
        uids = [uid for _, uid in self.state.node_names.items()]
        self._taint(uids[::5])
        return uids

    def _taint(self, uids: list[int]) -> None:
        draft = Draft(REGION, self.state)
        for uid in uids:
            command = c.AdministerNode(uid, taints=(Taint("dedicated", "batch"),))
            self._must(draft, Envelope("person/bench", command, self.at, key=f"taint-{uid}"))
        self._commit(draft)

    def open_workload(self) -> Assignment:
        """One more workload of a thousand slots, all waiting."""
        assignment, shipped, opened = self.next_workload(self.state.place.cursor)
        self.run(("controller/link", shipped))
        self.run(("controller/replica", opened))
        return assignment

    def next_workload(self, cursor: int) -> tuple[Assignment, c.Ship, c.OpenSlots]:
        """One more workload, and the two commands that bring it here after this point of the platform's log."""
        found = self._workload(len(self.assignments) + 1, cursor)
        self.assignments.append(found[0])
        return found

    def _workload(self, number: int, cursor: int) -> tuple[Assignment, c.Ship, c.OpenSlots]:
        tenant = TENANTS[number % len(TENANTS)]
        assignment = Assignment(
            1_000_000 + number, 1, number, f"w{number}", tenant, "bench", Purpose.SERVING, Stage.ACTIVE, 1,
            (Share(self.digest, SLOTS_EACH),), (f"quota/{tenant}",), "normal", jurisdictions=("eu",),
        )  # fmt: skip
        shipped = c.Ship("platform", 1, cursor, cursor + 1, (c.AssignmentShipped(assignment),))
        return assignment, shipped, c.OpenSlots(assignment.uid, self.digest, tuple(range(SLOTS_EACH)))

    def proposals(self, assignment: Assignment, each: int, seq: int = 0) -> list[Envelope[Any]]:
        """Proposals for all slots of a workload, `each` placements at a time, over all nodes in a scattered order.

        They are based on the state after batch `seq`, or on the newest, and carry what the scheduler finds here for
        such a request: where a slot goes is not its choice, but what is written and kept of a choice is as large.
        """
        nodes, count = self.node_uids, len(self.node_uids)
        view, found = (seq or self.state.facts.seq) << 20, self._found or self._decide()
        (paying,) = assignment.accounts
        envelopes: list[Envelope[Any]] = []
        for first in range(0, SLOTS_EACH, each):
            placements = tuple(
                c.Placement(ordinal, nodes[(assignment.workload * 7919 + ordinal * 1223) % count])
                for ordinal in range(first, first + each)
            )
            group = c.Group(assignment.uid, self.digest, placements)
            # A second less than it may be: this clock may be a little ahead of the ledger's.
            command = c.Propose((group,), self.at + SETTINGS.proposal_life - 1_000)
            seen = replace(
                found.passes[0], requests=((assignment.uid, assignment.generation),), queued_since=self.at,
                seed=seed_of(assignment.uid, view, first), quota=(replace(found.passes[0].quota[0], account=paying),),
            )  # fmt: skip
            evidence = encode(replace(found, view=view, passes=(seen,)))
            number = self.next_sequence()
            envelopes.append(Envelope(SCHEDULER, command, self.at, self.session, number, view=view, evidence=evidence))
        return envelopes

    def _decide(self) -> Decision:
        """What the scheduler finds for a workload like these, in a copy of the region that is then forgotten."""
        state, (assignment, shipped, opened) = self.state.fork(), self._workload(0, self.state.place.cursor)
        draft = Draft(REGION, state)
        self._must(draft, Envelope("controller/link", shipped, self.at))
        self._must(draft, Envelope("controller/replica", opened, self.at))
        draft.seal()
        draft.land()
        scheduler = Scheduler(BUILT_IN)
        scheduler.load(state)
        attempt, _ = scheduler.look(Sight(state, self.at))
        must(attempt is not None, f"the scheduler finds nothing for workload {assignment.uid}")
        assert attempt is not None
        self._found = attempt.decision
        return self._found

    def next_sequence(self) -> int:
        """The number of the scheduler's next command."""
        self._sequence += 1
        return self._sequence

    def commit(self, envelopes: list[Envelope[Any]]) -> None:
        """Decide, evolve, encode, chain and merge one batch."""
        draft = Draft(REGION, self.state)
        consider = draft.consider
        for envelope in envelopes:
            answer = consider(envelope, self.at)
            if not isinstance(answer, Landed) or answer.answer:
                raise Unmeasured(f"a placement was refused: {answer}")
        self._commit(draft)
