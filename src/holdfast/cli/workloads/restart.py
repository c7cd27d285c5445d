"""`holdfast restart`: replace the replicas of a workload, one after another."""

from __future__ import annotations

from typing import Any

from holdfast.cli.command import Words, an_app, command
from holdfast.cli.connect import as_trouble, connect
from holdfast.cli.context import resolve
from holdfast.cli.options import Options
from holdfast.cli.output import printer
from holdfast.cli.targets import region_for, the_object, the_workload

app = an_app()


@command(app)
def restart(options: Options, words: Words) -> None:
    """Replace the replicas of a workload by new ones, as a rollout does and within its disruption budget.

    It sets `spec.template.restarted` to now: another template, and so a rollout to it.
    """
    context = resolve(options)
    workload = the_workload(the_object(words, context))
    client = connect(options, context, region=region_for(workload.kind, context, options.region))
    now = printer.later(0)

    def change(found: dict[str, Any]) -> dict[str, Any]:
        spec = found["spec"]
        return {**found, "spec": {**spec, "template": {**spec["template"], "restarted": now}}}

    try:
        client.edit("workloads", workload.name, change, tenant=workload.tenant)
    except Exception as error:
        raise as_trouble(error, options.verbose, what=str(workload)) from None
    printer.say(f"{workload} restarting since {now}")
