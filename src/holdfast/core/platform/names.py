"""What a name may look like.

The one idea: no name may hold a character that joins names elsewhere. Keys such as `tenant/name` and `region|account`
then read back in one way only, and nobody can name an object so that it passes for another.
"""

from __future__ import annotations

import re

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.judge import MACHINES, PEOPLE
from holdfast.core.model.meta import Labels, Meta

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")
#: Workloads may be grouped with slashes: their tenant's name has none, so the key still reads back.
_PATH = re.compile(r"[a-z0-9]([-a-z0-9./]{0,126}[a-z0-9])?")
#: A policy's begins with a letter: so none looks like a revision, by which policies are found too.
_POLICY = re.compile(r"[a-z]([-a-z0-9.]{0,126}[a-z0-9])?")
_PRINCIPAL = re.compile(r"(" + "|".join((*MACHINES, *PEOPLE)) + r")/(\*|[a-z0-9]([-a-z0-9._@/]{0,126}[a-z0-9])?)")

#: A label's key or value is for grouping and finding, not for carrying documents; an annotation may be longer.
LABEL_MAX = 256
ANNOTATION_MAX = 4_096


def refuse_name(kind: str, name: str) -> Refused | None:
    """A name that is not one, with the form that its kind asks for."""
    pattern = {"Principal": _PRINCIPAL, "Workload": _PATH, "SchedulerPolicy": _POLICY}.get(kind, _NAME)
    if pattern.fullmatch(name):
        return None
    facts = {"kind": kind, "name": name, "form": pattern.pattern}
    return Refused(Code.MALFORMED, f"{name!r} is no name for a {kind}", facts)


def refuse_marks(meta: Meta) -> Refused | None:
    """Labels and annotations name each key once, and are bounded."""
    for what, marks, most in (("label", meta.labels, LABEL_MAX), ("annotation", meta.annotations, ANNOTATION_MAX)):
        refused = _refuse_pairs(what, marks, most)
        if refused is not None:
            return refused
    return None


def _refuse_pairs(what: str, marks: Labels, most: int) -> Refused | None:
    keys = [key for key, _ in marks]
    if len(set(keys)) != len(keys) or not all(keys):
        return Refused(Code.MALFORMED, f"each {what} has a key, and each key comes once", {"keys": sorted(keys)})
    long = sorted(key for key, value in marks if len(key) > LABEL_MAX or len(value) > most)
    if long:
        return Refused(Code.MALFORMED, f"{what} {long[0]!r} is longer than {most} characters", {"keys": long})
    return None


def refuse_reason(reason: str, most: int = 1_000) -> Refused | None:
    """What people do with consequences says why."""
    if reason.strip() and len(reason) <= most:
        return None
    return Refused(Code.MALFORMED, f"say why, in 1 to {most} characters", {"characters": len(reason)})
