"""`holdfast dev`: a platform and three regions on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.command import make_app
from holdfast.cli.context import config_path, read_config, render_config, validate_config
from holdfast.cli.errors import CliError
from holdfast.cli.options import print_note
from holdfast.wiring.config.private_files import write_private

CONTEXT = "dev"

Data = Annotated[str, typer.Option("--data", metavar="FOLDER", help="Where everything is kept.", show_default=False)]
Port = Annotated[
    int, typer.Option("--port", min=1, max=65_532, help="The platform's port; regions have the next three.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Forget everything that was there, and begin anew.")]
NoApply = Annotated[bool, typer.Option("--no-apply", help="Do not apply the example to a new platform.")]
File = Annotated[
    str, typer.Option("--filename", "-f", metavar="FILE", help="Apply this instead, each time.", show_default=False)
]
Agents = Annotated[
    int | None,
    typer.Option(
        "--agents",
        metavar="COUNT",
        min=0,
        max=8,
        help="How many nodes each region has, each with an agent; as many as at the last start, at first 4.",
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        "--declared-nodes",
        metavar="COUNT",
        min=0,
        max=1_000,
        help="How many nodes each region has instead that run nothing; 0: agents again.",
        show_default=False,
    ),
]


def dev(
    data: Data = "",
    port: Port = 7400,
    fresh: Fresh = False,
    no_apply: NoApply = False,
    file: File = "",
    agents: Agents = None,
    declared_nodes: Nodes = None,
) -> None:
    """Run a platform and three regions with their nodes on this machine, until Ctrl-C.

    One process for each server and each node's agent; one that ends comes back. What agents run ends with them; the
    next start goes on where the last one was. The context `dev` of the configuration leads there.
    """
    from holdfast.wiring.config.sources import data_home
    from holdfast.wiring.dev.cluster import run
    from holdfast.wiring.dev.data_folder import DevOptions

    options = DevOptions(
        data=Path(data).expanduser().absolute() if data else data_home(os.environ) / "dev",
        port=port,
        fresh=fresh,
        apply=not no_apply,
        file=Path(file) if file else None,
        agents=agents,
        declared_nodes=declared_nodes,
    )
    raise typer.Exit(run(options, keep_context, os.environ))


def keep_context(server: str, token_file: Path) -> str:
    """Put the context `dev` into the configuration; what a command that uses it begins with.

    It becomes the current one only where there is no other: nobody who works on production is to find that the next
    command goes elsewhere, or the other way round.
    """
    try:
        is_current = _kept(server, token_file)
    except (CliError, OSError) as error:
        print_note(f"the context {CONTEXT} was not written: {error}")
        return f"{_program()} --server {server} --token-file {token_file}"
    return _program() if is_current else f"{_program()} --context {CONTEXT}"


def _kept(server: str, token_file: Path) -> bool:
    """Write the context; whether it is the current one. What people added to it, such as a tenant, stays."""
    path = Path(config_path(os.environ))
    kept = read_config(str(path))
    contexts = dict(kept.get("contexts") or {})
    current = kept.get("current") or CONTEXT
    wanted = {**(contexts.get(CONTEXT) or {}), "servers": [server], "tokenFile": str(token_file)}
    if contexts.get(CONTEXT) != wanted or kept.get("current") != current:
        config = {**kept, "current": current, "contexts": {**contexts, CONTEXT: wanted}}
        write_private(path, render_config(validate_config(config, str(path))))
    return bool(current == CONTEXT)


def _program() -> str:
    """How people can start this program from where they are."""
    if shutil.which("holdfast"):
        return "holdfast"
    return sys.argv[0] if sys.argv[0].endswith("/holdfast") else f"{sys.executable} -m holdfast.cli.main"


app = make_app()
app.command("dev")(dev)
