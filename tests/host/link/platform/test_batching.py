"""A full list is looked through and sent in parts; everything is in it once, after what it needs."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.codec import encode
from holdfast.core.region import commands as c
from holdfast.core.region.state.shipped_objects import shipped_name
from holdfast.host.link.platform import content
from holdfast.host.link.platform.batching import list_parts
from holdfast.host.link.platform.content import changed, everything
from tests.support.hosts.link_world import full_list
from tests.support.ledgers.platform import a_full_platform

WHOLE = c.Ship("log", 1, 0, 9, (), full=True)


def test_a_full_list_holds_what_a_change_of_everything_would_and_templates_first() -> None:
    state = a_full_platform().state
    found = full_list(state, "eu")
    puts, gone = changed(state, "eu", [shipped_name(one) for one in found])
    assert gone == ()
    assert sorted(map(shipped_name, found)) == sorted(map(shipped_name, puts))
    kinds = [isinstance(one, c.ShippedTemplate) for one in found]
    assert any(kinds)
    assert kinds == sorted(kinds, reverse=True)
    assert any(isinstance(one, c.ShippedAssignment) for one in found)
    assert any(isinstance(one, c.ShippedGrant) for one in found)


def test_others_have_their_turn_while_a_full_list_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    state = a_full_platform().state
    whole = full_list(state, "eu")
    monkeypatch.setattr(content, "AT_ONCE", 2)
    run, longest = 0, 0
    for put in everything(state, "eu"):
        run = 0 if put is None else run + 1
        longest = max(longest, run)
    assert longest <= 3
    assert full_list(state, "eu") == whole


def test_parts_have_so_many_objects_and_bytes_and_the_last_one_says_so() -> None:
    puts = [c.ShippedPool(f"pool-{number}", number) for number in range(7)]
    large = c.ShippedPool("x" * 500, 1)
    cut = list(list_parts(WHOLE, [*puts, None, large, None], 3, 200))
    assert cut.count(None) == 2
    parts = [part for part in cut if part is not None]
    assert [len(part.puts) for part in parts] == [3, 3, 1, 1]
    assert [(part.part, part.last) for part in parts] == [(0, False), (1, False), (2, False), (3, True)]
    assert [put for part in parts for put in part.puts] == [*puts, large]
    assert list(list_parts(WHOLE, [], 3, 200)) == [WHOLE]


def test_a_list_that_is_soon_looked_through_stops_for_nobody() -> None:
    state = a_full_platform().state
    assert None not in list(everything(state, "eu"))


@pytest.mark.parametrize(("short_by", "parts"), [(0, [2]), (1, [1, 1])])
def test_a_part_may_be_full_to_the_byte(short_by: int, parts: list[int]) -> None:
    puts = [c.ShippedPool(f"pool-{number}", number) for number in range(2)]
    size_bytes = sum(len(encode(put)) for put in puts) - short_by
    cut = [part for part in list_parts(WHOLE, puts, 9, size_bytes) if part is not None]
    assert [len(part.puts) for part in cut] == parts
