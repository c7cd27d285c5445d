"""Where mutants are tried: one process that has all of them behind switches, and a fork of it for each.

    python -m tests.mutants.fork_server ORDER.json        one line of JSON on stdout for each mutant

The modules are loaded with their switches in place and the tests are collected once. A first fork runs all of them with
every mutant off, and tells how long each takes and which mutants it comes by. Then each mutant has a fork of its own,
in which it is on: the tests that come by it run there, the quickest first, until one fails. Where a mutant is part of
what a module does while it is loaded, the whole of it is repeated in a new process that has it on from the start.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

import msgspec
import pytest

from tests.mutants.mutation import SWITCH, switched

MEMORY_BYTES = 6 << 30
#: A test may take that many times as long as without a mutant, and the order's patience more: then that is noticed.
SLOWER = 20
#: And all tests together that many times as long, and four times the patience more.
SLOWER_IN_ALL = 4


class Order(msgspec.Struct, frozen=True):
    """What to try: mutants as module and number, in a checkout; `on` is the one that is on from the start.

    With `most_seconds` a mutant is tried with the quickest tests that together take no longer than that without it.
    """

    checkout: str
    tests: tuple[str, ...]
    mutants: tuple[tuple[str, int], ...]
    patience_seconds: float = 20
    most_seconds: float | None = None
    on: int | None = None


class Switches:
    """The answers to the questions of all modules: a mutant is named by its place in the order."""

    def __init__(self, on: int | None = None) -> None:
        self.on = on
        self.met: set[int] = set()

    def in_module(self, first: dict[int, int]) -> Callable[[int], bool]:
        """The question of one module, whose numbers are places in the order after this."""

        def is_turned(number: int) -> bool:
            at = first[number]
            self.met.add(at)
            return self.on == at

        return is_turned


class Loading(importlib.abc.MetaPathFinder):
    """Finds modules that have mutants, and loads them with switches."""

    def __init__(self, order: Order, switches: Switches) -> None:
        self._switches = switches
        self._of: dict[str, dict[int, int]] = {}
        for at, (module, number) in enumerate(order.mutants):
            self._of.setdefault(str(Path(order.checkout, module).resolve()), {})[number] = at

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        numbers = self._of.get(str(Path(spec.origin).resolve()))
        if numbers is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, numbers, self._switches.in_module(numbers))
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, numbers: dict[int, int], question: Callable[[int], bool]) -> None:
        super().__init__(name, path)
        self._numbers, self._question = numbers, question

    def get_code(self, fullname: str) -> CodeType:
        source = Path(self.path).read_text(encoding="utf-8")
        return compile(switched(source, self._numbers), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        setattr(module, SWITCH, self._question)
        super().exec_module(module)


class Came(NamedTuple):
    """What one test did with every mutant off."""

    seconds: float
    by: list[int]


class Plugin:
    """In the place of pytest's loop over the tests: a loop over mutants."""

    def __init__(self, order: Order, switches: Switches, out: int) -> None:
        self._order, self._switches, self._out = order, switches, out

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise RuntimeError("the tests cannot be collected")
        if self._order.on is not None:
            self._failed(session, session.items)
            return True
        on_loading = set(self._switches.met)
        came = self._baseline(session)
        for at in range(len(self._order.mutants)):
            began = time.monotonic()
            items = [item for item in session.items if at in came[item.nodeid].by]
            items.sort(key=lambda item: (came[item.nodeid].seconds, item.nodeid))
            items = items[: self._many(items, came)]
            found = bool(items) and self._is_found(session, at, items, came)
            if not found and at in on_loading:
                found = self._is_found_apart(at)
            tests = -1 if at in on_loading else len(items)
            self._tell({"at": at, "is_found": found, "tests": tests, "seconds": time.monotonic() - began})
        return True

    def _many(self, items: list[pytest.Item], came: dict[str, Came]) -> int:
        """How many of them, from the first on, take no longer than one mutant may be tried for."""
        if self._order.most_seconds is None:
            return len(items)
        until = accumulate(came[item.nodeid].seconds for item in items)
        return sum(seconds <= self._order.most_seconds for seconds in until)

    def _tell(self, line: dict[str, object]) -> None:
        os.write(self._out, (json.dumps(line) + "\n").encode())

    def _baseline(self, session: pytest.Session) -> dict[str, Came]:
        """Every test with every mutant off: it passes, takes so long, and comes by these."""
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            came: dict[str, Came] = {}
            for item, after in zip(session.items, [*session.items[1:], None], strict=True):
                self._switches.met.clear()
                began = time.monotonic()
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                came[item.nodeid] = Came(time.monotonic() - began, sorted(self._switches.met))
                if session.testsfailed:
                    with os.fdopen(writer, "w") as out:
                        json.dump({"failed": item.nodeid}, out)
                    os._exit(1)
            with os.fdopen(writer, "w") as out:
                json.dump(came, out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as into:
            told = json.load(into)
        os.waitpid(pid, 0)
        if "failed" in told:
            raise RuntimeError(f"{told['failed']} fails without any mutant")
        slowest = sorted(told, key=lambda name: -told[name][0])[:5]
        self._tell({"seconds": sum(one[0] for one in told.values()), "tests": len(told), "slowest": slowest})
        return {name: Came(*one) for name, one in told.items()}

    def _is_found(self, session: pytest.Session, at: int, items: list[pytest.Item], came: dict[str, Came]) -> bool:
        """Whether one of these tests fails with the mutant on; what has failed must pass with it off."""
        ran = self._ran(session, at, items, came)
        if ran is None:
            return False
        again = items[:ran] if ran else items
        if self._ran(session, None, again, came) is not None:
            raise RuntimeError(f"{again[-1].nodeid} fails without any mutant, after others than it is used to")
        return True

    def _ran(
        self, session: pytest.Session, on: int | None, items: list[pytest.Item], came: dict[str, Came]
    ) -> int | None:
        """Run these in a fork: how many ran until one failed, 0 when it never ended; None: all pass."""
        patience = self._order.patience_seconds
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            for item in items:
                item.add_marker(pytest.mark.timeout(patience + SLOWER * came[item.nodeid].seconds), append=False)
            self._switches.on = on
            try:
                os.write(writer, json.dumps(self._failed(session, items)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        try:
            limit = 4 * patience + SLOWER_IN_ALL * sum(came[item.nodeid].seconds for item in items)
            if not select.select([reader], [], [], limit)[0]:
                os.killpg(pid, signal.SIGKILL)
                return 0  # it never ends: that is noticed
            told = os.read(reader, 100)
            return json.loads(told) if told else 0  # it has ended with its process
        finally:
            os.close(reader)
            os.waitpid(pid, 0)

    def _failed(self, session: pytest.Session, items: list[pytest.Item]) -> int | None:
        """How many ran until one failed; None: all pass."""
        for ran, (item, after) in enumerate(zip(items, [*items[1:], None], strict=True), 1):
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.testsfailed:
                return ran
        return None

    def _is_found_apart(self, at: int) -> bool:
        order = msgspec.structs.replace(self._order, on=at)
        words = [sys.executable, "-m", "tests.mutants.fork_server", "-"]
        done = subprocess.run(words, input=msgspec.json.encode(order), capture_output=True, check=False)
        return done.returncode != 0


def main(name: str) -> int:
    """Try the mutants of an order, given as a file or `-` for what comes in."""
    order = msgspec.json.decode(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes(), type=Order)
    switches = Switches(order.on)
    sys.meta_path.insert(0, Loading(order, switches))
    out = os.dup(1)
    os.dup2(2, 1)
    os.chdir(order.checkout)
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-p",
        "no:schemathesis",
        "--rootdir",
        order.checkout,
        *order.tests,
    ]
    return int(pytest.main(words, plugins=[Plugin(order, switches, out)]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
