"""What happens, as lines on standard error: for people, or one JSON object a line.

Nothing in the project hands a secret to a logger. Should one ever slip through, the lines are looked at once more: a
token reads `hf_NAME_...`, and all but its name is blotted out. A line for people begins where it seems to: what others
said may hold line ends or commands for a terminal, and these are escaped; what stands below a line is indented
(`observe/log_text.py`). Nobody writes by another way: whatever ends the process, a thread or a finalizer is a record,
too.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.observe import log_text
from holdfast.observe.log_text import traceback_text, within_json
from holdfast.observe.log_writer import LogOutputHandler, to_descriptor

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: The logger by which a server says that it is ready, and that it stops.
SERVER = "holdfast.server"


class TextFormatter(log_text.SafeFormatter):
    """A line for people: time, level, part, what happened; an exception below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return f"{super().formatTime(record, datefmt)}.{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
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
        if record.stack_info:
            said["stack"] = self.formatStack(record.stack_info)
        return within_json(json.dumps(said, default=str, ensure_ascii=False))


def configure_logging(level: str, form: str, out: TextIO | None = None) -> None:
    """Write what happens from now on, and nothing of it twice. Nobody waits for whoever reads it."""
    writer = LogOutputHandler(_to_stderr() if out is None else _to_text(out), first_rank=SERVER)
    writer.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(writer)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _last_word, _last_word_of_thread, _last_word_of_object
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(getattr(logging, level.upper()))
    # That it is ready, and that it stops, a server says at every level.
    logging.getLogger(SERVER).setLevel(logging.INFO)


def print_status(*texts: str) -> None:
    """Tell whoever started this process, on standard error, as a last word or a first: it is waited for, a while."""
    text = "\n".join(map(traceback_text, texts))
    writer = _writer()
    if writer is None:
        print(text, file=sys.stderr, flush=True)
    else:
        writer.put(text, is_first=True)
        writer.flush()


def _writer() -> LogOutputHandler | None:
    return next((one for one in logging.getLogger().handlers if isinstance(one, LogOutputHandler)), None)


def _last_word(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Of what ends the process, by the same way: it must not hang where nobody reads what it dies of."""
    logging.getLogger(SERVER).critical("died", exc_info=(kind, error, trace))
    writer = _writer()
    if writer is not None:
        writer.flush()


def _last_word_of_thread(of: threading.ExceptHookArgs) -> None:
    if of.exc_value is not None and of.exc_type is not SystemExit:
        name = of.thread.name if of.thread is not None else "-"
        extra = {"event": "thread-died", "fields": {"thread": name}}
        error = (of.exc_type, of.exc_value, of.exc_traceback)
        logging.getLogger(SERVER).error("thread-died thread=%s", name, exc_info=error, extra=extra)


def _last_word_of_object(of: UnraisableHookArgs) -> None:
    """What fails where nobody can be told, as when an object is collected: Python would print it as it is."""
    error = (of.exc_type, of.exc_value, of.exc_traceback) if of.exc_value is not None else None
    logging.getLogger(SERVER).error("unraisable", exc_info=error)


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
