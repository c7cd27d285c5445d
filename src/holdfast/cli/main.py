"""`holdfast`: the application."""

from __future__ import annotations

import typer

import holdfast
from holdfast.cli import bench, sim

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Holdfast: a distributed scheduler control plane.")
app.add_typer(bench.app, name="bench")
app.add_typer(sim.app, name="sim")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(holdfast.__version__)


if __name__ == "__main__":
    app()
