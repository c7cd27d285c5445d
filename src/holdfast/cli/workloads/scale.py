"""`holdfast scale`: change the number of replicas of a workload."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.command import WorkloadArgument, command, make_app
from holdfast.cli.connect import connect, explain_errors
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.targets import region_for, require_workload, resolve_object

app = make_app()

Replicas = Annotated[int, typer.Option("--replicas", min=0, help="The new number.")]


@command(app)
def scale(options: GlobalOptions, words: WorkloadArgument, replicas: Replicas) -> None:
    """Change the number of replicas of a workload, and nothing else."""
    context = resolve(options)
    workload = require_workload(resolve_object(words, context))
    client = connect(options, context, region=region_for(workload.kind, context, options.region))
    before: list[int] = []

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        before.append(found["spec"]["replicas"])
        if before[-1] == replicas:
            return None
        return {**found, "spec": {**found["spec"], "replicas": replicas}}

    with explain_errors(options, workload):
        client.edit("workloads", workload.name, change, tenant=workload.tenant)
    same = before[-1] == replicas
    printer.print_data(f"{workload} {'unchanged' if same else f'scaled from {before[-1]} to {replicas}'}")
