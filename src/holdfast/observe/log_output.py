"""Log lines on standard error: text, or one JSON object per line.

No code passes a secret to a logger. In case one does, every line is checked: in a token `hf_NAME_...` all but the name
is redacted. A line of text starts only where it appears to: line ends and terminal control characters in foreign text
are escaped, and continuation lines are indented. All output goes this way: an exception that
ends the process, a thread or a finalizer is logged, too.

a text of one line       ──▶ one_line        ──▶ exactly one line
    a text of several lines  ──▶ traceback_text  ──▶ its first line, and the others indented

All output to a log or to standard error passes these functions: characters that could forge a line are escaped, and
tokens and passwords in URLs are redacted.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.core.model.objects.principals import redact_secrets
from holdfast.observe.log_writer import LogOutputHandler, to_descriptor

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

#: The indentation of continuation lines, which no other line has.
INDENT = "    "
#: Characters that move a terminal's cursor, end a line, or change the direction of text.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """Return the text without secrets, and with every control character escaped."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), redact_secrets(text))


def within_json(text: str) -> str:
    """Return a JSON object on one line, without secrets: control characters, which only occur in strings, are escaped
    as JSON does it."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", redact_secrets(text))


def indented(text: str) -> str:
    """Return all lines of a text, each indented as a continuation line."""
    return "\n".join(f"{INDENT}{one_line(line)}" for line in text.split("\n"))


def traceback_text(text: str) -> str:
    """Return the first line of a text, and the others indented below it."""
    first, newline, rest = text.partition("\n")
    return one_line(first) + (f"\n{indented(rest)}" if newline else "")


def log_to_stderr() -> logging.Handler:
    """Return a handler for programs that are not servers and may wait for a reader, such as simulations."""
    handler = logging.StreamHandler()
    handler.setFormatter(SafeFormatter())
    return handler


class SafeFormatter(logging.Formatter):
    """A record as one line; its exception and its stack below it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return indented(super().formatStack(stack_info))

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another formatter may have left its own text
        try:
            return super().format(record)
        finally:
            record.exc_text = None


#: The logger by which a server reports that it is ready or stops.
SERVER = "holdfast.server"


class TextFormatter(SafeFormatter):
    """A line of text: time, level, part, event; an exception below it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return f"{super().formatTime(record, datefmt)}.{int(record.msecs):03d}Z"


class JsonFormatter(logging.Formatter):
    """One object per line: `at`, `level`, `part`, `event`, then the fields of the event."""

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
    """Send all log records to this output, each once. No caller waits for its reader."""
    writer = LogOutputHandler(_to_stderr() if out is None else _to_text(out), first_rank=SERVER)
    writer.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(writer)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _last_word, _last_word_of_thread, _last_word_of_object
    root.setLevel(logging.WARNING)
    logging.getLogger("holdfast").setLevel(getattr(logging, level.upper()))
    # A server logs that it is ready, and that it stops, at every level.
    logging.getLogger(SERVER).setLevel(logging.INFO)


def print_status(*texts: str) -> None:
    """Print a status line on standard error, and wait for its reader for at most `FLUSH_S`."""
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
    """Log the exception that ends the process, without blocking on a reader."""
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
    """Log an exception without a caller, as in a finalizer, which Python would print unescaped."""
    error = (of.exc_type, of.exc_value, of.exc_traceback) if of.exc_value is not None else None
    logging.getLogger(SERVER).error("unraisable", exc_info=error)


def _to_stderr() -> Callable[[bytes], None]:
    """Return a writer with a descriptor of its own: the lock of `sys.stderr` could block the end of the process."""
    out: TextIO | None = sys.stderr  # None if it was closed before the process began
    if out is None:
        return lambda _: None
    try:
        return to_descriptor(os.dup(out.fileno()))
    except (OSError, ValueError):  # it has no descriptor, since it was replaced within this process
        return _to_text(out)


def _to_text(out: TextIO) -> Callable[[bytes], None]:
    def write(text: bytes) -> None:
        out.write(text.decode())
        out.flush()

    return write
