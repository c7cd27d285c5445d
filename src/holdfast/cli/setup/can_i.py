"""`holdfast can-i`: ask whether something is allowed. Exit code 0: yes; 1: no."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import an_app, command
from holdfast.cli.connect import as_trouble, connect
from holdfast.cli.context import Context, resolve
from holdfast.cli.errors import Ending, misused
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer

app = an_app()

#: The rights of people; any other word is the tag of a command.
RIGHTS = ["read", "write", "operate", "override", "break-glass", "promote-policy", "see-other-tenants", "audit"]

What = Annotated[str, typer.Argument(metavar="COMMAND|RIGHT", help="Such as put-workload, declare-lost or operate.")]
Node = Annotated[str, typer.Option("--node", metavar="NAME", help="On this node.")]


@command(app)
def can_i(options: Options, what: What, node: Node = "") -> int:
    """Ask whether you may send a command, or have a right, where --tenant, --region and --node say."""
    context = resolve(options)
    client = connect(options, context, region=_whose(what, context))
    asked = {"right": what} if what in RIGHTS else {"command": what}
    try:
        answer = client.can_i(**asked, tenant=context.tenant, region=context.region, node=node)
    except Exception as error:
        told = as_trouble(error, options.verbose)
        if told.ending is Ending.REFUSED:  # a question that is not understood is not answered with no
            raise misused(str(told), "docs/reference.md lists the commands; rights are: " + ", ".join(RIGHTS)) from None
        raise told from None
    printer.say("yes" if answer.allowed else "no")
    if answer.why:
        note(answer.why)
    return Ending.DONE if answer.allowed else Ending.REFUSED


def _whose(what: str, context: Context) -> str:
    """The region that knows this command; empty: the platform does, or nobody here can tell."""
    from holdfast.api.resources.command_catalog import tags

    if what in RIGHTS or what in tags("platform") or what not in tags("region"):
        return ""
    if not context.region:
        raise misused(f"{what} is sent to regions: to which?", f"`holdfast can-i {what} --region NAME`")
    return context.region
