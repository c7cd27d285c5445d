"""Which keys of a reconciler a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.reconciler import EVERYTHING, SCHEDULERS_MAX, keys_to_wake, owner_of, scheduler_principal


class Wakes:
    """Watches nodes and slots: a change of a node concerns everything, one of a slot the key that it names."""

    name, watches = "wakes", ("node", "slot")

    def keys(self, _state: Any) -> list[Any]:
        return ["a", "b"]

    def wake(self, _state: Any, touched: tuple[str, Any]) -> Any:
        kind, key = touched
        return EVERYTHING if kind == "node" else (key,)

    def reconcile(self, _state: Any, _key: Any, _now: int) -> Any:
        raise AssertionError("nobody asked")


@pytest.mark.parametrize(
    ("touched", "keys"),
    [
        ([], []),
        ([("slot", "b"), ("workload", "c"), ("slot", "b")], ["b", "b"]),
        ([("workload", "c")], []),
        ([("node", 1), ("node", 2)], ["a", "b"]),  # all of them, once
        ([("node", 1), ("slot", "z"), ("node", 1)], ["a", "b", "z"]),
    ],
)
def test_only_what_is_watched_wakes_and_everything_is_listed_once(touched: list[Any], keys: list[Any]) -> None:
    wakes: Any = Wakes()
    assert list(keys_to_wake(wakes, None, touched)) == keys


def test_schedulers_beside_a_leader_have_names_of_their_own_and_one_owner() -> None:
    names = [scheduler_principal(number) for number in range(1, SCHEDULERS_MAX + 1)]
    assert names[:2] == ["controller/scheduler", "controller/scheduler-2"]
    assert len(set(names)) == SCHEDULERS_MAX
    assert {owner_of(name) for name in names} == {"controller/scheduler"}


@pytest.mark.parametrize(
    "name",
    [
        "controller/scheduler-1", "controller/scheduler-17", "controller/scheduler-02", "controller/scheduler-",
        "controller/replica-2", "scheduler/main-2", "scheduler-2",
    ],
)  # fmt: skip
def test_a_name_that_no_scheduler_beside_a_leader_has_is_its_own_owner(name: str) -> None:
    assert owner_of(name) == name
