"""RULES 25: what is restored is what was, in type too.

Otherwise a pool called `serving` turns phases into strings, and the region does not start.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from enum import StrEnum
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

import holdfast.core
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.type_checks import type_checker
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.commands import SlotPlacement, Unreserve, WithdrawSlots
from holdfast.core.region.state.tables import RegionState
from tests.support.generated.golden_logs import region_story
from tests.support.generated.golden_platform import platform_story
from tests.support.ledgers.platform import PlatformBench, a_class, a_principal, a_region, a_tenant, a_workload
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template
from tests.support.ledgers.snapshots import restored


def enums(base: type[StrEnum] = StrEnum) -> list[type[StrEnum]]:
    """Every text enum of the core."""
    for module in pkgutil.walk_packages(holdfast.core.__path__, "holdfast.core."):
        importlib.import_module(module.name)
    found = [one for one in base.__subclasses__() if one.__module__.startswith("holdfast.core.")]
    return sorted(found, key=lambda one: one.__qualname__)


NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")
#: Every word of every enum that can be a name.
WORDS = sorted({str(member.value) for enum in enums() for member in enum if NAME.fullmatch(str(member.value))})


def a_region_of_words(*, names_first: bool) -> RegionBench:
    """A region in which everything that people name has the name of some member of an enum."""
    bench = RegionBench(checked=False)
    bench.a_scheduler()
    bench.a_grant()
    for number, word in enumerate(WORDS):
        # The pool of names is filled in the order in which tables are read: both orders of uids are tried.
        place = number if names_first else len(WORDS) - number
        node = bench.a_node(word, zone=word, pool=word, labels=((word, word),))
        work = bench.a_workload(a_template(), 1, uid=1000 + place, workload=5000 + place, workload_name=word)
        bench.place(work, SlotPlacement(0, node))
        bench.walk(Phase.SERVING, 0, 5000 + place)
    return bench


def a_platform_of_words() -> PlatformBench:
    bench = PlatformBench()
    bench.checked = False
    bench.put(a_class("normal"))
    bench.put(a_principal("region/*"))
    for word in WORDS:
        bench.put(a_principal(f"tenant/{word}", Permission.WRITE))
        bench.put(a_tenant(word, "normal"))
        bench.put(a_region(word, word))
        bench.join(word)
        bench.assign(bench.put(a_workload(word, word)), word, 3)
    return bench


def mistyped(state: LedgerState) -> list[str]:
    """Every row that is not of its declared type, to the letter."""
    found: list[str] = []
    for spec in state.TABLES:
        checks = (type_checker(spec.key), type_checker(spec.value))
        for row in state.table(spec.name).items():
            wrong = [one for check, one in zip(checks, row, strict=True) if check is not None and not check(one)]
            found += [f"{spec.name}: {one!r}" for one in wrong]
    return found


def shape(value: Any) -> Any:
    """A value as the types in it."""
    if isinstance(value, Struct):
        return type(value), [shape(getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, tuple):
        return [shape(one) for one in value]
    return type(value)


def must_be_the_same(state: LedgerState, back: LedgerState) -> None:
    for spec in (one for one in state.TABLES if not one.derived):
        for row, again in zip(state.table(spec.name).items(), back.table(spec.name).items(), strict=True):
            assert again == row
            assert shape(again) == shape(row), f"{spec.name}: {row!r} came back as {again!r}"
    assert mistyped(back) == []
    assert state_digest(back) == state_digest(state)


@pytest.mark.parametrize("names_first", [True, False])
def test_a_region_whose_names_are_the_words_of_every_enum_is_restored_in_type(*, names_first: bool) -> None:
    bench = a_region_of_words(names_first=names_first)
    must_be_the_same(bench.state, restored(bench.state, RegionState()))
    must_be_the_same(bench.state, bench.replay())


def test_a_platform_whose_names_are_the_words_of_every_enum_is_restored_in_type() -> None:
    bench = a_platform_of_words()
    must_be_the_same(bench.state, restored(bench.state, PlatformState()))
    must_be_the_same(bench.state, bench.replayed())


def test_an_account_that_is_charged_nothing_any_more_has_no_row_in_what_is_kept_nor_in_what_is_restored() -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node()
    bench.place(bench.a_workload(a_template(), 1), SlotPlacement(0, node), bind=False)
    assert "quota/acme" in bench.state.account_usage
    bench.accept(SCHEDULER, Unreserve(((1, 0),)))
    bench.accept(REPLICA, WithdrawSlots(100, (0,)))
    assert bench.state.account_usage.items() == restored(bench.state, RegionState()).account_usage.items() == []


@pytest.mark.parametrize("level", [1, 2])
def test_the_golden_stories_are_restored_in_type(level: int) -> None:
    for state, empty in ((region_story(level).state, RegionState()), (platform_story(level).state, PlatformState())):
        assert mistyped(state) == []
        must_be_the_same(state, restored(state, empty))


def test_a_digest_tells_a_member_from_its_word_and_from_another_member_of_that_word() -> None:
    bench = RegionBench()
    uid = bench.a_node("n1")
    digests = set()
    for health in (NodeHealth.READY, "ready", Phase.READY):
        fork = bench.state.fork()
        fork.nodes.put(uid, replace(fork.nodes[uid], health=health))
        assert bool(mistyped(fork)) is (type(health) is not NodeHealth)
        digests.add(state_digest(fork))
    assert len(digests) == 3


def test_a_digest_tells_a_member_from_its_word_deep_in_a_row() -> None:
    bench = PlatformBench()
    bench.put(a_principal("tenant/*"))
    name, principal = next(iter(bench.state.principals.items()))
    fork = bench.state.fork()
    words = tuple(str(right.value) for right in principal.spec.rights)
    fork.principals.put(name, replace(principal, spec=replace(principal.spec, rights=words)))
    assert mistyped(fork)
    assert state_digest(fork) != state_digest(bench.state)


class _Inner(Struct, frozen=True):
    phase: Phase


class _Other(Struct, frozen=True):
    name: str


def test_which_of_several_types_a_value_is_and_all_that_is_in_it_is_looked_at() -> None:
    word: Any = Phase.SERVING.value
    either = type_checker(_Inner | _Other | None)
    assert either is not None
    assert either(_Inner(Phase.SERVING))
    assert either(_Other("serving"))
    assert either(None)
    assert not either(_Inner(word))
    assert not either(_Other(Phase.SERVING))
    assert not either(word)
    maybe = type_checker(Phase | None)
    assert maybe is not None
    assert [maybe(one) for one in (Phase.SERVING, None, word)] == [True, True, False]


@pytest.mark.parametrize("declared", [int | None, int | tuple[int, ...], tuple[int, ...]])
def test_of_what_cannot_be_mistaken_nothing_is_looked_at(declared: Any) -> None:
    assert type_checker(declared) is None
