"""A server takes more connections than systems let a process have at first."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from holdfast.wiring.process import WANTED, allow_many_files


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised_as_far_as_it_may_be() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    raised = allow_many_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    assert raised == (WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard))


def test_a_limit_that_is_high_enough_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_many_files()
    after = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert allow_many_files() == after[0] >= min(before[0], WANTED)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == after
