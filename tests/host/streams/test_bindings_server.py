"""What the leader looks at before it tells an agent what stands on its node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.streams import bindings_server
from tests.support.ledgers.region import T0, RegionBench


@pytest.mark.parametrize(("right_until", "looks"), [(0, 1), (T0 + 1_000, 2)])
def test_a_stream_that_is_nudged_looks_again_only_after_a_batch_or_where_a_right_may_lapse(
    monkeypatch: pytest.MonkeyPatch, right_until: int, looks: int
) -> None:
    looked: list[int] = []
    state: Any = SimpleNamespace(
        info=RegionBench(checked=False).state.info,
        slots={(1, 0): SimpleNamespace(assignment=7)},
        assignments={7: SimpleNamespace(right_until=right_until)},
        templates={"t": None},
    )

    def bound_to(_state: object, node: int, _now: int) -> list[Any]:
        looked.append(node)
        return [SimpleNamespace(slot=(1, 0), template="t")]

    monkeypatch.setattr(bindings_server, "bindings_of_node", bound_to)
    monkeypatch.setattr(bindings_server, "TemplateMessage", lambda *_: None)
    monkeypatch.setattr(bindings_server, "NodeBindings", lambda *_: None)
    ledger: Any = SimpleNamespace(
        durable=SimpleNamespace(state=state),
        leader=SimpleNamespace(term=SimpleNamespace(now=lambda: T0)),
        metrics=Metrics(),
        identity=SimpleNamespace(server="s"),
    )
    nothing: Any = None
    stream = bindings_server._Stream(ledger, nothing, nothing, bindings_server.BindingsReader("n1", 1), 5)
    stream._news()
    stream._news()
    assert len(looked) == looks
