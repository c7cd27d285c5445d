"""What a name may look like.

The one idea: no name may hold a character that joins names elsewhere. Keys such as `tenant/name` and `region|account`
then read back in one way only, and nobody can name an object so that it passes for another.
"""

from __future__ import annotations

import re

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.judge import MACHINES, PEOPLE
from holdfast.core.model.limits import REASON_MAX, TEXT_MAX
from holdfast.core.model.meta import Labels, Meta

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")
#: Workloads may be grouped with slashes: their tenant's name has none, so the key still reads back.
_PATH = re.compile(r"[a-z0-9]([-a-z0-9./]{0,126}[a-z0-9])?")
#: A policy's begins with a letter: so none looks like a revision, by which policies are found too.
_POLICY = re.compile(r"[a-z]([-a-z0-9.]{0,126}[a-z0-9])?")
#: A region's has no slash in it: `region/NAME/SERVER` is a server of that region, and nobody creates those.
_PRINCIPAL = re.compile(
    r"((" + "|".join(one for one in (*MACHINES, *PEOPLE) if one != "region") + r")/"
    r"(\*|[a-z0-9]([-a-z0-9._@/]{0,126}[a-z0-9])?)|region/(\*|[a-z0-9]([-a-z0-9._@]{0,126}[a-z0-9])?))"
)


def refuse_name(kind: str, name: str) -> Refused | None:
    """A name that is not one, with the form that its kind asks for."""
    pattern = {"Principal": _PRINCIPAL, "Workload": _PATH, "SchedulerPolicy": _POLICY}.get(kind, _NAME)
    if pattern.fullmatch(name):
        return None
    facts = {"kind": kind, "name": name, "form": pattern.pattern}
    return Refused(Code.MALFORMED, f"{name!r} is no name for a {kind}", facts)


def refuse_marks(meta: Meta) -> Refused | None:
    """Labels and annotations name each key once; an annotation may be longer than a label, its key may not."""
    return _refuse_pairs("label", meta.labels) or _refuse_pairs("annotation", meta.annotations)


def _refuse_pairs(what: str, marks: Labels) -> Refused | None:
    keys = [key for key, _ in marks]
    if len(set(keys)) != len(keys) or not all(keys):
        return Refused(Code.MALFORMED, f"each {what} has a key, and each key comes once", {"keys": sorted(keys)})
    longest = max(map(len, keys), default=0)
    if longest > TEXT_MAX:
        facts = {"size": longest, "most": TEXT_MAX}
        return Refused(
            Code.MALFORMED, f"{longest} characters in the key of a {what}; at most {TEXT_MAX} are taken", facts
        )
    return None


def refuse_reason(reason: str, most: int = REASON_MAX) -> Refused | None:
    """What people do with consequences says why."""
    if reason.strip() and len(reason) <= most:
        return None
    return Refused(Code.MALFORMED, f"say why, in 1 to {most} characters", {"characters": len(reason)})
