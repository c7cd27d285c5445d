"""Options of the processes of machines: schedulers and agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.wiring.config.server_settings import LEVELS, LOG_FORMS

if TYPE_CHECKING:
    from holdfast.wiring.machine import MachineOptions

CANNOT_START = 1

Server = Annotated[
    list[str], typer.Option(metavar="URL", help="Server of the region; repeat the option for all of them.")
]
TokenFile = Annotated[str, typer.Option(metavar="FILE", help="File with its bearer token.", show_default=False)]
Certificate = Annotated[str, typer.Option(metavar="FILE", help="Its certificate, PEM.", show_default=False)]
Key = Annotated[str, typer.Option(metavar="FILE", help="The certificate's key, PEM.", show_default=False)]
Trust = Annotated[str, typer.Option(metavar="FILE", help="Trusted authorities, PEM.", show_default=False)]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow requests and metrics over plain http beyond this machine.")
]
Listen = Annotated[
    str,
    typer.Option(metavar="TEXT", help="Address that serves metrics at /metrics. Default: none.", show_default=False),
]
Level = Annotated[str, typer.Option(metavar="TEXT", help=f"One of: {', '.join(LEVELS)}.")]
Form = Annotated[str, typer.Option(metavar="TEXT", help=f"One of: {', '.join(LOG_FORMS)}.")]


def parse_server_list(said: Iterable[str]) -> tuple[str, ...]:
    """Return the servers, given one by one or in a list."""
    return tuple(url.rstrip("/") for one in said for url in one.replace(",", " ").split())


def run_machine(options: MachineOptions, also_wrong: Iterable[str], run: Callable[[], int]) -> None:
    """Run the process and exit with its code, unless its options are invalid."""
    from holdfast.wiring.machine import invalid_machine_options
    from holdfast.wiring.process import print_machine_status

    found = [*invalid_machine_options(options), *also_wrong]
    for word, choices in ((options.log_level, LEVELS), (options.log_form, LOG_FORMS)):
        if word not in choices:
            found.append(f"{word!r} is none of {', '.join(choices)}")
    for why in found:
        print_machine_status(options.kind, f"cannot start: {why}")
    raise typer.Exit(CANNOT_START if found else run())
