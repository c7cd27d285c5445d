"""What waits to be put right: told bit by bit, the most urgent first."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import TypeVar

import pytest

from holdfast.core.model.records.breaches import BIT, Repair, by_urgency, most_urgent
from tests.support.step_counter import StepCounter

T = TypeVar("T")


def _many(count: int) -> list[Repair | None]:
    chance = Random(5)
    found: list[Repair | None] = [
        Repair("replica", f"replica/{number}", "agent/n1", since=chance.randrange(99), overdue=chance.random() < 0.1)
        for number in range(count)
    ]
    found[::3] = [None] * len(found[::3])
    return found


def _in_bits(work: Generator[None, None, T]) -> tuple[T, int]:
    """What comes of it, and in how many bits before the last."""
    bits = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return done.value, bits
        bits += 1


@pytest.mark.parametrize("most", [1, 20, 5_000])
def test_the_most_urgent_of_very_many_are_found_in_bits_and_all_are_counted(most: int) -> None:
    every = _many(3_000)
    own = [one for one in every if one is not None and one.since % 2]
    (found, total), bits = _in_bits(most_urgent(iter(every), most, lambda one: bool(one.since % 2)))
    assert found == by_urgency(own)[:most]
    assert (total, bits) == (len(own), 3_000 // BIT)


def test_no_bit_grows_with_how_many_there_are() -> None:
    longest = {}
    for count in (2_000, 20_000):
        work, steps = most_urgent(iter(_many(count)), 100, lambda _: True), []
        for _ in range(count // BIT):
            with StepCounter() as counted:
                next(work)
            steps.append(counted.calls)
        longest[count] = max(steps)
    assert longest[20_000] < 2 * longest[2_000]
