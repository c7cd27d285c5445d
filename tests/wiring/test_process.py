"""A server takes more connections than systems let a process have at first."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from holdfast.wiring.process import OPEN_FILES_WANTED, raise_open_file_limit


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_low_limit_is_raised_as_far_as_it_may_be() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1_024, hard))
    raised = raise_open_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
    assert raised == (OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(OPEN_FILES_WANTED, hard))


def test_a_limit_that_is_high_enough_stays() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_open_file_limit()
    after = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_open_file_limit() == after[0] >= min(before[0], OPEN_FILES_WANTED)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == after
