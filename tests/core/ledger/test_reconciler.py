"""Which keys of a reconciler a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.reconciler import EVERYTHING, keys_to_wake


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
