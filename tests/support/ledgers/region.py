"""A region for tests: builders, and a bench that sends commands, keeps the log and checks every invariant."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state.invariants import check, check_batch
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec
from holdfast.core.model.objects.tenants import PriorityClass, PriorityClassSpec
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.records.region_reports import RegionSummary
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.ranges import expanded
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.region_summary import summary_steps
from holdfast.core.region.queries.workload_report import run_to_end
from holdfast.core.region.state.tables import RegionState

T0 = 1_700_000_000_000
ROOT = "person/root"
SCHEDULER = "scheduler/main"
LINK = "controller/link"
REPLICA = "controller/replica"


def a_template(cpu: int = 1000, memory: int = 1024, **fields: Any) -> Template:
    gpu = fields.get("gpus", 0) * fields.get("gpu_milli", 1000)
    need = Resources(cpu, memory, fields.pop("disk", 0), gpu, fields.pop("extended", ()))
    return Template(command=("run",), need=need, **fields)


def an_assignment(
    uid: int = 100, workload: int = 1, template: Template | str = "", count: int = 10, **fields: Any
) -> Assignment:
    digest = template if isinstance(template, str) else template_digest(template)
    tenant = fields.pop("tenant", "acme")
    defaults: dict[str, Any] = {
        "workload_name": f"w{workload}",
        "region": "eu",
        "purpose": AssignmentPurpose.SERVING,
        "stage": AssignmentStage.ACTIVE,
        "generation": 1,
        "shares": (Share(digest, count),),
        "accounts": (f"quota/{tenant}",),
        "priority_class": "normal",
    }
    return Assignment(uid=uid, revision=uid, workload=workload, tenant=tenant, **{**defaults, **fields})


def a_class(name: str, priority: int, *, reclaimable: bool = False, may_preempt: bool = False) -> PriorityClass:
    spec = PriorityClassSpec(priority=priority, reclaimable=reclaimable, may_preempt=may_preempt)
    return PriorityClass(meta=Meta(name=name), spec=spec)


def a_principal(name: str, *rights: Permission, **scope: str) -> Principal:
    from holdfast.core.model.objects.principals import Scope

    return Principal(meta=Meta(name=name), spec=PrincipalSpec(rights=rights, scope=Scope(**scope)))


CLASSES = (
    a_class("critical", 100, may_preempt=True),
    a_class("normal", 50),
    a_class("best-effort", 10, reclaimable=True),
)


class RegionBench:
    """One region's ledger in a test. Each command is one batch, durable at once; time only moves when told."""

    def __init__(self, *, checked: bool = True, name: str = "eu", level: int = LEVEL) -> None:
        self.book = REGION.of_level(level)
        self.state = RegionState()
        self.log: list[tuple[bytes, bytes]] = []
        self.at = T0
        self.checked = checked
        self.sessions: dict[str, int] = {}
        self.sequences: dict[str, int] = {}
        self._keys = 0
        self._cursor = 0
        self.accept("ledger", StartLog(f"log-{name}", f"region/{name}", ROOT))
        self.accept("ledger", StartTerm(1, "server-1", level))
        self.ship(
            c.ShippedRegion(name, name),
            *(c.ShippedPriorityClass(cls) for cls in CLASSES),
            c.ShippedPrincipal(a_principal("agent/*")),
            c.ShippedPrincipal(a_principal("scheduler/*")),
        )

    def envelope(self, actor: str, command: Any, **fields: Any) -> Envelope[Any]:
        kind = actor.partition("/")[0]
        if kind in ("agent", "scheduler") and not isinstance(command, OpenSession):
            self.sequences[actor] = self.sequences.get(actor, 0) + 1
            fields.setdefault("session", self.sessions.get(actor, 0))
            fields.setdefault("sequence", self.sequences[actor])
        if kind in ("person", "tenant"):
            self._keys += 1
            fields.setdefault("key", f"k{self._keys}")
        fields.setdefault("sent", self.at)
        return Envelope(actor, command, **fields)

    def give(self, envelope: Envelope[Any]) -> Committed | Refused | Repeated:
        draft = BatchDraft(self.book, self.state)
        answer = draft.add(envelope, self.at)
        if isinstance(answer, Committed) and len(draft):
            raw, digest = draft.seal()
            near = check_batch(self.state, draft.state, self.book.invariants) if self.checked else []
            draft.commit()
            self.log.append((raw, digest))
            if self.checked:
                assert near == check(self.state, self.book.invariants) == []
        return answer

    def send(self, actor: str, command: Any, **fields: Any) -> Committed | Refused | Repeated:
        return self.give(self.envelope(actor, command, **fields))

    def accept(self, actor: str, command: Any, **fields: Any) -> Committed:
        answer = self.send(actor, command, **fields)
        assert isinstance(answer, Committed), answer
        return answer

    def refuse(self, actor: str, command: Any, **fields: Any) -> Refused:
        answer = self.send(actor, command, **fields)
        assert isinstance(answer, Refused), answer
        return answer

    def ship(
        self, *puts: Any, gone: tuple[c.RemovedObject, ...] = (), full: bool = False, proof: str = ""
    ) -> Committed:
        after = self._cursor
        self._cursor += 1
        return self.accept(LINK, c.Ship("log-platform", 1, after, self._cursor, puts, gone, full, proof=proof))

    def ship_list(self, *parts: tuple[Any, ...]) -> None:
        """A full list in these parts, to its end."""
        self._cursor += 1
        for number, puts in enumerate(parts):
            last = number == len(parts) - 1
            part = c.Ship("log-platform", 1, 0, self._cursor, puts, full=True, part=number, last=last)
            self.accept(LINK, part)
            while last and self.state.region.listing is not None:
                self.accept(LINK, part)

    def open_session(self, actor: str) -> int:
        revision = self.accept(actor, OpenSession()).revision
        session = self.state.session_of.get(actor)
        assert session is not None
        assert session >= revision
        self.sessions[actor] = session
        self.sequences[actor] = 0
        return session

    def a_scheduler(self, name: str = SCHEDULER) -> str:
        self.open_session(name)
        return name

    def a_node(self, name: str = "n1", cpu: int = 8000, memory: int = 16384, **fields: Any) -> int:
        """Register a node and return its uid."""
        actor = f"agent/{name}"
        if actor not in self.sessions:
            self.open_session(actor)
        models = fields.pop("gpus", ())
        devices = tuple(Device(model) for model in models)
        capacity = Resources(cpu, memory, fields.pop("disk", 100_000), 1000 * len(devices), fields.pop("extended", ()))
        command = c.RegisterNode(
            name, fields.pop("pool", "general"), fields.pop("zone", "a"), capacity, devices,
            fields.pop("ports", (30_000, 30_009)), **fields,
        )  # fmt: skip
        self.accept(actor, command)
        uid = self.state.node_names.get(name)
        assert uid is not None
        return uid

    def a_grant(self, account: str = "quota/acme", cpu: int = 1_000_000, version: int = 1, **fields: Any) -> None:
        target = fields.pop("target", Resources(cpu, 10**9, 10**9, 10**9, (("fpga", 10**6),)))
        ends = fields.pop("ends", self.at + 86_400_000)
        self.ship(c.ShippedGrant(account, version, target, ends, **fields))

    def a_workload(
        self, template: Template | None = None, count: int = 10, ordinals: int | None = None, **fields: Any
    ) -> Assignment:
        """Ship a template and an assignment, and open its slots."""
        template = template or a_template()
        assignment = an_assignment(template=template, count=count, **fields)
        digest = template_digest(template)
        if digest not in self.state.templates:
            self.ship(c.ShippedTemplate(digest, template))
        self.ship(c.ShippedAssignment(assignment))
        number = count if ordinals is None else ordinals
        if assignment.stage is AssignmentStage.ACTIVE and number:
            wanted = expanded(assignment.ordinals) if assignment.exclusive else tuple(range(number))
            self.accept(REPLICA, c.OpenSlots(assignment.uid, digest, wanted))
        return assignment

    def proposal(self, assignment: Assignment, *placements: c.SlotPlacement, **fields: Any) -> c.Propose:
        group = c.PlacementGroup(assignment.uid, assignment.shares[0].template, placements)
        return c.Propose((group,), fields.pop("valid_until", self.at + 1000), **fields)

    def place(self, assignment: Assignment, *placements: c.SlotPlacement, **fields: Any) -> Committed:
        return self.accept(SCHEDULER, self.proposal(assignment, *placements, **fields))

    def refuse_place(self, assignment: Assignment, *placements: c.SlotPlacement, **fields: Any) -> Refused:
        return self.refuse(SCHEDULER, self.proposal(assignment, *placements, **fields))

    def slot(self, ordinal: int = 0, workload: int = 1) -> Slot:
        return self.state.slots[workload, ordinal]

    def move(
        self, actor: str, target: Phase, cause: str, ordinal: int = 0, workload: int = 1, detail: str = ""
    ) -> Committed | Refused | Repeated:
        epoch = self.slot(ordinal, workload).epoch
        return self.send(actor, c.Move((c.MoveSlot((workload, ordinal), epoch, target, cause, detail),)))

    def walk(self, phase: Phase, ordinal: int = 0, workload: int = 1) -> None:
        """Move a bound slot forward to a phase, each step by its owner."""
        node = self.state.nodes[self.slot(ordinal, workload).node].name
        steps = (
            (Phase.STARTING, "started", f"agent/{node}"),
            (Phase.RUNNING, "running", f"agent/{node}"),
            (Phase.READY, "probe-passed", f"agent/{node}"),
            (Phase.SERVING, "published", "controller/endpoints"),
        )
        for target, cause, actor in steps:
            answer = self.move(actor, target, cause, ordinal, workload)
            assert isinstance(answer, Committed), answer
            if target is phase:
                return

    def pass_time(self, ms: int = 60_000) -> None:
        """Let time pass: by default, what runs may then be preempted."""
        self.at += ms

    def branch(self) -> RegionBench:
        """Another bench that goes on from here, on a fork of the state."""
        other = RegionBench.__new__(RegionBench)
        other.__dict__ = {**self.__dict__, "state": self.state.fork(), "log": list(self.log)}
        other.sessions, other.sequences = dict(self.sessions), dict(self.sequences)
        return other

    def replay(self) -> RegionState:
        """Fold the whole log into a new state."""
        state = RegionState()
        previous = b""
        for raw, digest in self.log:
            fold(REGION, state, REGION.batches.read(raw, previous, digest))
            previous = digest
        return state


def summary_of(state: RegionState) -> RegionSummary:
    """The complete summary, without pauses."""
    return run_to_end(summary_steps(state, {}))
