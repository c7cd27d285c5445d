"""The global options, and how a command ends. `get` needs everything imported here: see `main`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NamedTuple

from holdfast.cli.errors import CliError, CliExitCode, print_error, usage_error

#: The exit code that a shell shows for a program ended by a closed pipe.
PIPE_CLOSED = 141
TIMEOUT_MS = 30_000


class GlobalOptions(NamedTuple):
    """The global options; empty where not given."""

    context: str = ""
    server: str = ""
    tenant: str = ""
    region: str = ""
    token_file: str = ""
    timeout: str = ""
    verbose: int = 0
    insecure: bool = False

    @property
    def timeout_ms(self) -> int:
        """Time limit of the command in milliseconds."""
        return parse_duration_option(self.timeout, "--timeout") if self.timeout else TIMEOUT_MS


def run_command(action: Callable[[], int | None], verbose: int = 0) -> int:
    """Run the action and return the exit code. Every error becomes a message; none prints a stack trace."""
    try:
        code = action()
        sys.stdout.flush()
        return code or CliExitCode.DONE
    except CliError as trouble:
        print_error(trouble)
        return trouble.ending
    except KeyboardInterrupt:
        return CliExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return PIPE_CLOSED
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("typer", "click"):
            raise  # Typer's own way to end, for example after Ctrl-C at a confirmation.
        from holdfast.cli.connect import to_cli_error

        told = to_cli_error(error, verbose)
        print_error(told)
        return told.ending


def discard_stdout() -> None:
    """Send the interpreter's last flush nowhere: the reader has closed the pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def parse_duration_option(text: str, option: str) -> int:
    """Parse milliseconds from `30s`, `5m`, `30d`."""
    from holdfast.core.model.values.quantities import BadQuantity, parse_duration

    try:
        return parse_duration(text)
    except BadQuantity as error:
        raise usage_error(f"{option}: {error}") from None


def parse_time_option(text: str, option: str) -> str:
    """Return a time of the API, from a time or from an age."""
    from holdfast.cli.output import printer

    if not text or printer.parse_instant(text) is not None:
        return text
    if not text[0].isdigit() or "-" in text:
        raise usage_error(f"{option} {text}: neither a time nor an age", "for example 1h, 2d or 2026-11-15T17:00:00Z")
    return printer.instant_in(-parse_duration_option(text, option))


def print_note(text: str) -> None:
    """Print a text that is not data to stderr, after flushing stdout."""
    from holdfast.cli.output.printer import escape_controls
    from holdfast.core.model.objects.principals import redact_secrets

    sys.stdout.flush()
    print(escape_controls(redact_secrets(text)), file=sys.stderr)
