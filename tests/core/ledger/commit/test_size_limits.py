"""Every text and every list of every command has a most, and who sends more is told both numbers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, get_args

import pytest
from msgspec import NODEFAULT, inspect

from holdfast.core.ledger import partial
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import RECORD_BYTES_MAX, encode
from holdfast.core.ledger.commit import draft as drafting
from holdfast.core.ledger.commit.definition import LedgerDefinition, decide
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.commit.rules import CommandRule
from holdfast.core.ledger.commit.size_limits import FIELD_LIMITS, refuse_excess
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.limits import ARGUMENT_MAX, DEPTH_MAX, IDENTITIES_MAX, PORTS_MAX, REASON_MAX
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as r
from holdfast.core.region.definition import REGION
from tests.support.ledgers.platform import T0, PlatformBench, a_workload
from tests.support.ledgers.platform import a_principal as a_platform_principal
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench

#: More characters, and more entries, than any text or list of a command may have.
CHARACTERS, ENTRIES = ARGUMENT_MAX + 1, IDENTITIES_MAX + 1
#: More of either than one record holds.
A_RECORD = RECORD_BYTES_MAX + 1

COMMANDS = [(PLATFORM, one) for one in get_args(p.PlatformCommand)] + [
    (REGION, one) for one in get_args(r.RegionCommand)
]


class Places:
    """The texts and lists in a type: each with a value of the type in which only that one is as large as is asked."""

    def __init__(self, characters: int, entries: int) -> None:
        self._characters, self._entries = characters, entries

    def least(self, info: inspect.Type) -> Any:
        """A value of a type with nothing in it."""
        match info:
            case inspect.Metadata(type=inner):
                return self.least(inner)
            case inspect.StrType():
                return ""
            case inspect.BytesType():
                return b""
            case inspect.IntType():
                return 0
            case inspect.BoolType():
                return False
            case inspect.EnumType(cls=words):
                return next(iter(words))
            case inspect.VarTupleType():
                return ()
            case inspect.TupleType(item_types=items):
                return tuple(self.least(item) for item in items)
            case inspect.UnionType(types=types):
                return None if any(isinstance(one, inspect.NoneType) for one in types) else self.least(types[0])
            case inspect.StructType(cls=struct):
                return struct(**self._required(info))
        raise TypeError(info)

    def _required(self, info: inspect.StructType) -> dict[str, Any]:
        needed = [f for f in info.fields if f.default is NODEFAULT and f.default_factory is NODEFAULT]
        return {field.name: self.least(field.type) for field in needed}

    def of(self, info: inspect.Type, name: str = "", inside: tuple[type, ...] = ()) -> Iterator[tuple[str, Any]]:
        """The name of each place, and the value that is too large there."""
        match info:
            case inspect.Metadata(type=inner):
                yield from self.of(inner, name, inside)
            case inspect.StrType():
                yield name, "x" * self._characters
            case inspect.BytesType():
                yield name, b"x" * self._characters
            case inspect.VarTupleType(item_type=item):
                least = self.least(item)
                apart = range(0, 2 * self._entries, 2)  # numbers in a row, or named twice, are kept as one entry
                yield name, tuple(apart) if type(least) is int else (least,) * self._entries
                for place, value in self.of(item, f"{name}[]", inside):
                    yield place, (value,)
            case inspect.TupleType(item_types=items):
                for number, item in enumerate(items):
                    whole = [self.least(one) for one in items]
                    for place, value in self.of(item, name, inside):
                        yield place, (*whole[:number], value, *whole[number + 1 :])
            case inspect.UnionType(types=types):
                for one in types:
                    yield from self.of(one, name, inside)
            case inspect.StructType(cls=struct) if struct not in inside:
                for field in info.fields:
                    for place, value in self.of(field.type, f"{struct.__name__}.{field.name}", (*inside, struct)):
                        yield place, struct(**{**self._required(info), field.name: value})


@cache
def platform() -> PlatformBench:
    bench = PlatformBench()
    for name in ("region/*", "agent/*", "scheduler/*"):
        bench.accept(ROOT, p.Put(a_platform_principal(name)))
    return bench


@cache
def region() -> RegionBench:
    return RegionBench(checked=False)


def send(definition: LedgerDefinition[Any], command: Any) -> Refused:
    """What one of those who may send it is told."""
    bench = platform() if definition is PLATFORM else region()
    rule: CommandRule[Any] = definition.rules[type(command)]
    owner = min(rule.owners, key=lambda owner: "/" not in owner and owner != "ledger")
    actor = owner if "/" in owner or owner == "ledger" else {"person": ROOT}.get(owner, f"{owner}/x")
    fields: dict[str, Any] = {"key": "a-key"} if owner in ("person", "tenant") else {}
    if owner in ("agent", "scheduler", "region"):
        if bench.state.session_of.get(actor) is None:
            bench.send(actor, OpenSession(), session=0, sequence=0)
        fields = {"session": bench.state.session_of[actor], "sequence": 1}
    answer = decide(definition, bench.state, Envelope(actor, command, T0, **fields), bench.at)
    assert isinstance(answer, Refused), answer
    return answer


@pytest.mark.parametrize(("definition", "command"), COMMANDS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_text_and_list_of_every_command_has_a_most_and_more_is_refused_with_both_numbers(
    definition: LedgerDefinition[Any], command: type
) -> None:
    info = inspect.type_info(command)
    places = Places(CHARACTERS, ENTRIES)
    assert refuse_excess(places.least(info)) is None
    for place, value in places.of(info):
        if command is r.Ship:
            continue
        refused = send(definition, value)
        size, most = refused.facts["size"], refused.facts["most"]
        assert refused.code in (Code.MALFORMED, Code.TOO_LARGE), place
        assert size in (CHARACTERS, ENTRIES), place
        assert most < size, place
        assert f"{size} " in refused.message, place
        assert f"at most {most} " in refused.message, place


def test_what_is_exactly_as_large_as_it_may_be_is_taken() -> None:
    assert refuse_excess(EndOverride(1, "x" * REASON_MAX)) is None
    assert refuse_excess(r.Bind(((1, 1),) * partial.PARTS_MAX)) is None
    refused = refuse_excess(r.Bind(((1, 1),) * (partial.PARTS_MAX + 1)))
    assert refused is not None
    assert refused.message == "1001 entries in slots; at most 1000 are accepted"


def test_what_a_region_is_shipped_is_bounded_by_its_record() -> None:
    for place, value in Places(A_RECORD, A_RECORD).of(inspect.type_info(r.Ship)):
        refused = REGION.envelopes.read(encode(Envelope("controller/link", value, T0)))
        assert isinstance(refused, Refused), place
        assert refused.code is Code.TOO_LARGE
        assert refused.facts["most"] == RECORD_BYTES_MAX


def test_every_most_is_of_a_field_that_a_command_has() -> None:
    found = {place for _, one in COMMANDS for place, _ in Places(1, 1).of(inspect.type_info(one))}
    assert set(FIELD_LIMITS) - found == set()


def test_reasons_within_reasons_have_a_depth() -> None:
    inner = PendingReason("leaf", 1)
    for _ in range(DEPTH_MAX * 20):
        inner = PendingReason("below", 1, below=(inner,))
    refused = send(REGION, r.ReportPending(1, "t", 1, (inner,)))
    assert refused.code is Code.TOO_LARGE
    assert f"at most {DEPTH_MAX}" in refused.message


def test_what_is_nested_too_deep_to_be_read_is_no_command() -> None:
    inner = b"\x90"
    for _ in range(20_000):
        inner = b"\x91\x94\xa1a\x01\xa0" + inner
    raw = b"\x93" + encode(SCHEDULER) + b"\x95" + encode("report-pending") + b"\x01\xa1t\x01" + inner + b"\x01"
    refused = REGION.envelopes.read(raw)
    assert isinstance(refused, Refused)
    assert refused.code is Code.MALFORMED


def a_record_of(bytes_max: int, events_max: int, monkeypatch: pytest.MonkeyPatch) -> object:
    bench = RegionBench()
    bench.a_node()
    note = "a fan is loud" * 10
    with monkeypatch.context() as within:
        within.setattr(drafting, "RECORD_BYTES_MAX", bytes_max)
        within.setattr(drafting, "INDEX_MAX", events_max)
        return bench.send(ROOT, r.AdministerNode(bench.state.node_names["n1"], cordoned=True, note=note))


def test_a_record_that_is_too_large_is_refused_with_its_bytes_and_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = a_record_of(100, 1_000, monkeypatch)
    assert isinstance(refused, Refused)
    size = refused.facts["size"]
    assert size > 100
    assert (refused.code, refused.message) == (
        Code.TOO_LARGE, f"{size} bytes in its record; at most 100 are accepted",
    )  # fmt: skip
    assert isinstance(a_record_of(size - 1, 1_000, monkeypatch), Refused)
    assert isinstance(a_record_of(size, 1_000, monkeypatch), Committed)


def test_a_batch_with_too_many_events_is_refused_with_how_many_and_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = a_record_of(RECORD_BYTES_MAX, 0, monkeypatch)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.message) == (Code.TOO_LARGE, "1 events in its batch; at most 0 are accepted")
    assert isinstance(a_record_of(RECORD_BYTES_MAX, 1, monkeypatch), Committed)


@pytest.mark.parametrize(
    "command",
    [
        r.RegisterNode("n1", "general", "z" * 300, ZERO),
        r.AdministerNode(1, cordoned=True, note="n" * 2_000),
        r.AdministerNode(1, labels=(("rack", "l" * 300),)),
        EndOverride(1, "r" * 2_000),
        OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "t" * 300, "why", T0 + 1),
        EndSession(1, "r" * 2_000),
    ],
    ids=["zone", "note", "label", "end-of-override", "target", "end-of-session"],
)
def test_what_people_and_agents_write_freely_is_bounded(command: Any) -> None:
    assert send(REGION, command).facts["size"] in (300, 2_000)


def test_a_replica_has_a_most_of_ports() -> None:
    spec = a_workload(template=Template(ports=PORTS_MAX + 1)).spec
    assert workload_problems(spec) == [f"a replica has at most {PORTS_MAX} ports, not {PORTS_MAX + 1}"]


def test_sums_over_many_nodes_name_more_kinds_of_resources_than_any_node_has() -> None:
    """Otherwise a region whose nodes differ would be refused its summary, and a share of its room could not be lent."""
    whole = Resources(extended=tuple((f"unit-{number:03}", 1) for number in range(500)))
    nodes = Nodes("mixed", (), (), (), (), 10, whole, whole, (whole,), (whole,))
    assert refuse_excess(p.Report("eu", 1, summary=RegionSummary((nodes,)))) is None
    assert refuse_excess(p.OfferGrant("reclaimable/acme", "eu", whole, T0)) is None
