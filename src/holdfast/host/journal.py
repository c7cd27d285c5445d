"""Structured logs: an event with its fields, through the standard library's logging.

A line reads `leading term=4 seq=91`; the fields are also on the record as `fields`, for a formatter that writes JSON.
"""

from __future__ import annotations

import logging
from typing import Any


class Journal:
    """Where one part of a host says what happened. `about` is on every line."""

    def __init__(self, part: str, **about: Any) -> None:
        self._logger = logging.getLogger(f"holdfast.{part}")
        self._about = about

    def info(self, event: str, **fields: Any) -> None:
        """Something an operator may want to know afterwards."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something that is not as it should be, and is being dealt with."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, error: BaseException | None = None, **fields: Any) -> None:
        """Something that somebody has to look at; with the exception, if there was one."""
        self._write(logging.ERROR, event, fields, error)

    def _write(self, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            everything = {**self._about, **fields}
            text = " ".join([event, *(f"{name}={value}" for name, value in everything.items())])
            self._logger.log(level, text, exc_info=error, extra={"event": event, "fields": everything})
