"""`holdfast restart`: replace all replicas of a workload by a rollout."""

from __future__ import annotations

from typing import Any

from holdfast.cli.command import WorkloadArgument, command, make_app
from holdfast.cli.connect import connect, explain_errors
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.targets import region_for, require_workload, resolve_object

app = make_app()


@command(app)
def restart(options: GlobalOptions, words: WorkloadArgument) -> None:
    """Replace all replicas of a workload by a rollout, within its disruption budget.

    Sets `spec.template.restarted` to the current time, which makes a new template.
    """
    context = resolve(options)
    workload = require_workload(resolve_object(words, context))
    client = connect(options, context, region=region_for(workload.kind, context, options.region))
    now = printer.instant_in(0)

    def change(found: dict[str, Any]) -> dict[str, Any]:
        spec = found["spec"]
        return {**found, "spec": {**spec, "template": {**spec["template"], "restarted": now}}}

    with explain_errors(options, workload):
        client.edit("workloads", workload.name, change, tenant=workload.tenant)
    printer.print_data(f"{workload} restarting since {now}")
