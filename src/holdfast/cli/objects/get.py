"""`holdfast get`: list objects, show some by name, or watch them. What it does is in `getting`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import an_app, command, known_words
from holdfast.cli.objects import listing
from holdfast.cli.objects.listing import Asked, Form, Level
from holdfast.cli.options import Options

app = an_app()

Words = Annotated[
    list[str],
    typer.Argument(metavar="KIND [NAME]...", help="A kind and names, or KIND/NAME.", autocompletion=known_words),
]
Output = Annotated[Form, typer.Option("--output", "-o", help="How to print.")]
Selector = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only with these labels: a=b,c!=d,e,!f.")
]
AllTenants = Annotated[bool, typer.Option("--all-tenants", "-A", help="Objects of all tenants.")]
SortBy = Annotated[str, typer.Option("--sort-by", metavar="PATH", help="Sort by a field, such as spec.replicas.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on printing what changes.")]
Read = Annotated[Level, typer.Option("--read", help="any: whatever the server has; linear: nothing older than now.")]


@command(app)
def get(
    options: Options,
    words: Words,
    output: Output = Form.TABLE,
    selector: Selector = "",
    all_tenants: AllTenants = False,
    sort_by: SortBy = "",
    watch: Watch = False,
    read: Read = Level.ANY,
) -> int:
    """List objects of a kind, or show some by name."""
    return listing.get(options, Asked(words, output, selector, all_tenants, sort_by, watch, read))
