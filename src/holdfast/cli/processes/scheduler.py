"""`holdfast scheduler`: a standalone scheduler of a region."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import make_app
from holdfast.cli.processes.machine_options import (
    Certificate,
    Form,
    Insecure,
    Key,
    Level,
    Listen,
    Server,
    TokenFile,
    Trust,
    parse_server_list,
    run_machine,
)

Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the scheduler; its principal is scheduler/NAME.")]


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
    """Run a standalone scheduler of a region.

    It divides the work with the region's other schedulers, embedded and standalone. Servers with `scheduler: none`
    embed none. A name is for one scheduler: a second one with the same name takes over, and the first one ends.
    """
    from holdfast.wiring.machine import MachineOptions
    from holdfast.wiring.scheduler import SCHEDULER, run

    options = MachineOptions(
        SCHEDULER, parse_server_list(server), name, token_file, tls_certificate, tls_key, tls_trust, insecure,
        log_level,
        log_form, listen,
    )  # fmt: skip
    run_machine(options, (), lambda: run(options))


app = make_app()
app.command("scheduler")(scheduler)
