"""`holdfast policy`: which revision of a scheduler policy is valid where, what was before, and what is taken back.

`holdfast apply` publishes a revision, which is then valid nowhere. Exactly one is valid for each region and scope: what
is activated takes the place of another, and what is rolled back names its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import ApiClient, connect, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app("Say which scheduler policy is valid where, and take one back.", no_args_is_help=True)

#: What the server shows without a revision is the policy that is built in.
BUILT_IN = "0.0"


class ActivationStage(StrEnum):
    """As what a policy is activated."""

    CANARY = "canary"
    ACTIVE = "active"


Name = Annotated[str, typer.Argument(metavar="[NAME]", help="Of this policy only.")]
Revision = Annotated[str, typer.Argument(metavar="REVISION|NAME", help="Such as 41.3; by a name, its newest.")]
Taken = Annotated[str, typer.Argument(metavar="REVISION", help="Such as 41.3.")]
Staged = Annotated[ActivationStage, typer.Option("--stage", help="Tried in some places, or in force.")]
To = Annotated[str, typer.Option("--to", metavar="REVISION|NAME", help="What is valid in its place.")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why: it is kept in the log.")]


@command(app, without=("tenant", "region"))
def history(options: GlobalOptions, name: Name = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """Show all revisions, newest first: how far each has come, who published it, and where it is valid."""
    found = [one for one in _all(connect(options, resolve(options))) if not name or _name(one) == name]
    if printer.print_structured({"items": found}, output):
        return
    if not found:
        print_note(f"there is no policy {name}")
        return
    rows = [
        [_revision(one), _name(one), _status(one, "stage"), _status(one, "author"), _status(one, "at"), _valid(one)]
        for one in found
    ]
    printer.print_data(printer.table(["REVISION", "NAME", "STAGE", "AUTHOR", "WHEN", "VALID"], rows))


@command(app)
def activate(options: GlobalOptions, revision: Revision, stage: Staged = ActivationStage.ACTIVE) -> None:
    """Make a revision the valid one in the region that --region names: for --tenant, or for all who have none of their
    own.
    """
    if not options.region:
        raise usage_error("where is it to be valid?", "`--region NAME`")
    client = connect(options, resolve(options))
    where = _place(options.region, options.tenant)
    try:
        policy = client.get("policies", revision)
        fields = {"revision": _revision(policy), "region": options.region, "stage": stage.value}
        client.command("activate-policy", **fields, scope=options.tenant)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"policy/{revision}") from None
    printer.print_data(f"policy/{_name(policy)} {_revision(policy)} is valid in {where}")


@command(app, without=("tenant", "region"))
def rollback(options: GlobalOptions, revision: Taken, to: To = "", reason: Reason = "") -> None:
    """Take a revision back for good. Wherever it is valid, what --to names is valid from then on: if it names none, the
    revision of the same policy that was in force before, or the built-in policy.
    """
    if not revision[:1].isdigit():
        raise usage_error(
            f"which revision of {revision}? it is taken back for good", f"`holdfast policy history {revision}`"
        )
    if not reason.strip():
        raise usage_error("why? it is kept in the log", "--reason TEXT")
    client = connect(options, resolve(options))
    try:
        policy = client.get("policies", revision)
        after = client.get("policies", to) if to else _before(policy, _all(client))
        client.command("roll-back-policy", revision=_revision(policy), successor=_revision(after), reason=reason)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"policy/{revision}") from None
    printer.print_data(f"policy/{_name(policy)} {_revision(policy)} rolled back to {_name(after)} {_revision(after)}")
    for one in _status(policy, "valid") or ():
        print_note(f"valid in {_place(one['region'], one.get('tenant', ''))}: {_name(after)} {_revision(after)}")


def _before(policy: Mapping[str, Any], known: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What was in force before a revision: an earlier one of its policy, else what is built in."""
    mine, found = _order(policy), list(known)
    for one in found:
        if _name(one) == _name(policy) and _order(one) < mine and _status(one, "stage") in list(ActivationStage):
            return one
    return next(one for one in found if _revision(one) == BUILT_IN)


def _all(client: ApiClient) -> list[dict[str, Any]]:
    return sorted(client.list("policies").items, key=_order, reverse=True)


def _order(policy: Mapping[str, Any]) -> tuple[int, ...]:
    """Where a revision is in the log."""
    return tuple(int(part) for part in _revision(policy).split("."))


def _name(policy: Mapping[str, Any]) -> str:
    return str(policy["metadata"]["name"])


def _revision(policy: Mapping[str, Any]) -> str:
    return str(policy["metadata"].get("revision") or BUILT_IN)


def _status(policy: Mapping[str, Any], field: str) -> Any:
    return policy["status"].get(field) or ""


def _valid(policy: Mapping[str, Any]) -> str:
    places = [_place(one["region"], one.get("tenant", "")) for one in _status(policy, "valid") or ()]
    return ", ".join(places) or "-"


def _place(region: str, tenant: str) -> str:
    return f"{region} for {tenant}" if tenant else region
