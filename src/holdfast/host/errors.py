"""What a host says instead of an answer, and what stops it.

`Unavailable`: nothing was changed by this command, or (`OutcomeUnknown`) it cannot be told; the message says what to
do. `Stopped`: this server must not go on with what it has; somebody has to look.
"""

from __future__ import annotations

from holdfast.core.ledger.revision import RevisionToken


class Unavailable(Exception):
    """No answer can be given here now. Unless it says otherwise, nothing has changed."""

    code = "unavailable"


class NotLeading(Unavailable):
    """This server follows; the command was not looked at."""

    code = "not-leading"


class NotProven(Unavailable):
    """This server led a moment ago and cannot show that it still does; the command was not looked at."""

    code = "not-proven"


class ReadOnly(Unavailable):
    """The store takes no writes, or none of this importance; nothing has changed."""

    code = "read-only"


class Overloaded(Unavailable):
    """Too much waits already; nothing has changed. Try again later, with the same key."""

    code = "overloaded"


class Failed(Unavailable):
    """Judging this command failed by a fault of ours, which was logged; nothing has changed."""

    code = "failed"


class OutcomeUnknown(Unavailable):
    """The command may be in the log or not. Retry with the same key or number: it is done at most once."""

    code = "outcome-unknown"


class NotReached(Unavailable):
    """The revision asked for was not reached in time."""

    code = "not-reached"


class Halted(Unavailable):
    """This server has stopped and gives no answers: what it holds cannot be relied on."""

    code = "stopped"


class ListAgain(Exception):
    """What a reader stood on is no longer here: take a list and go on from its token."""


class Gone(ListAgain):
    """The place to resume from was trimmed."""


class Diverged(ListAgain):
    """The place to resume from is not in this log: the log is another one, or was restored to before it."""


class Stopped(Exception):
    """This server cannot go on; the message names what it found and the way out."""


class StoreWentBackwards(Stopped):
    """The store's head is behind or beside what this server saw in it (RULES 9)."""


class StateDiffers(Stopped):
    """The state here is not the one that the log's digest was taken of (RULES 16)."""


def show_token(token: RevisionToken) -> str:
    """A token as people read it: log, term, batch, and the start of its digest."""
    return f"{token.log_id}:{token.term}:{token.seq}:{token.digest_start.hex()}"
