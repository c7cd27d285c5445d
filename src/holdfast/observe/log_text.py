"""Foreign text in log lines: it cannot begin a line, control a terminal, or reveal a secret.

    a text of one line       ──▶ one_line        ──▶ exactly one line
    a text of several lines  ──▶ traceback_text  ──▶ its first line, and the others indented

All output to a log or to standard error passes these functions: characters that could forge a line are escaped, and
tokens and passwords in URLs are redacted.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from holdfast.core.model.objects.principals import redact_secrets

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
