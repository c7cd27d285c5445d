"""Replicas and rollout on a real region ledger, under any story: they fall silent, and touch no more than they must.

A story is a list of what is asked and what happens; after each step the controllers look until they have nothing to
say. All look at one state, and what they send lands in any order: what one of them decides on is then no longer so.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import Reconciler, principal
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import numbers
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.rollout import SETTLES_MS, RolloutReconciler
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.assignment_world import DIGESTS, NAMES, WORKLOAD, AssignmentWorld

#: What may be asked for at most of one template.
MOST = 5
LOOKS_MOST = 12
CHEAP_FIRST = ("pending", "terminating", "reserved", "bound", "failed", "unknown", "starting", "running", "ready")


class Step(NamedTuple):
    """One thing that happens, and three numbers that say how."""

    verb: str
    first: int
    second: int
    third: int


VERBS = ("scale", "scale", "roll", "mix", "share", "work", "work", "work", "fail", "cut", "report", "wait")
STEPS = st.lists(
    st.builds(Step, st.sampled_from(VERBS), st.integers(0, 255), st.integers(0, 255), st.integers(0, 255)), max_size=25
)


class Story:
    """An assignment, what is asked for, and what becomes of it."""

    def __init__(self, *, exclusive: bool) -> None:
        self.region = AssignmentWorld(nodes=2, checked=False)
        self.exclusive = exclusive
        self.counts = {"one": 2}
        self.share = 1
        self.ask()

    @property
    def asked(self) -> int:
        return sum(self.counts.values())

    def ask(self) -> None:
        ordinals = tuple(range(self.asked)) if self.exclusive else ()
        self.region.ask(self.counts, exclusive=self.exclusive, ordinals=ordinals, disruption=self.share)

    def do(self, step: Step) -> None:
        """One step, and what follows from it, judged."""
        chance = Random(step.first * 65_536 + step.second * 256 + step.third)
        match step.verb:
            case "scale":
                self.scale(step.first % (MOST + 1), chance)
            case "roll":
                self.change({("one", "two", "three")[step.first % 3]: self.asked}, chance)
            case "mix":
                self.change({"one": step.first % 4, "two": step.second % 4, "three": step.third % 3}, chance)
            case "share":
                self.share = step.first % 4
                self.ask()
            case _:
                self.happen(step, chance)
        before = self.region.serving()
        self.settle(chance, ReplicaReconciler(), RolloutReconciler())
        several = len([number for number in self.counts.values() if number]) > 1
        if step.verb == "share" and several:
            return  # a surge of one template that may not be any more goes, whatever the others do
        assert self.region.serving() >= min(before, self.asked - self.share), "a rollout stopped too many that serve"

    def happen(self, step: Step, chance: Random) -> None:
        region, ordinals = self.region, [slot.ordinal for slot in self.region.slots()]
        match step.verb:
            case "work":
                for ordinal in ordinals:
                    for _ in range(chance.randrange(6)):
                        if (WORKLOAD, ordinal) in region.state.slots:
                            region.step(ordinal)
            case "fail":
                alive = [n for n in ordinals if region.slot(n).phase.value in ("starting", "running", "serving")]
                for ordinal in alive[: step.first % 3]:
                    region.move(ordinal, Phase.FAILED, "exit")
            case "cut":
                region.cut(step.first % 2)
            case "report":
                region.report()
            case "wait":
                region.bench.at += SETTLES_MS

    # What is judged

    def scale(self, most: int, chance: Random) -> None:
        """More, or fewer, of each template that there is: what stays is exactly what it was."""
        names = [name for name in self.counts if self.counts[name]] or ["one"]
        up = most >= max(self.counts.values(), default=0)
        choose = max if up else min
        before, counts = self.region.slots(), self.counts
        self.counts = {name: choose(counts.get(name, 0), most) for name in names}
        self.ask()
        self.settle(chance, ReplicaReconciler())
        after = {slot.ordinal: slot for slot in self.region.slots()}
        lost = [slot for slot in before if slot.next_template and slot != after.get(slot.ordinal)]
        if up:
            assert lost == [], "more are wanted, and something that was wanted has changed"
            return
        for slot in lost if not self.exclusive or len(self.counts) == 1 else ():
            left = after.get(slot.ordinal)
            assert left is None or not left.next_template, f"{slot.ordinal} stays, and is not what it was"
        self.judge_losses(lost, [slot for slot in after.values() if slot.next_template])

    def judge_losses(self, lost: list[Slot], kept: list[Slot]) -> None:
        """As many are kept as are wanted, or as there were; of one template none went for one that costs less."""
        if len(self.counts) > 1 or any(slot.template != slot.next_template for slot in (*lost, *kept)):
            return  # a rollout is under way, which keeps a few more
        assert len(kept) == min(self.asked, len(kept) + len(lost))
        if self.exclusive:
            return  # which of them go is not for the region to choose
        ranks = [_rank(slot) for slot in lost]
        assert not kept or not ranks or max(ranks) <= min(_rank(slot) for slot in kept)

    def change(self, counts: dict[str, int], chance: Random) -> None:
        """Other templates, as many or not: no more than the share is missing because of it.

        Where fewer of a template are asked for that stays, some of it go, whatever else may wait.
        """
        self.counts = counts
        self.ask()
        listed = {*numbers(self.region.assignment.ordinals)}  # which identities go is not for the region to choose
        staying = [slot for slot in self.region.slots() if not self.exclusive or slot.ordinal in listed]
        before = Counter(slot.next_template for slot in staying if slot.phase is Phase.SERVING)
        fewer = {name: before[DIGESTS[name]] - number for name, number in counts.items() if number}
        self.settle(chance, ReplicaReconciler(), RolloutReconciler())
        fewest = min(before.total(), self.asked - self.share)
        fewest -= sum(max(0, excess) for excess in fewer.values())
        assert self.region.serving() >= fewest, f"{self.region.serving()} serve, {before.total()} did before"

    def settle(self, chance: Random, *controllers: Reconciler[RegionState]) -> None:
        """All look at one state, and what they send lands in any order, until nobody sends anything."""
        region = self.region
        for looks in count():
            assert looks < LOOKS_MOST, "they are not silent yet"
            sent = [(one.name, wanted.command) for one in controllers for wanted in region.look(one).commands]
            if not sent:
                return
            chance.shuffle(sent)
            answers = [region.bench.send(principal(name), command) for name, command in sent]
            assert any(isinstance(answer, Committed) for answer in answers), f"only refused: {answers}"

    def finish(self) -> None:
        """Left alone, with room for all, exactly what is asked for serves. Identities need a share for it."""
        region = self.region
        self.share = max(1, self.share) if self.exclusive else self.share
        self.ask()
        for _ in range(4 * MOST * 3):
            self.settle(Random(0), ReplicaReconciler(), RolloutReconciler())
            region.work()
            region.bench.at += SETTLES_MS
        self.settle(Random(0), ReplicaReconciler(), RolloutReconciler())
        found: dict[str, int] = {}
        for slot in region.slots():
            assert slot.phase is Phase.SERVING, slot
            found[NAMES[slot.template]] = found.get(NAMES[slot.template], 0) + 1
        assert found == {name: number for name, number in self.counts.items() if number}


def _rank(slot: Slot) -> int:
    return CHEAP_FIRST.index(slot.phase.value) if slot.phase.value in CHEAP_FIRST else len(CHEAP_FIRST)


@given(steps=STEPS, exclusive=st.booleans())
def test_scaling_restarts_nothing_and_a_rollout_keeps_its_share(steps: list[Step], exclusive: bool) -> None:
    story = Story(exclusive=exclusive)
    for step in steps:
        story.do(step)
    story.finish()
