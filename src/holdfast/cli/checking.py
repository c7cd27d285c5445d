"""Documents checked without a server, by the code that the server runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.cli.files import Source
from holdfast.cli.nouns import find
from holdfast.cli.troubles import misused

if TYPE_CHECKING:
    from holdfast.api.documents.faults import Fault


def faults_of(source: Source) -> list[str]:
    """What is wrong with a document, each with its file, line and field."""
    from holdfast.api.documents.faults import Faulty
    from holdfast.api.documents.objects import read_object
    from holdfast.api.documents.offline import check

    try:
        found: Sequence[Fault] = check(read_object(source.document))
    except Faulty as faulty:
        found = faulty.faults
    return [source.told(fault.pointer, fault.message, fault.hint) for fault in found]


def refuse_faulty(sources: Sequence[Source]) -> None:
    """Raise `Trouble` with everything that is wrong, if something is."""
    found = [(source, line) for source in sources for line in faults_of(source)]
    if found:
        count = f"{len(found)} mistake{'s' if len(found) > 1 else ''}"
        raise misused(f"nothing was sent: {count}", explained_by(found[0][0]), [line for _, line in found])


def explained_by(source: Source) -> str:
    """Where the fields of a document are explained."""
    kind = find(source.document["kind"])
    return f"`holdfast schema {kind.name.lower()}` explains the fields" if kind else "`holdfast schema` lists the kinds"
