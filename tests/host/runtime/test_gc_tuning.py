"""The collector belongs to one host, or to whoever lets many of them come and go."""

from __future__ import annotations

import gc
import weakref

from holdfast.host.runtime import gc_tuning


class _Node:
    """Refers to itself, so that only the collector ends it."""

    def __init__(self) -> None:
        self.itself = self


def test_what_hosts_ask_for_does_not_count_while_somebody_else_looks_after_the_collector() -> None:
    before = gc.get_threshold()
    with gc_tuning.gc_borrowed():
        gc_tuning.disable_full_collections()
        gc_tuning.freeze()
        with gc_tuning.gc_paused():
            found = weakref.ref(_Node())
        gc_tuning.freeze()
    assert found() is None
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_what_outlived_its_time_is_collected_later() -> None:
    with gc_tuning.gc_borrowed():
        node = _Node()
    found = weakref.ref(node)
    del node
    gc.disable()
    try:
        for _ in range(gc_tuning.FULL_EVERY):
            with gc_tuning.gc_borrowed():
                pass
    finally:
        gc.enable()
    assert found() is None


def test_it_is_given_back_by_who_borrowed_it_first() -> None:
    with gc_tuning.gc_borrowed():
        with gc_tuning.gc_borrowed():
            found = weakref.ref(_Node())
        assert found() is not None
    assert found() is None
