"""What happens, as lines on standard error: for people, or one JSON object a line.

Nothing in the project hands a secret to a logger. Should one ever slip through, the lines are looked at once more: a
token reads `hf_NAME_...`, and all but its name is blotted out. A line for people begins where it seems to: what others
said may hold line ends or commands for a terminal, and these are escaped; what stands below a line is indented.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO

from holdfast.core.model.secrets import blotted
from holdfast.wiring.log_writer import LogWriter, to_descriptor

#: The logger by which a server says that it is ready, and that it stops.
SERVER = "holdfast.server"

#: Whatever moves a terminal's cursor, ends a line, or turns the direction of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text with everything escaped that is no character of a line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Lines(logging.Formatter):
    """A line for people: time, level, part, what happened; an exception below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return f"{super().formatTime(record, datefmt)}.{int(record.msecs):03d}Z"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(f"    {one_line(line)}" for line in super().formatException(ei).split("\n"))

    def format(self, record: logging.LogRecord) -> str:
        return blotted(super().format(record))


class JsonLines(logging.Formatter):
    """One object a line: `at`, `level`, `part`, `event`, then the fields of the event."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "at": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "part": record.name,
            "event": getattr(record, "event", record.getMessage()),
        }
        for name, value in getattr(record, "fields", {}).items():
            said.setdefault(name, value)
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return blotted(json.dumps(said, default=str, ensure_ascii=False))


def set_up(level: str, form: str, out: TextIO | None = None) -> None:
    """Write what happens from now on, and nothing of it twice. Nobody waits for whoever reads it."""
    writer = LogWriter(_to_stderr() if out is None else _to_text(out), first_rank=SERVER)
    writer.setFormatter(JsonLines() if form == "json" else Lines())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(writer)
    sys.excepthook = _last_word
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(getattr(logging, level.upper()))
    # That it is ready, and that it stops, a server says at every level.
    logging.getLogger(SERVER).setLevel(logging.INFO)


def say(text: str) -> None:
    """Tell whoever started this process, on standard error, as a last word or a first: it is waited for, a while."""
    writer = next((one for one in logging.getLogger().handlers if isinstance(one, LogWriter)), None)
    if writer is None:
        print(blotted(text), file=sys.stderr, flush=True)
    else:
        writer.put(blotted(text), is_first=True)
        writer.flush()


def _last_word(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Of what ends the process, by the same way: it must not hang where nobody reads what it dies of."""
    say("".join(traceback.format_exception(kind, error, trace)).rstrip())


def _to_stderr() -> Callable[[bytes], None]:
    """By a descriptor of its own: a lock that a hung writer holds would be waited for at the end of the process."""
    out: TextIO | None = sys.stderr  # none, where it was closed before the process began
    if out is None:
        return lambda _: None
    try:
        return to_descriptor(os.dup(out.fileno()))
    except (OSError, ValueError):  # it has no descriptor: somebody listens within this process
        return _to_text(out)


def _to_text(out: TextIO) -> Callable[[bytes], None]:
    def write(text: bytes) -> None:
        out.write(text.decode())
        out.flush()

    return write
