"""`holdfast completion`: the completion script of a shell."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from holdfast.cli.command import COMPLETE, an_app, command
from holdfast.cli.options import Options
from holdfast.cli.output import printer

app = an_app()


class Shell(StrEnum):
    """Shells that are known."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command(app)
def completion(options: Options, shell: Annotated[Shell, typer.Argument(help="For which shell.")]) -> None:
    """Print the completion script of a shell; for bash: `source <(holdfast completion bash)`."""
    from typer._completion_shared import get_completion_script

    printer.say(get_completion_script(prog_name="holdfast", complete_var=COMPLETE, shell=shell.value))
