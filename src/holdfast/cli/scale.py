"""`holdfast scale`: change how many replicas a workload has."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli import shown
from holdfast.cli.commands import an_app, command, known_words
from holdfast.cli.connect import as_trouble, connect
from holdfast.cli.contexts import resolve
from holdfast.cli.nouns import Named, region_for, the_object
from holdfast.cli.options import Options
from holdfast.cli.troubles import misused

app = an_app()

Words = Annotated[
    list[str], typer.Argument(metavar="workload NAME", help="Which workload.", autocompletion=known_words)
]
Replicas = Annotated[int, typer.Option("--replicas", min=0, help="How many there should be.")]


@command(app)
def scale(options: Options, words: Words, replicas: Replicas) -> None:
    """Change how many replicas a workload has. Everything else of it stays as it is."""
    context = resolve(options)
    workload = the_workload(the_object(words, context))
    client = connect(options, context, region=region_for(workload.kind, context, options.region))
    before: list[int] = []

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        before.append(found["spec"]["replicas"])
        if before[-1] == replicas:
            return None
        return {**found, "spec": {**found["spec"], "replicas": replicas}}

    try:
        client.edit("workloads", workload.name, change, tenant=workload.tenant)
    except Exception as error:
        raise as_trouble(error, options.verbose, what=str(workload)) from None
    same = before[-1] == replicas
    shown.say(f"{workload} {'unchanged' if same else f'scaled from {before[-1]} to {replicas}'}")


def the_workload(one: Named) -> Named:
    """The object, if it is a workload: nothing else has replicas."""
    if one.kind.name != "Workload":
        raise misused(f"{one} has no replicas; only workloads have")
    return one
