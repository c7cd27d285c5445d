"""`holdfast validate`: check files without a server, with the server's own code."""

from __future__ import annotations

from holdfast.api.kinds import find_kind
from holdfast.cli import documents
from holdfast.cli.command import FilesOption, RecursiveOption, command, make_app
from holdfast.cli.context import resolve
from holdfast.cli.documents import SourceDocument, read_documents
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.targets import object_label

app = make_app()


@command(app)
def validate(options: GlobalOptions, filename: FilesOption, recursive: RecursiveOption = False) -> None:
    """Check files without a server: for editors, hooks and CI. Facts that only a server has, such as whether a tenant
    exists, are not checked."""
    tenant = resolve(options).tenant
    sources = [_owned(source, tenant) for source in read_documents(filename, recursive=recursive)]
    wrong = []
    for source in sources:
        faults = documents.validation_errors(source)
        if faults:
            wrong.append(source)
            print_note("\n".join(map(str, faults)))
        else:
            printer.print_data(f"{object_label(source.document)} valid")
    if wrong:
        said = f"{len(wrong)} of {len(sources)} document{'s are' if len(sources) > 1 else ' is'} not valid"
        raise usage_error(said, documents.schema_hint(wrong[0]))


def _owned(source: SourceDocument, tenant: str) -> SourceDocument:
    """Return the document with the configured tenant, if it needs one. A missing tenant is reported as a problem of the
    document."""
    kind = find_kind(source.document["kind"])
    meta = source.document["metadata"]
    if kind is None or not kind.tenanted or meta.get("tenant") or not tenant:
        return source
    return SourceDocument({**source.document, "metadata": {**meta, "tenant": tenant}}, source.loaded)
