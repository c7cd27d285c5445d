"""A sorted list that is shared by reference: what a set and `sorted` would say, at the price of one chunk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values.sorted_list import CHUNK, SortedList


@given(st.lists(st.integers(0, 400), max_size=400), st.lists(st.integers(0, 400), max_size=400))
def test_it_holds_what_came_and_did_not_go_in_order(first: list[int], then: list[int]) -> None:
    kept = set(first)
    found = SortedList(kept)
    for value in then:
        before = list(found)
        after = found.without(value) if value in found else found.with_(value)
        assert list(found) == before
        kept ^= {value}
        found = after
    assert list(found) == sorted(kept)
    assert len(found) == len(kept)
    places = list(range(len(found) - 1, -1, -3))
    assert found.each(places) == [sorted(kept)[place] for place in places]
    assert [found.place_of(value) for value in sorted(kept)] == list(range(len(kept)))
    assert all(value in found for value in kept)
    assert -1 not in found
    assert 401 not in found


def test_a_change_copies_one_chunk_however_long_the_list_is() -> None:
    for count in (1_000, 8_000):
        found = SortedList(range(0, 2 * count, 2))
        for value in range(1, count, 7):
            known, found = {id(chunk): chunk for chunk in found._chunks}, found.with_(value)
            copied = [chunk for chunk in found._chunks if id(chunk) not in known]
            assert sum(map(len, copied)) <= CHUNK + 1
        assert len(found._chunks) <= 2 * len(found) // (CHUNK // 2)
