"""`holdfast scheduler`: a scheduler of a region, in a process of its own."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.cli.commands import an_app
from holdfast.wiring.settings import FORMS, LEVELS

CANNOT_START = 1

Server = Annotated[
    list[str], typer.Option("--server", metavar="URL", help="A server of the region; several, one leads.")
]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Its name: it speaks as scheduler/NAME.")]
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
Form = Annotated[str, typer.Option("--log-form", metavar="TEXT", help=f"One of: {', '.join(FORMS)}.")]


def scheduler(
    server: Server,
    name: Name,
    token_file: TokenFile = "",
    tls_certificate: Certificate = "",
    tls_key: Key = "",
    tls_trust: Trust = "",
    insecure: Insecure = False,
    log_level: Level = "info",
    log_form: Form = "text",
    listen: Listen = "",
) -> None:
    """Schedule for a region, in a process of its own.

    For regions whose servers run with `scheduler: none`. A name is for one scheduler: a second one under the same name
    takes over, and the first one ends.
    """
    from holdfast.wiring.scheduler import SchedulerWish, run, wrong

    servers = tuple(url.rstrip("/") for one in server for url in one.replace(",", " ").split())
    wish = SchedulerWish(
        servers, name, token_file, tls_certificate, tls_key, tls_trust, insecure, log_level, log_form, listen
    )
    found = list(wrong(wish))
    for word, choices in ((log_level, LEVELS), (log_form, FORMS)):
        if word not in choices:
            found.append(f"{word!r} is none of {', '.join(choices)}")
    for why in found:
        print(f"holdfast scheduler: cannot start: {why}", file=sys.stderr)
    raise typer.Exit(CANNOT_START if found else run(wish))


app = an_app()
app.command("scheduler")(scheduler)
