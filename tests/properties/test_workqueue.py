"""The work queue under any program: no key is lost, none is with two workers, and everything is done in the end.

A program is a list of what is asked of the queue and when; workers take keys for as long as the program says, and fail
now and then. What happened is written down in one order and judged afterwards.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.host.controllers.workqueue import QueueOptions, WorkQueue
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual

KEYS = ("a", "b", ("c", 1))


class Step(NamedTuple):
    """After a pause, ask for a key in one of the ways there are."""

    pause_ms: int
    verb: str
    key: object
    delay_ms: int


class Job(NamedTuple):
    """How long one piece of work takes, whether it ends with a retry, and whether the key is added meanwhile."""

    takes_ms: int
    fails: bool
    adds: bool


class Event(NamedTuple):
    """What happened when; what was asked for with a delay is `due` at another time."""

    at: int
    verb: str
    key: object
    due: int = 0


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from((0, 0, 0, 1, 7, 50)),
        st.sampled_from(("add", "add", "patrol", "add_after", "forget")),
        st.sampled_from(KEYS),
        st.sampled_from((0, 1, 5, 60, 400)),
    ),
    max_size=40,
)
JOBS = st.lists(st.builds(Job, st.sampled_from((0, 1, 10, 80)), st.booleans(), st.booleans()), max_size=20)
PACES = st.builds(QueueOptions, st.just(10), st.just(100), st.sampled_from((5, 100, 1_000)), st.integers(1, 5))


class Run:
    """One program on one queue, with everything that happened."""

    def __init__(self, jobs: list[Job], options: QueueOptions) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.queue = WorkQueue(self.clock, "tested", options=options)
        self.jobs = iter(jobs)
        self.events: list[Event] = []

    def note(self, verb: str, key: object, delay_ms: int = 0) -> None:
        now = self.clock.boot()
        self.events.append(Event(now, verb, key, now + delay_ms))

    def ask(self, verb: str, key: object, delay_ms: int = 0) -> None:
        if verb == "forget":
            self.queue.forget(key)
        elif verb == "add_after":
            self.note("due", key, delay_ms)
            self.queue.add_after(key, delay_ms)
        elif verb == "retry":
            self.note("due", key, self.queue.retry(key))
        else:
            self.note("add", key)
            (self.queue.add if verb == "add" else self.queue.add_resync)(key)

    async def work(self) -> None:
        while True:
            key = (await self.queue.take()).key
            job = next(self.jobs, Job(0, False, False))
            self.note("take", key)
            await self.clock.sleep(job.takes_ms)
            if job.adds:
                self.ask("add", key)
            if job.fails:
                self.ask("retry", key)
            self.note("done", key)
            self.queue.done(key)


def happened(steps: list[Step], jobs: list[Job], options: QueueOptions, workers: int) -> list[Event]:
    async def story() -> list[Event]:
        run = Run(jobs, options)
        tasks = [asyncio.create_task(run.work()) for _ in range(workers)]
        for step in steps:
            if step.pause_ms:
                await run.clock.sleep(step.pause_ms)
            run.ask(step.verb, step.key, step.delay_ms)
        await run.clock.sleep(100_000)
        assert (run.queue.depth(), run.queue.patrol_depth(), run.queue.lag_ms()) == (0, 0, 0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return run.events

    return run_virtual(story())


def worked_on_twice_at_a_time(events: list[Event]) -> list[Event]:
    working: set[object] = set()
    found = []
    for event in events:
        if event.verb == "take":
            if event.key in working:
                found.append(event)
            working.add(event.key)
        elif event.verb == "done":
            working.discard(event.key)
    return found


def promised(events: list[Event]) -> list[tuple[int, Event]]:
    """What has to be worked on after its place in the order and not before it is due: of two times that are yet to
    come, only the earlier."""
    promises = []
    sleeping: dict[object, tuple[int, Event]] = {}
    for number, asked in enumerate(events):
        if asked.verb == "add":
            promises.append((number, asked))
        elif asked.verb == "due":
            before = sleeping.get(asked.key)
            if before is not None and before[1].due <= asked.at:
                promises.append(before)
                before = None
            if before is None or asked.due < before[1].due:
                sleeping[asked.key] = (number, asked)
    return promises + list(sleeping.values())


def lost(events: list[Event]) -> list[Event]:
    """What was promised and not kept."""
    return [
        asked
        for number, asked in promised(events)
        if not any(e.verb == "take" and e.key == asked.key and e.at >= asked.due for e in events[number:])
    ]


def too_fast(events: list[Event], options: QueueOptions) -> bool:
    """Whether more keys were taken in some stretch of time than a burst and the pace allow."""
    taken = [event.at for event in events if event.verb == "take"]
    return any(
        later - earlier < (count - options.burst) * 1_000 // options.per_second
        for first, earlier in enumerate(taken)
        for count, later in enumerate(taken[first:], start=1)
    )


@given(STEPS, JOBS, PACES, st.integers(1, 3))
def test_no_key_is_lost_none_is_worked_on_twice_at_a_time_and_the_pace_is_kept(
    steps: list[Step], jobs: list[Job], options: QueueOptions, workers: int
) -> None:
    events = happened(steps, jobs, options, workers)
    assert lost(events) == []
    assert worked_on_twice_at_a_time(events) == []
    assert not too_fast(events, options)
    verbs = Counter((event.verb, event.key) for event in events)
    for key in KEYS:
        assert verbs["take", key] <= verbs["add", key] + verbs["due", key]


@given(STEPS, JOBS, PACES, st.integers(1, 3))
def test_the_same_program_gives_the_same_run(
    steps: list[Step], jobs: list[Job], options: QueueOptions, workers: int
) -> None:
    assert happened(steps, jobs, options, workers) == happened(steps, jobs, options, workers)


def test_the_judges_find_what_they_are_there_to_find() -> None:
    asked = [Event(0, "add", "a"), Event(5, "take", "a"), Event(5, "add", "a")]
    assert lost(asked) == [asked[2]]
    assert lost([Event(0, "due", "a", 9), Event(8, "take", "a")]) != []
    assert lost([Event(0, "due", "a", 5), Event(0, "due", "a", 9), Event(5, "take", "a")]) == []
    assert worked_on_twice_at_a_time([Event(0, "take", "a"), Event(1, "take", "a")]) != []
    assert too_fast([Event(0, "take", "a"), Event(1, "take", "b")], QueueOptions(per_second=10, burst=1))
