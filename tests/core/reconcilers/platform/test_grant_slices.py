"""Whatever a quota and its regions are like: slices fit, nobody is raised who must not be, and it comes to rest."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values.resources import (
    ZERO,
    Resources,
    elementwise_max,
    elementwise_min,
    first_exceeded,
    total,
)
from holdfast.core.reconcilers.platform.grant_slices import GrantSlice, apportion, slice_targets, turns_on_uses
from holdfast.core.reconcilers.platform.grant_targets import ProtectedShare, differs_much, spread_protection
from tests.support.ledgers.platform import cpu

AMOUNTS = st.builds(Resources, cpu=st.integers(0, 40), memory=st.integers(0, 40))


@st.composite
def slices(draw: st.DrawFn) -> GrantSlice:
    target, more = draw(AMOUNTS), draw(AMOUNTS | st.just(ZERO))
    return GrantSlice(
        draw(AMOUNTS), draw(AMOUNTS), target, elementwise_max(target, more), draw(st.booleans()), draw(st.booleans())
    )


def answered(one: GrantSlice, target: Resources) -> GrantSlice:
    return one._replace(target=target, offered=target, has_answered=True)


@given(AMOUNTS, st.lists(slices(), max_size=4))
def test_what_is_raised_fits_and_goes_only_to_those_who_are_heard_and_have_answered(
    limit: Resources, ones: list[GrantSlice]
) -> None:
    new = slice_targets(limit, ones)
    before = total(one.offered for one in ones)
    after = total(elementwise_max(one.offered, target) for one, target in zip(ones, new, strict=True))
    assert not first_exceeded(after, elementwise_max(limit, before))
    for one, target in zip(ones, new, strict=True):
        if first_exceeded(target, one.target):
            assert one.is_well
            assert one.has_answered
            assert not first_exceeded(before, limit)


@given(AMOUNTS, st.lists(slices(), max_size=4))
def test_when_everybody_answers_cutting_comes_to_rest_and_all_have_what_there_is(
    limit: Resources, ones: list[GrantSlice]
) -> None:
    ones = [one._replace(uses=ZERO, is_well=True, has_answered=True, offered=one.target) for one in ones]
    for _ in range(12):
        new = slice_targets(limit, ones)
        if new == [one.target for one in ones]:
            break
        ones = [answered(one, target) for one, target in zip(ones, new, strict=True)]
    else:
        raise AssertionError("it is cut for ever")
    asked = total(one.asked for one in ones)
    for name in ("cpu", "memory"):
        if getattr(asked, name) <= getattr(limit, name):
            assert all(getattr(one.target, name) >= getattr(one.asked, name) for one in ones)
    assert not first_exceeded(total(one.target for one in ones), limit)


@given(AMOUNTS, st.lists(slices(), max_size=4), st.data())
def test_what_is_protected_is_within_the_slice_and_never_raised_above_the_whole(
    whole: Resources, ones: list[GrantSlice], data: st.DataObject
) -> None:
    shields = [
        ProtectedShare(
            one.asked, one.target, elementwise_min(data.draw(AMOUNTS), one.target), one.is_well, one.has_answered
        )
        for one in ones
    ]
    new = spread_protection(whole, shields)
    before = total(one.protected for one in shields)
    assert not first_exceeded(total(new), elementwise_max(whole, before))
    for one, amount in zip(shields, new, strict=True):
        assert not first_exceeded(amount, one.target)
        # Each offer is judged while the others are as they were.
        if first_exceeded(amount, one.protected):
            assert not first_exceeded(before, whole)


@pytest.mark.parametrize(
    ("whole", "shields", "new"),
    [
        (40, [(10, 20, 5, True), (0, 30, 5, True), (10, 20, 10, True)], [20, 0, 15]),  # by what is asked, as room comes
        (10, [(5, 10, 20, False), (0, 4, 5, True)], [10, 0]),  # what a silent one protects is not there for others
    ],
)
def test_what_is_protected_is_spread_by_what_is_asked(
    whole: int, shields: list[tuple[int, int, int, bool]], new: list[int]
) -> None:
    known = [ProtectedShare(cpu(asked), cpu(has), cpu(mine), is_well, True) for asked, has, mine, is_well in shields]
    assert spread_protection(cpu(whole), known) == [cpu(amount) for amount in new]


@given(st.integers(0, 1_000), st.lists(st.integers(0, 50), max_size=6))
def test_parts_are_the_whole_to_the_last_unit(whole: int, weights: list[int]) -> None:
    found = apportion(whole, weights)
    assert sum(found) == (whole if any(weights) else 0)
    assert all(part == 0 for part, weight in zip(found, weights, strict=True) if not weight)


def test_a_quarter_is_near_and_more_is_far() -> None:
    assert not differs_much(cpu(100), cpu(75))
    assert differs_much(cpu(100), cpu(74))
    assert differs_much(ZERO, cpu(1))
    assert not differs_much(ZERO, ZERO)


@pytest.mark.parametrize(("target", "raised"), [(44, 44), (43, 50)])
def test_of_too_little_who_has_its_part_but_for_an_eighth_is_left_and_who_lacks_more_gets_it(
    target: int, raised: int
) -> None:
    ones = [GrantSlice(cpu(80), ZERO, cpu(has), cpu(has), True, True) for has in (target, 50)]
    assert slice_targets(cpu(100), ones) == [cpu(raised), cpu(50)]


@pytest.mark.parametrize(
    ("whole", "ones", "new", "turns"),
    [
        # asked, used, has; offered where that is more; "silent" and "asked" for who is not heard or has not answered
        # what lacks gets what it asks for, its ease and half of the rest
        (100, [(0, 10, 4, "silent"), (60, 10, 45), (10, 0, 12, 17)], [4, 72, 12], True),
        # also beside who has enough
        (100, [(20, 4, 20), (60, 0, 0)], [20, 72], True),
        # who asks for nothing has its ease
        (60, [(5, 0, 5, 10), (0, 0, 0), (20, 0, 10)], [5, 5, 30], True),
        # too little: by what is asked, and who has more gives back
        (60, [(20, 0, 30), (60, 0, 4, 9), (0, 20, 10)], [15, 20, 0], True),
        # too little, and nobody is far from its part
        (40, [(10, 0, 5), (40, 0, 20), (20, 4, 10, 15)], [5, 20, 10], True),
        # more is out than there is
        (40, [(60, 10, 45), (20, 10, 12, "silent"), (10, 0, 12)], [26, 10, 4], True),
        # and one has it all
        (20, [(20, 0, 30)], [20], True),
        # who uses it keeps it
        (20, [(0, 20, 20), (20, 0, 0, "silent", "asked")], [20, 0], False),
        # who has most above its part gives back
        (100, [(20, 0, 45), (10, 0, 20), (40, 20, 0)], [25, 20, 35], True),
        # far too much is given back, needed or not
        (100, [(0, 0, 45, 50), (5, 10, 5), (40, 0, 4)], [9, 8, 42], True),
        # far too much of one spares the others
        (40, [(10, 0, 0), (10, 10, 20), (0, 0, 12)], [8, 20, 3], True),
        # so does what is on its way back
        (60, [(18, 0, 17), (10, 0, 13, 24, "asked"), (10, 0, 19)], [17, 13, 19], True),
        # nothing is on its way
        (60, [(18, 0, 17), (10, 0, 24, "asked"), (10, 0, 19)], [17, 24, 13], True),
        # half of what it might have is near enough
        (40, [(0, 0, 10)], [10], False),
        # who has enough stays, whatever silent ones hold
        (40, [(0, 0, 4, 9, "silent"), (10, 10, 10, 15), (5, 0, 5, 10, "silent")], [4, 10, 5], False),
    ],
)
def test_a_whole_is_cut_by_what_is_asked_used_and_had(
    whole: int, ones: list[tuple[int | str, ...]], new: list[int], turns: bool
) -> None:
    slices = [told(*one) for one in ones]
    assert slice_targets(cpu(whole), slices) == [cpu(target) for target in new]
    assert turns_on_uses(cpu(whole), slices) is turns


def told(*words: int | str) -> GrantSlice:
    asked, used, has, *more = [word for word in words if isinstance(word, int)]
    offered = more[0] if more else has
    return GrantSlice(cpu(asked), cpu(used), cpu(has), cpu(offered), "silent" not in words, "asked" not in words)


@pytest.mark.parametrize(("uses", "second"), [(0, 19), (24, 13)], ids=["it gives enough", "it uses all it has"])
def test_who_holds_most_gives_back_first_and_the_next_only_if_that_is_not_enough(uses: int, second: int) -> None:
    has = ((18, 0, 17), (10, uses, 24), (10, 0, 19))
    ones = [GrantSlice(cpu(asked), cpu(used), cpu(target), cpu(target), True, True) for asked, used, target in has]
    assert slice_targets(cpu(60), ones) == [cpu(17), cpu(13), cpu(second)]


@pytest.mark.parametrize(("whole", "kept"), [(30, 30), (31, 15)])
def test_who_holds_twice_what_it_should_keeps_it_and_who_holds_more_gives_back(whole: int, kept: int) -> None:
    """Nobody asks for anything: half of what there is may stay lent."""
    only = GrantSlice(ZERO, ZERO, cpu(whole), cpu(whole), True, True)
    assert slice_targets(cpu(whole), [only]) == [cpu(kept)]


def test_whatever_other_uses_change_about_slices_at_rest_turns_on_them() -> None:
    """By this a quota is looked at again before long, or is left in peace."""
    chance, changed, resting = Random(7), 0, 0
    for _ in range(5_000):
        limit, count = chance.choice((0, 500, 1_000, 1_350)), chance.randint(1, 3)
        ones = [
            GrantSlice(
                cpu(chance.choice((0, 0, 250, 500, 900))),
                cpu(chance.choice((0, 250, 500))),
                cpu(chance.choice((0, 58, 250, 500, 558))),
                cpu(chance.choice((0, 250, 500, 558))),
                chance.random() < 0.8,
                chance.random() < 0.8,
            )
            for _ in range(count)
        ]
        ones = [one._replace(offered=cpu(max(one.offered.cpu, one.target.cpu))) for one in ones]
        for _ in range(6):  # let it come to rest
            ones = [
                one._replace(target=new, offered=cpu(max(one.offered.cpu, new.cpu)))
                for one, new in zip(ones, slice_targets(cpu(limit), ones), strict=True)
            ]
        others = [one._replace(uses=cpu(chance.choice((0, 250, 500)))) for one in ones]
        is_at_rest = slice_targets(cpu(limit), ones) == [one.target for one in ones]
        resting += is_at_rest and not turns_on_uses(cpu(limit), others)
        if is_at_rest and slice_targets(cpu(limit), others) != [one.target for one in ones]:
            changed += 1
            assert turns_on_uses(cpu(limit), others), (limit, ones, others)
    assert changed > 100
    assert resting > 100
