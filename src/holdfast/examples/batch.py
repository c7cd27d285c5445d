"""A batch job: a number of steps of equal length, saved regularly, so that a stop loses little work.

    python -m holdfast.examples.batch --name reports [--steps 20] [--step 1s] [--fail-at 7]

It saves its progress to `progress` in its folder every $CHECKPOINT (30s), and continues from there. Its exit code is 0
when all steps are done, 1 at the step of `--fail-at`, and 143 when it was stopped.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from holdfast.examples.service import seconds

PROGRESS = Path("progress")


def saved() -> int:
    """Return the number of saved steps."""
    try:
        return int(PROGRESS.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def save(done: int) -> None:
    """Save the number of steps that are done."""
    fresh = PROGRESS.with_suffix(".new")
    fresh.write_text(str(done), encoding="ascii")
    fresh.replace(PROGRESS)


def main(words: Sequence[str]) -> int:
    """Work until all steps are done; return the exit code."""
    parser = argparse.ArgumentParser(prog="holdfast.examples.batch")
    parser.add_argument("--name", default="batch")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--step", type=seconds, default=1.0)
    parser.add_argument("--fail-at", type=int, default=0)
    said = parser.parse_args(words)
    every = seconds(os.environ.get("CHECKPOINT", "30s"))
    stops: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stops.append(number))
    done = saved()
    print(f"{said.name} begins at step {done} of {said.steps}", flush=True)
    last = time.monotonic()
    while done < said.steps:
        time.sleep(said.step)
        if stops:
            save(done)
            print(f"{said.name} was stopped after step {done}", flush=True)
            return 128 + stops[0]
        done += 1
        if done == said.fail_at:
            print(f"{said.name} fails at step {done}, as configured", file=sys.stderr, flush=True)
            return 1
        if time.monotonic() - last >= every:
            save(done)
            last = time.monotonic()
    save(done)
    print(f"{said.name} is done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
