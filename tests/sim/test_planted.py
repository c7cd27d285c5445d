"""A test of the tester: bugs planted in the servers are found by the observer, which knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.ledger import judge
from holdfast.host import group_commit
from holdfast.host.proof import Proof
from holdfast.sim.loop import run_virtual
from tests.sim.test_world import Play

SEEDS = range(40)


def answer_before_durable(patch: pytest.MonkeyPatch) -> None:
    commit = group_commit.GroupCommit._commit

    async def planted(self: Any, now: Any) -> None:
        self._answer(now)
        await commit(self, now)

    patch.setattr(group_commit.GroupCommit, "_commit", planted)


def repeat_executed_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(judge, "earlier_answer", lambda _state, _case: None)


def linear_read_without_proof(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Proof, "covers", lambda _self, _questions: True)


PLANTED: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "answer before durable": (answer_before_durable, "acknowledged-is-durable"),
    "repeat executed twice": (repeat_executed_twice, "once"),
    "linear read without proof": (linear_read_without_proof, "linear"),
}


async def findings(seed: int) -> set[str]:
    it = Play(seed)
    try:
        await it.run(faults=6)
    finally:
        await it.world.end()
    return {finding.promise for finding in await it.audit.finish()}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_within_forty_seeds(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, promise = PLANTED[bug]
    plant(monkeypatch)
    found = next((seed for seed in SEEDS if promise in run_virtual(findings(seed))), None)
    assert found is not None, f"{bug}: not found in {SEEDS}"


def test_the_same_seeds_are_clean_without_a_bug() -> None:
    assert all(run_virtual(findings(seed)) == set() for seed in SEEDS)
