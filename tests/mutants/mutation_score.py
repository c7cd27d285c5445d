"""How many random mutants the tests near them notice, and which they do not.

    python -m tests.mutants.mutation_score [--seed N] [--count 60] [--part NAME]... [--like TEXT]...
                                          [--tests PATH]... [--near]

The tests near a mutant run with it until the first that fails; what they leave is tried with a second ring, of property
tests, contracts and simulated worlds. A mutant that all of them pass with is a survivor: a test is missing, or the
change makes no difference and is listed in `equivalent.txt` with the reason. Both figures are told.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from subprocess import PIPE
from typing import NamedTuple

import msgspec

from tests.mutants.fork_server import Order
from tests.mutants.mutation import Mutant, mutants
from tests.mutants.nearby_tests import PARTS

CHECKOUT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
#: How much longer than twenty times its usual time a test may take before that is noticed.
PATIENCE_SECONDS = 8.0
#: How much of the second ring is tried with one mutant, the quickest tests first.
FURTHER_SECONDS = 60.0
#: What is wanted of all parts together.
WANTED = 0.95


class Hunted(NamedTuple):
    """What became of one."""

    mutant: Mutant
    is_found: bool
    tests: int  # how many come by it; -1 where it is part of what a module does while it is loaded
    seconds: float
    is_further: bool = False  # the tests near it had all passed


@cache
def text_of(module: str) -> str:
    """A module of this checkout."""
    return (CHECKOUT / module).read_text(encoding="utf-8")


@cache
def of(module: str) -> list[Mutant]:
    """All its mutants."""
    return mutants(module, text_of(module))


def drawn(part: str, count: int, seed: int) -> list[Mutant]:
    """So many mutants of a part, each place as likely as every other one."""
    every = [one for path in PARTS[part].modules(CHECKOUT) for one in of(path)]
    return sorted(random.Random(f"{seed} {part}").sample(every, min(count, len(every))))


def known() -> set[str]:
    """Mutants that do what the original does, by module and changed line of text; the file gives each its reason."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines() if EQUIVALENT.exists() else []
    return {line.rpartition(" # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def named(mutant: Mutant) -> str:
    """A name that lasts when lines move: the module, the change, and the line's text."""
    text = text_of(mutant.module).splitlines()[mutant.line - 1].strip()
    return f"{mutant.module}: {mutant.change}: {text}"


def try_all(
    checkout: Path,
    tests: tuple[str, ...],
    chosen: list[Mutant],
    patience_seconds: float = PATIENCE_SECONDS,
    most_seconds: float | None = None,
) -> Iterator[Hunted]:
    """Run the tests near these mutants with each of them in turn: see `ground`."""
    turned = tuple((one.module, one.number) for one in chosen)
    order = Order(str(checkout), tests, turned, patience_seconds, most_seconds)
    words = [sys.executable, "-m", "tests.mutants.fork_server", "-"]
    path = os.pathsep.join((str(checkout / "src"), str(CHECKOUT)))
    environment = {**os.environ, "PYTHONPATH": path, "CI": "1", "HOLDFAST_HYPOTHESIS_PROFILE": "mutants"}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(words, stdin=PIPE, stdout=PIPE, stderr=said, env=environment, cwd=CHECKOUT) as ground,
    ):
        assert ground.stdin is not None
        assert ground.stdout is not None
        ground.stdin.write(msgspec.json.encode(order))
        ground.stdin.close()
        for line in ground.stdout:
            said_of = json.loads(line)
            if "at" in said_of:
                yield Hunted(chosen[said_of["at"]], said_of["is_found"], said_of["tests"], said_of["seconds"])
            else:
                slowest = ", ".join(said_of["slowest"])
                print(f"  {said_of['tests']} tests take {said_of['seconds']:.0f} s; the slowest: {slowest}", flush=True)
        if ground.wait() != 0:
            said.seek(0)
            raise RuntimeError(said.read().decode()[-4_000:])


def hunt(
    part: str, count: int, seed: int, like: Sequence[str] = (), tests: Sequence[str] = (), *, near: bool = False
) -> Iterator[Hunted]:
    """Draw mutants of a part, or take all with such a name, and try each. Known equivalents are not tried.

    What the tests near it leave is tried with those further away; with `near`, or tests of one's own, it is not.
    """
    every = [one for path in PARTS[part].modules(CHECKOUT) for one in of(path)]
    if like:
        chosen = [one for one in every if any(text in str(one) or text in named(one) for text in like)]
    else:
        chosen = drawn(part, count, seed)
    left = []
    for one in try_all(CHECKOUT, tuple(tests) or PARTS[part].tests, [m for m in chosen if named(m) not in known()]):
        if one.is_found or near or tests:
            yield one
        else:
            left.append(one.mutant)
    if left:
        for one in try_all(CHECKOUT, PARTS[part].further, left, most_seconds=FURTHER_SECONDS):
            yield one._replace(is_further=True)


def told(part: str, tried: Sequence[Hunted]) -> str:
    """Both figures in a line."""
    near = sum(one.is_found and not one.is_further for one in tried)
    found, seconds = sum(one.is_found for one in tried), sum(one.seconds for one in tried)
    return (
        f"{part}: {near} of {len(tried)} found by the tests near them, {found} with those further away, "
        f"{seconds / max(1, len(tried)):.1f} s each"
    )


def main() -> int:
    """Print what was found; exit code 1 when it is less than is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000), help="or a new one")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--part", action="append", choices=sorted(PARTS))
    parser.add_argument("--like", action="append", default=[], help="mutants with this text in path:line or line")
    parser.add_argument("--tests", action="append", default=[], help="these instead of all that are near")
    parser.add_argument("--near", action="store_true", help="leave out the tests that are further away")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    tried: list[Hunted] = []
    for part in given.part or PARTS:
        first = len(tried)
        for one in hunt(part, given.count, given.seed, given.like, given.tests, near=given.near):
            tried.append(one)
            print(f"{len(tried)}: {one.mutant}: {one.seconds:.0f} s", file=sys.stderr, flush=True)
            if one.is_found and one.is_further:
                print(f"  found further away: {one.mutant.line}: {named(one.mutant)}", flush=True)
            elif not one.is_found:
                near = f"{one.tests} tests come by" if one.tests >= 0 else "on loading"
                print(f"  survived: {one.mutant.line}: {named(one.mutant)} ({near})", flush=True)
        print(told(part, tried[first:]), flush=True)
    print(told("all", tried), flush=True)
    return 0 if sum(one.is_found for one in tried) >= WANTED * len(tried) else 1


if __name__ == "__main__":
    sys.exit(main())
