"""How replicas are split: tables of who has what, and what each is to have."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.reconcilers.platform.assignment_candidates import candidate_regions_of
from holdfast.core.reconcilers.platform.assignment_split import (
    NO_LIMIT,
    SplitRegion,
    by_weight,
    first_index,
    ideal_split,
    is_settled,
    next_step,
    take_largest_first,
    target_split,
)
from tests.support.ledgers.platform import a_workload, a_world


def a_place(name: str, have: int = 0, **fields: Any) -> SplitRegion:
    return SplitRegion(name, have, turn=ord(name[0]) - ord("a"), **fields)


def three(*haves: int, **fields: Any) -> list[SplitRegion]:
    return [a_place(name, have, **fields) for name, have in zip("abc", haves or (0, 0, 0), strict=True)]


def silent(place: SplitRegion) -> SplitRegion:
    place.takes, place.shaky = False, True
    return place


# What each would have


@pytest.mark.parametrize(("replicas", "expected"), [(0, [0, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (10, [4, 3, 3])])
def test_even_shares_differ_by_one_at_most(replicas: int, expected: list[int]) -> None:
    assert ideal_split(three(), replicas) == expected


def test_what_does_not_divide_goes_first_to_who_has_it_then_by_rank_then_by_turn() -> None:
    assert ideal_split(three(3, 3, 4), 10) == [3, 3, 4]
    places = three(3, 3, 3)
    places[0].rank = 1
    assert ideal_split(places, 10) == [3, 4, 3]
    places[0].rank, places[1].turn = 0, -1
    assert ideal_split(places, 10) == [3, 4, 3]


def test_who_has_it_comes_before_who_is_nearer() -> None:
    near, far = a_place("a", 3), a_place("b", 4, rank=1)
    assert ideal_split([near, far], 7) == [3, 4]


@pytest.mark.parametrize(
    ("weights", "replicas", "expected"),
    [
        ((1, 1, 2), 8, [2, 2, 4]),
        ((1, 0, 1), 4, [2, 0, 2]),
        ((5, 3, 1), 10, [6, 3, 1]),  # 5.6, 3.3, 1.1: the largest remainder
        ((1, 1, 1), 1, [1, 0, 0]),
    ],
)
def test_weights_are_met_by_the_largest_remainder(weights: tuple[int, ...], replicas: int, expected: list[int]) -> None:
    places = [a_place(name, weight=weight) for name, weight in zip("abc", weights, strict=True)]
    assert ideal_split(places, replicas) == expected


def test_what_does_not_divide_is_shared_among_those_alone_that_may_have_some() -> None:
    """With a third that may have none, one of four parts would be one of five, and its remainder the larger one."""
    places = [a_place("a", weight=3), a_place("b", weight=1), a_place("c", weight=1, cap=0)]
    assert ideal_split(places, 2) == [*ideal_split(places[:2], 2), 0] == [2, 0, 0]


def test_who_takes_just_its_part_has_its_part_of_what_does_not_divide() -> None:
    assert ideal_split([a_place("a"), a_place("b", 4, cap=2), a_place("c", weight=3)], 8) == [1, 2, 5]


def test_remainders_of_many_workloads_do_not_pile_up_in_one_region() -> None:
    first = [first_index(uid << 20, 3) for uid in range(300)]
    assert all(60 < first.count(region) < 140 for region in range(3))


def test_the_primary_has_it_all_and_without_it_the_best_of_the_others() -> None:
    assert ideal_split(three(2, 2, 2), 6, "b") == [0, 6, 0]
    gone = [a_place("a", rank=1), a_place("c")]
    assert ideal_split(gone, 6, "b") == [0, 6]
    assert ideal_split([a_place("a"), a_place("c")], 6, "b") == [6, 0]


def test_a_stand_in_is_not_changed_for_one_that_is_merely_first_by_name() -> None:
    assert ideal_split([a_place("a"), a_place("c", 6)], 6, "b") == [0, 6]


def test_what_a_silent_primary_cannot_take_goes_to_the_next() -> None:
    assert ideal_split([a_place("a"), silent(a_place("b", 4))], 6, "b") == [2, 4]


def test_a_silent_region_is_not_given_more_and_a_strained_one_no_more_than_it_takes() -> None:
    assert ideal_split([silent(a_place("a", 1)), a_place("b"), a_place("c")], 9) == [1, 4, 4]
    assert ideal_split([a_place("a", 3, cap=2), a_place("b"), a_place("c")], 9) == [2, 4, 3]


def test_what_is_beyond_every_cap_has_to_be_somewhere() -> None:
    assert ideal_split([a_place("a", 3, cap=1), a_place("b", 3, cap=1)], 6) == [3, 3]


def test_where_nobody_takes_more_some_are_nowhere() -> None:
    assert ideal_split([silent(a_place("a", 2))], 5) == [2]


# What each is to have


def test_from_nothing_to_the_ideal() -> None:
    assert target_split(three(), 10) == [4, 3, 3]


def test_more_goes_where_most_is_lacking_and_nobody_loses_any() -> None:
    assert target_split(three(1, 3, 2), 9) == [3, 3, 3]
    assert target_split(three(4, 2, 1), 9) == [4, 3, 2]


def test_less_is_taken_where_most_is_over() -> None:
    assert target_split(three(4, 3, 3), 9) == [3, 3, 3]
    assert target_split(three(6, 3, 3), 9) == [3, 3, 3]


def test_what_is_off_by_one_stays() -> None:
    assert target_split(three(4, 2, 3), 9) == [4, 2, 3]
    assert is_settled(three(4, 2, 3), 9)


def test_what_is_off_by_two_is_corrected() -> None:
    assert target_split(three(5, 3, 1), 9) == [3, 3, 3]
    assert not is_settled(three(5, 3, 1), 9)


def test_a_region_that_has_none_gets_its_share() -> None:
    assert target_split(three(2, 1, 0), 3) == [1, 1, 1]


def test_half_a_move_has_the_same_target() -> None:
    assert (
        target_split(three(5, 3, 1), 9)
        == target_split(three(5, 3, 3), 9)
        == target_split(three(4, 3, 3), 9)
        == [3, 3, 3]
    )


def test_nothing_is_corrected_while_a_region_that_has_some_is_silent() -> None:
    assert target_split([a_place("a", 5), silent(a_place("b", 3)), a_place("c", 1)], 9) == [5, 3, 1]


def test_less_is_wanted_also_of_a_silent_region() -> None:
    assert target_split([a_place("a", 3), silent(a_place("b", 3)), a_place("c", 3)], 3) == [1, 1, 1]


def test_new_ones_go_where_there_is_room() -> None:
    assert target_split([a_place("a", 3, room=0), a_place("b", 3), a_place("c", 3)], 15) == [3, 6, 6]
    assert target_split([a_place("a", 3, room=1), a_place("b", 3, room=2), a_place("c", 3)], 15) == [4, 5, 6]


def test_if_nobody_has_room_new_ones_go_by_the_ideal() -> None:
    assert target_split(three(1, 1, 1, room=0), 6) == [2, 2, 2]


@pytest.mark.parametrize("other", [silent(a_place("a", 1)), a_place("a", 1, weight=0)], ids=["silent", "no weight"])
def test_if_nobody_has_room_none_goes_to_who_takes_no_more(other: SplitRegion) -> None:
    assert target_split([other, a_place("b", 1, room=0)], 4) == [1, 3]
    assert target_split([other], 4) == [1]


def test_up_to_a_cap_and_no_further_while_others_may_have_it() -> None:
    assert target_split([a_place("a", 2, cap=3), a_place("b", room=2)], 8) == [3, 5]
    assert target_split([a_place("a", 2, cap=3), a_place("b", 3)], 4, "a") == [3, 1]
    assert target_split([a_place("a", 4, cap=4), a_place("b", 5, cap=5)], 10, "a") == [5, 5], (
        "one of all that are beyond"
    )


def test_what_came_new_has_taken_of_the_room_for_what_is_moved() -> None:
    assert target_split([a_place("a", 4, room=1), a_place("b", 1)], 9, "a") == [5, 4]


def test_of_what_is_not_moved_less_is_taken_where_most_is_over() -> None:
    places = [a_place("a", 4, weight=3), a_place("b", 4)]
    assert target_split(places, 4, stays=True) == [3, 1]


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=5), st.integers(0, 30), st.randoms())
def test_what_is_taken_is_taken_one_by_one_where_most_is_left(amounts: list[int], count: int, chance: Random) -> None:
    order = chance.sample(range(len(amounts)), len(amounts))
    left, taken = list(amounts), [0] * len(amounts)
    for _ in range(count):
        index = max(order, key=lambda index: (left[index], -order.index(index)))
        left[index] -= 1
        taken[index] += 1
    assert take_largest_first(amounts, order, count) == taken


def test_a_workload_has_its_turns_from_one_version_to_the_next() -> None:
    """Otherwise what does not divide would move with the program."""
    assert [first_index(uid << 20, 7) for uid in range(1, 9)] == [1, 5, 2, 6, 3, 0, 4, 5]


def test_nothing_is_moved_to_where_there_is_no_room() -> None:
    assert target_split([a_place("a", 6), a_place("b", 0, room=0)], 6) == [6, 0]
    assert target_split([a_place("a", 6), a_place("b", 0, room=1)], 6) == [5, 1]


def test_what_a_region_has_offered_back_goes_to_the_others() -> None:
    strained = a_place("a", 3, cap=1, strained=True)
    assert target_split([strained, a_place("b", 3), a_place("c", 3)], 9) == [1, 4, 4]


def test_what_was_offered_back_goes_above_the_share_of_who_has_room_if_those_below_theirs_have_none() -> None:
    """Found by partition-skew 54310: us offered one back, eu was below its share and full, ap had more and room."""
    ap, eu = a_place("a", 5, room=3), a_place("b", 2, room=0)
    assert target_split([ap, eu, a_place("c", 5, cap=4, strained=True)], 12) == [6, 2, 4]
    half = [a_place("a", 6, room=2), eu, a_place("c", 5, cap=4, strained=True)]
    assert target_split(half, 12) == [6, 2, 4], "half a move has the same target"
    assert target_split([a_place("a", 6, room=2), eu, a_place("c", 4, cap=4, strained=True)], 12) == [6, 2, 4]
    assert target_split([a_place("a", 6, room=2), eu, a_place("c", 4)], 12) == [6, 2, 4], "nor is it brought back"


def test_no_more_goes_above_a_share_than_there_is_room_for_and_first_it_goes_below() -> None:
    strained = a_place("c", 6, cap=3, strained=True)
    assert target_split([a_place("a", 5, room=1), a_place("b", 1, room=1), strained], 12) == [6, 2, 4]
    assert target_split([a_place("a", 5, room=9), a_place("b", 1, room=9), strained], 12) == [5, 4, 3]


@pytest.mark.parametrize(
    "full",
    [
        silent(a_place("a", 5)),
        a_place("a", 5, weight=0),
        a_place("a", 5, strained=True),
        a_place("a", 5, cap=5),
        a_place("a", 5, room=0),
    ],
    ids=["silent", "no weight", "offered some back", "capped", "no room"],
)
def test_nothing_goes_above_a_share_where_no_more_is_taken(full: SplitRegion) -> None:
    places = [full, a_place("b", 2, room=0), a_place("c", 5, cap=4, strained=True)]
    assert target_split(places, 12) == [5, 2, 5]


def test_what_a_silent_region_had_offered_back_stays_with_it() -> None:
    places = [a_place("a", 5, room=3), a_place("b", 2, room=0), silent(a_place("c", 5, cap=4, strained=True))]
    assert target_split(places, 12) == [5, 2, 5]


def test_what_the_primary_and_its_stand_in_have_no_room_for_goes_to_the_next() -> None:
    places = [a_place("a", 5, cap=4, strained=True), a_place("b", 1, room=0), a_place("c", room=3)]
    assert target_split(places, 6, "a") == [4, 1, 1]


def test_of_what_is_wanted_no_more_that_goes_first_which_waits() -> None:
    places = [a_place("a", 6, room=3), a_place("b", 2, room=0), a_place("c", 5, cap=4, strained=True)]
    assert target_split(places, 12) == [6, 2, 4]
    assert target_split([a_place("a", 5, cap=4, strained=True), a_place("b", 6, room=0)], 9) == [4, 5]


LIMITS = st.sampled_from([0, 0, 1, 2, 9, NO_LIMIT])
PLACES = st.builds(
    lambda name, have, room, less: a_place(
        name, have, room=room, cap=NO_LIMIT if less is None else max(0, have - less), strained=less is not None
    ),
    st.sampled_from("abc"), st.integers(0, 6), LIMITS, st.none() | st.integers(0, 2),
)  # fmt: skip


@given(st.lists(PLACES, min_size=2, max_size=3, unique_by=lambda one: one.name), st.sampled_from(["", "a", "b"]))
def test_nothing_stays_where_it_waits_while_another_region_has_room(places: list[SplitRegion], primary: str) -> None:
    replicas = sum(place.have for place in places)
    found = target_split(places, replicas, primary)
    assert sum(found) == replicas
    waits = any(count > place.cap for place, count in zip(places, found, strict=True))
    room = any(not p.strained and count < p.have + p.room for p, count in zip(places, found, strict=True))
    assert not (waits and room), found


def test_what_nobody_else_takes_stays_where_it_was_offered_back() -> None:
    strained = a_place("a", 3, cap=1, strained=True)
    assert target_split([strained, a_place("b", 3, room=0)], 6) == [3, 3]
    assert target_split([strained, a_place("b", 3, cap=3, strained=True)], 6) == [3, 3]


def test_nothing_is_moved_back_to_a_region_while_its_offer_lasts() -> None:
    places = [a_place("a", 1, cap=NO_LIMIT, strained=True), a_place("b", 4), a_place("c", 4)]
    assert target_split(places, 9) == [1, 4, 4]
    places[0].strained = False
    assert target_split(places, 9) == [3, 3, 3]


def test_with_a_primary_any_difference_is_worth_a_move() -> None:
    assert target_split([a_place("a", 1), a_place("b", 5)], 6, "b") == [0, 6]


@pytest.mark.parametrize("haves", [(0, 0, 0), (9, 0, 0), (2, 5, 1), (7, 7, 7)])
@pytest.mark.parametrize("replicas", [0, 1, 5, 12])
def test_the_target_of_a_target_is_itself(haves: tuple[int, ...], replicas: int) -> None:
    found = target_split(three(*haves), replicas)
    assert sum(found) == replicas
    assert target_split(three(*found), replicas) == found
    assert is_settled(three(*found), replicas)


# Arithmetic


def test_the_largest_gives_first_then_the_order_decides() -> None:
    assert take_largest_first([5, 3, 1], [0, 1, 2], 3) == [3, 0, 0]
    assert take_largest_first([5, 3, 1], [0, 1, 2], 4) == [3, 1, 0]
    assert take_largest_first([2, 2, 2], [2, 1, 0], 1) == [0, 0, 1]
    assert take_largest_first([0, 0], [0, 1], 3) == [2, 1]


def test_portions_of_nothing_are_nothing() -> None:
    assert by_weight(three(), 0) == [0, 0, 0]


# What each is told now


def told(rows: list[tuple[int, int, int]], replicas: int, **fields: Any) -> list[int]:
    """Rows: how many it has, how many are ready, how many it is to have."""
    places = [a_place(name, have, ready=ready) for name, (have, ready, _) in zip("abcd", rows, strict=False)]
    return next_step(places, [goal for _, _, goal in rows], replicas, **fields)


def test_more_is_told_at_once_and_less_when_others_stand_in() -> None:
    assert told([(3, 3, 0), (3, 3, 6)], 6) == [3, 6]
    assert told([(3, 3, 0), (6, 4, 6)], 6) == [2, 6]
    assert told([(2, 3, 0), (6, 4, 6)], 6) == [2, 6]  # the region has not said yet that it has one less
    assert told([(2, 2, 0), (6, 6, 6)], 6) == [0, 6]


def test_what_is_not_ready_is_taken_at_once() -> None:
    assert told([(3, 1, 0), (3, 3, 6)], 6) == [1, 6]
    assert told([(3, 0, 0), (0, 0, 3)], 3) == [0, 3]


def test_scaling_down_has_a_surplus_at_once() -> None:
    assert told([(3, 3, 1), (3, 3, 1), (3, 3, 1)], 3) == [1, 1, 1]


def test_a_surplus_goes_first_to_where_nothing_is_to_be() -> None:
    assert told([(4, 4, 2), (2, 2, 0), (2, 2, 4)], 6) == [4, 0, 4]


def test_what_waits_for_quota_that_others_hold_is_made_room_for() -> None:
    assert told([(3, 3, 0), (6, 3, 6)], 6, unpaid=1) == [2, 6]
    assert told([(2, 2, 0), (6, 3, 6)], 6, unpaid=1) == [2, 6]


def test_down_to_its_floor_a_region_is_lowered_whatever_is_ready() -> None:
    late = SplitRegion("a", 3, ready=3, floor=0)
    assert next_step([late, a_place("b", 0)], [0, 3], 3) == [0, 3]
    strained = SplitRegion("a", 5, ready=5, floor=3)
    assert next_step([strained, a_place("b", 0)], [3, 2], 5) == [3, 2]


@pytest.mark.parametrize(
    ("places", "targets", "replicas", "told"),
    [
        # who stays is ready with all it has, whatever its floor
        ([a_place("a", 2, ready=2, floor=1), a_place("b", 3, ready=3)], [2, 1], 3, [2, 1]),
        # more of it is idle than it is to lose: that spares no other
        ([a_place("a", 5, ready=0), a_place("b", 4, ready=4)], [3, 2], 5, [3, 4]),
        # some of it is idle, and enough are ready elsewhere: it is told its target, and not less
        ([a_place("a", 5, ready=4), a_place("b", 5, ready=5)], [3, 5], 4, [3, 5]),
    ],
)
def test_who_is_lowered_is_told_no_less_than_its_target(
    places: list[SplitRegion], targets: list[int], replicas: int, told: list[int]
) -> None:
    assert next_step(places, targets, replicas) == told


def test_a_floor_gives_nothing_to_others() -> None:
    places = [SplitRegion("a", 3, ready=3, floor=0), a_place("b", 3, ready=3), a_place("c", 0)]
    assert next_step(places, [0, 1, 5], 6) == [0, 3, 5]


def test_the_region_whose_turn_it_is_comes_first_and_the_others_follow_in_their_order() -> None:
    bench = a_world()
    uid = bench.put(a_workload())
    names = [name for name, _ in bench.state.regions.items()]
    first = 1
    workload = bench.state.workloads[uid]
    for other in range(1, 400):
        if first_index(other, len(names)) == first:
            workload = replace(workload, meta=replace(workload.meta, uid=other))
            break
    sites = candidate_regions_of(bench.state, workload, (), (), bench.at)
    assert {site.place.name: site.place.turn for site in sites.all} == {
        name: (number - first) % len(names) for number, name in enumerate(names)
    }
