"""`holdfast explain`: elsewhere it means help for fields; here that is `schema`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.api.documents.kinds import find
from holdfast.cli.commands import an_app, command
from holdfast.cli.options import Options
from holdfast.cli.troubles import misused

app = an_app()


@command(app)
def explain(options: Options, words: Annotated[list[str] | None, typer.Argument(metavar="OBJECT")] = None) -> None:
    """Say where to look instead."""
    first = words[0] if words else ""
    if first and len(words or ()) == 1 and find(first.partition(".")[0]) is not None:
        raise misused(f"{first}: the fields of a kind are explained by schema", f"`holdfast schema {first}`")
    raise misused(
        "there is no explain yet", "`holdfast describe KIND NAME` tells why; `holdfast schema KIND` explains fields"
    )
