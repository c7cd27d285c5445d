"""`holdfast scheduler`: a standalone scheduler of a region."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.command import make_app
from holdfast.cli.processes.machine_options import run_machine, with_machine_options

Name = Annotated[str, typer.Option(metavar="NAME", help="Name of the scheduler; its principal is scheduler/NAME.")]


def scheduler(common: dict[str, Any], name: Name) -> None:
    """Run a standalone scheduler of a region.

    It divides the work with the region's other schedulers, embedded and standalone. Servers with `scheduler: none`
    embed none. A name is for one scheduler: a second one with the same name takes over, and the first one ends.
    """
    from holdfast.wiring.machine import MachineOptions
    from holdfast.wiring.scheduler import SCHEDULER, run

    options = MachineOptions(kind=SCHEDULER, name=name, **common)
    run_machine(options, (), lambda: run(options))


app = make_app()
app.command("scheduler")(with_machine_options(scheduler))
