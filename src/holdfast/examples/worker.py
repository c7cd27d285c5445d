"""A worker with much memory: it uses a cache periodically, and can exceed its memory limit on purpose.

    python -m holdfast.examples.worker --queue documents [--hold 64] [--grow 16] [--every 1s]

It allocates `--hold` MiB and, with `--grow`, that many MiB more each time, until its limit ends it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence

from holdfast.examples.service import seconds

_MIB = 1 << 20
_PAGE = 4_096


def touched(block: bytearray) -> bytearray:
    """Return the same block with each page written, so that it uses real memory."""
    for place in range(0, len(block), _PAGE):
        block[place] = (block[place] + 1) % 256
    return block


def main(words: Sequence[str]) -> int:
    """Work until stopped; return the exit code."""
    parser = argparse.ArgumentParser(prog="holdfast.examples.worker")
    parser.add_argument("--queue", default="documents")
    parser.add_argument("--hold", type=int, default=32)
    parser.add_argument("--grow", type=int, default=0)
    parser.add_argument("--every", type=seconds, default=1.0)
    said = parser.parse_args(words)
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    held = [touched(bytearray(said.hold * _MIB))]
    print(f"working on {said.queue}, holding {said.hold} MiB", flush=True)
    while not asked.wait(said.every):
        if said.grow:
            held.append(touched(bytearray(said.grow * _MIB)))
            print(f"holding {sum(len(block) for block in held) // _MIB} MiB", flush=True)
        touched(held[0])
    print("stopped", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
