"""`holdfast completion`: the completion script of a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.command import COMPLETE, command, make_app
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer

app = make_app()


class Shell(StrEnum):
    """Supported shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command(app)
def completion(options: GlobalOptions, shell: Annotated[Shell, typer.Argument(help="Shell.")]) -> None:
    """Print the completion script of a shell; for bash: `source <(holdfast completion bash)`."""
    from typer._completion_shared import get_completion_script

    printer.print_data(get_completion_script(prog_name="holdfast", complete_var=COMPLETE, shell=shell.value))
