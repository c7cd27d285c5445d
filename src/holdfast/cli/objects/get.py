"""`holdfast get`: list objects, show them by name, or watch them. The work is in `listing`."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import command, complete_words, make_app
from holdfast.cli.objects import listing
from holdfast.cli.objects.listing import GetQuery, ListFormat, ReadOption
from holdfast.cli.options import GlobalOptions

app = make_app()

Words = Annotated[
    list[str],
    typer.Argument(metavar="KIND [NAME]...", help="A kind and names, or KIND/NAME.", autocompletion=complete_words),
]
Output = Annotated[ListFormat, typer.Option("--output", "-o", help="Output format.")]
Selector = Annotated[str, typer.Option("--selector", "-l", metavar="LABELS", help="Select by labels: a=b,c!=d,e,!f.")]
AllTenants = Annotated[bool, typer.Option("--all-tenants", "-A", help="Objects of all tenants.")]
SortBy = Annotated[str, typer.Option("--sort-by", metavar="PATH", help="Sort by a field, such as spec.replicas.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print changes until interrupted.")]
Read = Annotated[ReadOption, typer.Option("--read", help="any: possibly stale; linear: up to date.")]


@command(app)
def get(
    options: GlobalOptions,
    words: Words,
    output: Output = ListFormat.TABLE,
    selector: Selector = "",
    all_tenants: AllTenants = False,
    sort_by: SortBy = "",
    watch: Watch = False,
    read: Read = ReadOption.ANY,
) -> int:
    """List objects of a kind, or show them by name."""
    return listing.get(options, GetQuery(words, output, selector, all_tenants, sort_by, watch, read))
