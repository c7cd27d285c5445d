"""A batch job: so many steps of so long, saved as it goes, so that being stopped costs little.

    python -m holdfast.examples.batch --name reports [--steps 20] [--step 1s] [--fail-at 7]

It saves how far it came in `progress` in its folder, every $CHECKPOINT (30s), and goes on from there. It ends with 0
when all steps are done, with 1 at the step that `--fail-at` names, and with 143 when it was asked to stop.
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
    """How many steps are done, by what was saved."""
    try:
        return int(PROGRESS.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return 0


def save(done: int) -> None:
    """Keep how many steps are done."""
    fresh = PROGRESS.with_suffix(".new")
    fresh.write_text(str(done), encoding="ascii")
    fresh.replace(PROGRESS)


def main(words: Sequence[str]) -> int:
    """Work until all is done; the exit code."""
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
            print(f"{said.name} was asked to stop after step {done}", flush=True)
            return 128 + stops[0]
        done += 1
        if done == said.fail_at:
            print(f"{said.name} fails at step {done}, as it was told to", file=sys.stderr, flush=True)
            return 1
        if time.monotonic() - last >= every:
            save(done)
            last = time.monotonic()
    save(done)
    print(f"{said.name} is done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
