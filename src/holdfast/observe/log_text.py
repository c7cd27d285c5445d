"""Lines for people of what others said: they begin no line, command no terminal, and hold no secret.

    what happened, to whom ──▶ one_line ──▶ one line, and one only
    a text of several      ──▶ stacked  ──▶ its first line, and what stands below it indented

Everything that is written to a log or to standard error goes through these, whoever writes it: what a line would be
forged with is escaped, and what should never have come so far, a token or a password within a URL, is blotted out.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from holdfast.core.model.objects.principals import redact_secrets

#: What stands below a line begins so, and no line does.
INDENT = "    "
#: Whatever moves a terminal's cursor, ends a line, or turns the direction of what follows.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """The text without secrets, and with everything escaped that is no character of a line."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), redact_secrets(text))


def within_json(text: str) -> str:
    """An object on one line, without secrets: the same characters as JSON escapes them. They stand in strings only."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", redact_secrets(text))


def indented(text: str) -> str:
    """All lines of a text, each indented: what stands below a line."""
    return "\n".join(f"{INDENT}{one_line(line)}" for line in text.split("\n"))


def traceback_text(text: str) -> str:
    """The first line of a text, and the others below it."""
    first, newline, rest = text.partition("\n")
    return one_line(first) + (f"\n{indented(rest)}" if newline else "")


def log_to_stderr() -> logging.Handler:
    """For what is no server, and waits for whoever reads it: a simulation that was asked to say what its hosts do."""
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
        record.exc_text = None  # another formatter may have left it there as it was
        try:
            return super().format(record)
        finally:
            record.exc_text = None
