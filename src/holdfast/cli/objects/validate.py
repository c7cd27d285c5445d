"""`holdfast validate`: check files without a server, by the code that the server runs."""

from __future__ import annotations

from holdfast.cli import documents
from holdfast.cli.command import Files, Recursive, an_app, command
from holdfast.cli.context import resolve
from holdfast.cli.documents import Source, read_all
from holdfast.cli.errors import misused
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer
from holdfast.cli.targets import find, named_in

app = an_app()


@command(app)
def validate(options: Options, filename: Files, recursive: Recursive = False) -> None:
    """Check files without a server: for editors, hooks and CI. What only a server knows, such as whether a tenant
    exists, is not checked.
    """
    tenant = resolve(options).tenant
    sources = [_owned(source, tenant) for source in read_all(filename, recursive=recursive)]
    wrong = []
    for source in sources:
        faults = documents.faults_of(source)
        if faults:
            wrong.append(source)
            note("\n".join(map(str, faults)))
        else:
            printer.say(f"{named_in(source.document)} valid")
    if wrong:
        said = f"{len(wrong)} of {len(sources)} document{'s are' if len(sources) > 1 else ' is'} not valid"
        raise misused(said, documents.explained_by(wrong[0]))


def _owned(source: Source, tenant: str) -> Source:
    """With the tenant that it would be applied with, if one is known here; that there is none is a fault to be told."""
    kind = find(source.document["kind"])
    meta = source.document["metadata"]
    if kind is None or not kind.tenanted or meta.get("tenant") or not tenant:
        return source
    return Source({**source.document, "metadata": {**meta, "tenant": tenant}}, source.loaded)
