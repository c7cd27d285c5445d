"""`holdfast can-i`: ask whether something is allowed. Exit code 0: yes; 1: no."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import command, make_app
from holdfast.cli.connect import connect, to_cli_error
from holdfast.cli.context import CliContext, resolve
from holdfast.cli.errors import CliExitCode, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer

app = make_app()

#: The rights of people; any other word is the tag of a command.
RIGHTS = ["read", "write", "operate", "override", "break-glass", "promote-policy", "see-other-tenants", "audit"]

What = Annotated[str, typer.Argument(metavar="COMMAND|RIGHT", help="Such as put-workload, declare-lost or operate.")]
Node = Annotated[str, typer.Option("--node", metavar="NAME", help="On this node.")]


@command(app)
def can_i(options: GlobalOptions, what: What, node: Node = "") -> int:
    """Ask whether you may send a command, or have a right, where --tenant, --region and --node say."""
    context = resolve(options)
    client = connect(options, context, region=_whose(what, context))
    asked = {"right": what} if what in RIGHTS else {"command": what}
    try:
        answer = client.can_i(**asked, tenant=context.tenant, region=context.region, node=node)
    except Exception as error:
        told = to_cli_error(error, options.verbose)
        if told.ending is CliExitCode.REFUSED:  # a question that is not understood is not answered with no
            raise usage_error(
                str(told), "docs/reference/commands.md lists the commands; rights are: " + ", ".join(RIGHTS)
            ) from None
        raise told from None
    printer.print_data("yes" if answer.allowed else "no")
    if answer.why:
        print_note(answer.why)
    return CliExitCode.DONE if answer.allowed else CliExitCode.REFUSED


def _whose(what: str, context: CliContext) -> str:
    """The region that knows this command; empty: the platform does, or nobody here can tell."""
    from holdfast.api.resources.command_catalog import tags

    if what in RIGHTS or what in tags("platform") or what not in tags("region"):
        return ""
    if not context.region:
        raise usage_error(f"{what} is sent to regions: to which?", f"`holdfast can-i {what} --region NAME`")
    return context.region
