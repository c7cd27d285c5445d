"""`holdfast region`: where a region is, and what a person says of one that does not answer.

Lost means: it may still run, and failover need not wait. Forgotten means: nothing runs there any more, so everything it
held is free. The first is taken back by the region itself, when it is heard again; the second by nobody. Between them a
person attests of single identities that they do not run there: they may be started elsewhere. And where somebody else
spoke for a region, its log is believed on a person's word.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.command import command, make_app
from holdfast.cli.connect import connect, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.targets import resolve_object

app = make_app(
    "Say where a region is, believe its log, declare it lost, attest what does not run there, or forget it.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Which region.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why: it is kept in the log.")]
Address = Annotated[str, typer.Argument(metavar="URL", help="Its servers: `https://HOST:PORT`.")]
Destroyed = Annotated[bool, typer.Option("--destroyed", help="Attest that nothing runs there, and never will again.")]
Whole = Annotated[bool, typer.Option("--whole", help="Attest that its log lacks nothing that was ever in it.")]
Workload = Annotated[str, typer.Argument(metavar="WORKLOAD", help="Whose identities: `TENANT/NAME`.")]
Ordinals = Annotated[list[int], typer.Argument(metavar="ORDINAL...", min=0, help="Which of them.")]
Stopped = Annotated[bool, typer.Option("--stopped", help="Attest that these do not run there.")]


@command(app, "set-address", without=("tenant", "region"))
def set_address(options: GlobalOptions, name: Name, address: Address) -> None:
    """Say where the platform reaches a region. What the region itself reports is shown, and nothing is sent there."""
    before: list[str] = []

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        before.append(found["spec"].get("address", ""))
        return None if before[-1] == address else {**found, "spec": {**found["spec"], "address": address}}

    try:
        connect(options, resolve(options)).edit("regions", name, change)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"region/{name}") from None
    printer.print_data(f"region/{name} {'unchanged' if before[-1] == address else f'is reached at {address}'}")


@command(app, without=("tenant", "region"))
def believe(options: GlobalOptions, name: Name, whole: Whole = False, reason: Reason = "") -> None:
    """Let a region begin again at what its log shows, whatever was acknowledged in its name.

    For a region whose token was stolen: somebody said that its log is further than it is, and so it takes and tells
    nothing. Revoke that token first.
    """
    if not whole:
        said = f"region {name} is not believed without --whole: with it you attest that its store lacks nothing"
        lines = (
            "were its store restored from a backup, what it gives out from now on was given out before",
            "that of a region with such a store is to be forgotten, and begins a new log",
        )
        raise usage_error(said, f"if its store lost its end: `holdfast region forget {name}`", lines)
    _must_say_why(reason)
    _send(options, "believe-region", name, reason)
    printer.print_data(f"region/{name} believed")
    print_note("it joins again within seconds; `holdfast status` shows how far it is")


@command(app, without=("tenant", "region"))
def forget(options: GlobalOptions, name: Name, destroyed: Destroyed = False, reason: Reason = "") -> None:
    """Give a region up for good: what it held is released, and deletions that waited for it are complete.

    It cannot be undone. Its log never speaks again; machines of that region may join only with a new one.
    """
    if not destroyed:
        said = (
            f"region {name} is not forgotten without --destroyed: with it you attest that nothing of it runs any more"
        )
        lines = (
            "its rights, grants and finalizers are released at once, and what it ran may start elsewhere",
            "were anything still running there, the same identity would run twice",
        )
        hint = f"if it may still run: `holdfast region declare-lost {name} --reason TEXT`"
        raise usage_error(said, hint, lines)
    _must_say_why(reason)
    _send(options, "retire-region", name, reason)
    printer.print_data(f"region/{name} forgotten")
    print_note(f"it may join again as a new log only; `holdfast delete region {name}` removes its object")


@command(app, "declare-lost", without=("tenant", "region"))
def declare_lost(options: GlobalOptions, name: Name, reason: Reason = "") -> None:
    """Say that a region is lost without waiting for its silence to last: failover may begin.

    What it holds stays its own: it may still run. Once it is heard again it is healthy again.
    """
    _must_say_why(reason)
    _send(options, "declare-lost", name, reason)
    printer.print_data(f"region/{name} declared lost")
    print_note("`holdfast repair list` shows what waits for it")


@command(app, without=("region",))
def attest(
    options: GlobalOptions,
    name: Name,
    workload: Workload,
    ordinals: Ordinals,
    stopped: Stopped = False,
    reason: Reason = "",
) -> None:
    """Attest that identities of an exclusive workload do not run in a region: their rights are free at once.

    For a region that is lost while it is known that these are down: its machines have no power, say. What else the
    region holds stays its own.
    """
    context = resolve(options)
    one = resolve_object(("workload", workload), context)
    said = f"{' '.join(map(str, ordinals))} of {one}"
    if not stopped:
        lines = (
            "their rights are free at once, and they may start elsewhere",
            "were one of them still running there, the same identity would run twice",
        )
        hint = f"`holdfast get replicas --region {name} --tenant {one.tenant}` shows what runs, where it answers"
        raise usage_error(f"{said} in region {name}: nothing is attested without --stopped", hint, lines)
    _must_say_why(reason)
    client = connect(options, context)
    try:
        uid = client.get(one.kind.plural, one.name, tenant=one.tenant)["metadata"]["uid"]
        for ordinal in ordinals:
            client.command("attest-right", workload=uid, ordinal=ordinal, region=name, reason=reason)
            printer.print_data(f"{one}/{ordinal} attested not to run in region {name}")
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=str(one)) from None
    print_note(f"`holdfast describe workload {one.tenant}/{one.name}` shows where it goes")


def _must_say_why(reason: str) -> None:
    if not reason.strip():
        raise usage_error("why? it is kept in the log", "--reason TEXT")


def _send(options: GlobalOptions, tag: str, name: str, reason: str) -> None:
    try:
        connect(options, resolve(options)).command(tag, region=name, reason=reason)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"region/{name}") from None
