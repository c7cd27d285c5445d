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

Data = Annotated[str, typer.Option(metavar="FOLDER", help="Data folder.", show_default=False)]
Port = Annotated[int, typer.Option(min=1, max=65_532, help="Port of the platform; regions use the next three.")]
Fresh = Annotated[bool, typer.Option("--fresh", help="Delete all data and start again.")]
NoApply = Annotated[bool, typer.Option("--no-apply", help="Do not apply the example to a new platform.")]
File = Annotated[
    str,
    typer.Option(
        "--filename", "-f", metavar="FILE", help="Apply this file instead, at every start.", show_default=False
    ),
]
Agents = Annotated[
    int | None,
    typer.Option(
        metavar="COUNT",
        min=0,
        max=8,
        help="Nodes of each region, each with an agent. Default: as at the last start, or 4.",
        show_default=False,
    ),
]
Nodes = Annotated[
    int | None,
    typer.Option(
        metavar="COUNT",
        min=0,
        max=1_000,
        help="Simulated nodes of each region instead of agents; 0: agents again.",
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

    Each server and each node's agent is a process, which is restarted when it ends. Replicas end with the agents; the
    next start continues from the stored state. The configuration gets a context `dev` for it.
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
    """Write the context `dev` into the configuration, and return the command line that uses it.

    It becomes current only if there is no current context, so that commands for production never go elsewhere, or the
    reverse.
    """
    try:
        is_current = _kept(server, token_file)
    except (CliError, OSError) as error:
        print_note(f"the context {CONTEXT} was not written: {error}")
        return f"{_program()} --server {server} --token-file {token_file}"
    return _program() if is_current else f"{_program()} --context {CONTEXT}"


def _kept(server: str, token_file: Path) -> bool:
    """Write the context and return whether it is current. Fields that users added, such as a tenant, stay."""
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
    """Return how users can start this program from their folder."""
    if shutil.which("holdfast"):
        return "holdfast"
    return sys.argv[0] if sys.argv[0].endswith("/holdfast") else f"{sys.executable} -m holdfast.cli.main"


app = make_app()
app.command("dev")(dev)
