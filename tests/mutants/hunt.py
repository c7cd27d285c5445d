"""How many random mutants the tests near them notice, and which they do not.

    python -m tests.mutants.hunt [--seed 1] [--count 60] [--part NAME]... [--jobs 1]

Each mutant is written into a copy of the checkout, and the tests near its module run there until the first that fails.
A mutant that all of them pass with is a survivor: a test is missing, or the change makes no difference and is listed
in `equivalent.txt` with the reason.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutants.mutation import Mutant, mutants, mutated
from tests.mutants.near import PARTS

CHECKOUT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).parent / "equivalent.txt"
LIMIT_SECONDS = 900


class Hunted(NamedTuple):
    """What became of one."""

    mutant: Mutant
    is_found: bool
    seconds: float


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
    return {line.partition(" # ")[0].strip() for line in lines if line.strip() and not line.startswith("#")}


def named(mutant: Mutant) -> str:
    """A name that lasts when lines move: the module, the change, and the line's text."""
    text = text_of(mutant.module).splitlines()[mutant.line - 1].strip()
    return f"{mutant.module}: {mutant.change}: {text}"


class Ground:
    """A copy of the checkout in which one mutant at a time is tried."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-mutants-"))
        for name in ("src", "tests", "docs", "scenarios", "examples"):
            leave = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(CHECKOUT / name, self.folder / name, ignore=leave)
        shutil.copy(CHECKOUT / "pyproject.toml", self.folder)

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def try_one(self, mutant: Mutant, tests: tuple[str, ...]) -> Hunted:
        """Run the tests with this mutant in place, and put the original back."""
        file, began = self.folder / mutant.module, time.monotonic()
        original = file.read_text(encoding="utf-8")
        file.write_text(mutated(original, mutant.number), encoding="utf-8")
        try:
            return Hunted(mutant, not self._passes(tests), time.monotonic() - began)
        finally:
            file.write_text(original, encoding="utf-8")

    def _passes(self, tests: tuple[str, ...]) -> bool:
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
        try:
            done = subprocess.run(
                words, cwd=self.folder, env=environment, capture_output=True, timeout=LIMIT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False  # it never ends: that is noticed
        assert done.returncode in (0, 1, 2, 3), done.stdout.decode()[-2_000:] + done.stderr.decode()[-2_000:]
        return done.returncode == 0


def hunt(part: str, count: int, seed: int, jobs: int = 1) -> list[Hunted]:
    """Draw mutants of a part and try each. Known equivalents are not drawn."""
    chosen = [one for one in drawn(part, count, seed) if named(one) not in known()]
    grounds = [Ground() for _ in range(jobs)]
    try:
        with ThreadPoolExecutor(jobs) as pool:
            tests = PARTS[part].tests
            turns = [
                pool.submit(lambda mine, ground: [ground.try_one(one, tests) for one in mine], chosen[at::jobs], ground)
                for at, ground in enumerate(grounds)
            ]
            return [one for turn in turns for one in turn.result()]
    finally:
        for ground in grounds:
            ground.close()


def main() -> int:
    """Print what was found; exit code 1 when a part is below 95 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--part", action="append", choices=sorted(PARTS))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    every: list[Hunted] = []
    for part in given.part or PARTS:
        tried = hunt(part, given.count, given.seed, given.jobs)
        every += tried
        found, seconds = sum(one.is_found for one in tried), sum(one.seconds for one in tried)
        print(f"{part}: {found} of {len(tried)} found, {seconds / max(1, len(tried)):.1f} s each", flush=True)
        for one in tried:
            if not one.is_found:
                print(f"  survived: {one.mutant.line}: {named(one.mutant)}", flush=True)
    found = sum(one.is_found for one in every)
    print(f"{found} of {len(every)} found: {100 * found / max(1, len(every)):.1f} %")
    return 0 if found >= 0.95 * len(every) else 1


if __name__ == "__main__":
    sys.exit(main())
