"""Hypothesis profiles: how hard to search, and whether to repeat the same search.

    dev    new examples in every run; the default at a desk
    ci     the same examples in every run, so that a red build stays red; the default when CI is set
    soak   new examples and many of them; `make soak`
    mutants  those of ci, and a failure is not made smaller: that there is one is enough

HOLDFAST_HYPOTHESIS_PROFILE names one by hand.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import Phase, settings

# No profile sets a deadline per example: a busy machine is not a finding. pytest-timeout ends what hangs.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("mutants", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
settings.register_profile("soak", deadline=None, max_examples=2_000, print_blob=True)

settings.load_profile(os.environ.get("HOLDFAST_HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session", autouse=True)
def no_process_is_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No process works in a folder of these tests once they have ended: guards and their work outlive their agents."""
    yield
    base = tmp_path_factory.getbasetemp()
    until = time.monotonic() + 20  # a process that was killed may take a while to be gone
    while (left := _working_below(base)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def _working_below(base: Path) -> list[str]:
    """The processes that work in a folder below another one, each by its command line and its folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            folder = (process / "cwd").readlink()
            if folder.is_relative_to(base):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{words.strip()} in {folder}")
    return found
