"""`holdfast token`: make, list and revoke tokens.

The secret is made here and never leaves this machine: the server is sent its hash. Whoever reads the ledger, a backup
or the audit cannot act as somebody else.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import ApiClient, connect, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, parse_duration_option, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app("Make, list and revoke tokens.", no_args_is_help=True)

Principal = Annotated[str, typer.Option("--principal", metavar="NAME", help="For whom it speaks: person/oncall.")]
Ttl = Annotated[str, typer.Option("--ttl", metavar="TIME", help="How long it is good for, such as 12h or 30d.")]
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="What the token is called; made up if not given.")]
Replaces = Annotated[
    str, typer.Option("--replaces", metavar="OLD", help="A token of the same principal, which ends after --overlap.")
]
Overlap = Annotated[str, typer.Option("--overlap", metavar="TIME", help="How long the replaced one is still good.")]
AnyNode = Annotated[
    bool, typer.Option("--any-node", help="Let it speak for every agent or scheduler, or for one in every region.")
]


@command(app, without=("tenant", "region"))
def create(
    options: GlobalOptions, principal: Principal = "", ttl: Ttl = "", name: Name = "", replaces: Replaces = "",
    overlap: Overlap = "1h", any_node: AnyNode = False,
) -> None:  # fmt: skip
    """Make a token and print it, once: `holdfast token create --principal person/oncall --ttl 30d > oncall.token`.

    With --replaces it takes the place of another, which stays good for a while: time for its users to change over.
    A machine's token is for one machine in one region. One for all of them needs --any-node, and `status` warns of it.
    """
    import hashlib
    import secrets

    if not ttl:
        raise usage_error("how long is the token good for?", "`--ttl 30d`")
    overlap_ms = parse_duration_option(overlap, "--overlap")
    client = connect(options, resolve(options))
    if replaces:
        old = client.get("tokens", replaces)
        principal = principal or old["spec"]["principal"]
    if not principal:
        raise usage_error("for whom is the token?", "`--principal person/oncall`, or --replaces OLD")
    if principal in ("agent/*", "scheduler/*") and not any_node:
        raise usage_error(f"a token of {principal} speaks for all of them", "one for each, or `--any-node`")
    name = name or f"{principal.rpartition('/')[2].replace('_', '-').replace('*', 'any')}-{secrets.token_hex(4)}"
    if "_" in name:
        raise usage_error(f"--name {name}: the name of a token has no underscore: one ends it within the token")
    secret = secrets.token_urlsafe(32)
    expires = printer.instant_in(parse_duration_option(ttl, "--ttl"))
    spec: dict[str, Any] = {
        "principal": principal,
        "hash": hashlib.sha256(secret.encode()).hexdigest(),
        "expires": expires,
    }
    if any_node:
        spec["any"] = True
    document = {"apiVersion": "holdfast/v1", "kind": "Token", "metadata": {"name": name}, "spec": spec}
    try:
        client.put(document, create_only=True)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"token/{name}") from None
    printer.print_data(f"hf_{name}_{secret}")
    print_note(f"token/{name} of {principal}, good until {expires}; it is not shown again")
    if replaces:
        _retire(client, replaces, overlap_ms)


def _retire(client: ApiClient, name: str, overlap_ms: int) -> None:
    """Let the replaced token end soon, unless it does anyway."""
    ends = printer.instant_in(overlap_ms)

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        spec = found["spec"]
        if spec.get("revoked") or str(spec["expires"]) <= ends:
            return None
        return {**found, "spec": {**spec, "expires": ends}}

    done = client.edit("tokens", name, change)
    print_note(
        f"token/{name} is good until {done.object['spec']['expires']}; `holdfast token revoke {name}` ends it now"
    )


@command(app, "list", without=("tenant", "region"))
def list_tokens(options: GlobalOptions, principal: Principal = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """List tokens: whose they are and until when. Secrets are known to nobody but their holders."""
    found = [
        one
        for one in connect(options, resolve(options)).list("tokens").items
        if not principal or one["spec"]["principal"] == principal
    ]
    if printer.print_structured({"items": found}, output):
        return
    rows = [
        [one["metadata"]["name"], one["spec"]["principal"], one["spec"]["expires"], _state(one["spec"])]
        for one in found
    ]
    printer.print_data(printer.table(["NAME", "PRINCIPAL", "EXPIRES", "STATE"], rows))


def _state(spec: dict[str, Any]) -> str:
    if spec.get("revoked"):
        return "revoked"
    return "expired" if str(spec["expires"]) <= printer.instant_in(0) else "good"


@command(app, without=("tenant", "region"))
def revoke(options: GlobalOptions, name: Annotated[str, typer.Argument(metavar="NAME", help="Which token.")]) -> None:
    """End a token now. It cannot be taken back."""

    def change(found: dict[str, Any]) -> dict[str, Any] | None:
        return None if found["spec"].get("revoked") else {**found, "spec": {**found["spec"], "revoked": True}}

    try:
        done = connect(options, resolve(options)).edit("tokens", name, change)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=f"token/{name}") from None
    printer.print_data(f"token/{name} {'was revoked before' if done.outcome == 'unchanged' else 'revoked'}")
