"""What every machine's process is told on the command line: a scheduler's, an agent's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.wiring.config.server_settings import LEVELS, LOG_FORMS

if TYPE_CHECKING:
    from holdfast.wiring.machine import MachineOptions

CANNOT_START = 1

Server = Annotated[
    list[str], typer.Option("--server", metavar="URL", help="A server of the region; several, one leads.")
]
TokenFile = Annotated[
    str, typer.Option("--token-file", metavar="FILE", help="The file with its token.", show_default=False)
]
Certificate = Annotated[
    str, typer.Option("--tls-certificate", metavar="FILE", help="Its certificate, PEM.", show_default=False)
]
Key = Annotated[str, typer.Option("--tls-key", metavar="FILE", help="The certificate's key, PEM.", show_default=False)]
Trust = Annotated[
    str, typer.Option("--tls-trust", metavar="FILE", help="Authorities that are trusted.", show_default=False)
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Ask, and tell its numbers, beyond this machine without TLS.")
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="TEXT",
        help="Where its numbers are told, at /metrics. Default: nowhere.",
        show_default=False,
    ),
]
Level = Annotated[str, typer.Option("--log-level", metavar="TEXT", help=f"One of: {', '.join(LEVELS)}.")]
Form = Annotated[str, typer.Option("--log-form", metavar="TEXT", help=f"One of: {', '.join(LOG_FORMS)}.")]


def parse_server_list(said: Iterable[str]) -> tuple[str, ...]:
    """The servers that were named, one by one or in a list."""
    return tuple(url.rstrip("/") for one in said for url in one.replace(",", " ").split())


def run_machine(options: MachineOptions, also_wrong: Iterable[str], run: Callable[[], int]) -> None:
    """Run it, unless it cannot be meant so; and exit as it ends."""
    from holdfast.wiring.machine import invalid_machine_options
    from holdfast.wiring.process import print_machine_status

    found = [*invalid_machine_options(options), *also_wrong]
    for word, choices in ((options.log_level, LEVELS), (options.log_form, LOG_FORMS)):
        if word not in choices:
            found.append(f"{word!r} is none of {', '.join(choices)}")
    for why in found:
        print_machine_status(options.kind, f"cannot start: {why}")
    raise typer.Exit(CANNOT_START if found else run())
