"""Why a host does not answer, and what stops it.

After `Unavailable` the command has changed nothing; after `OutcomeUnknown` it may have. The message names the next
step. After `Stopped` this server must not continue with its state; an operator has to act.
"""

from __future__ import annotations

from holdfast.core.ledger.revision import RevisionToken


class Unavailable(Exception):
    """This server cannot answer now. Unless the subclass states otherwise, nothing has changed."""

    code = "unavailable"


class NotLeading(Unavailable):
    """This server is a follower and did not decide the command."""

    code = "not-leading"


class NotProven(Unavailable):
    """This server led a moment ago, cannot prove that it still leads, and did not decide the command."""

    code = "not-proven"


class ReadOnly(Unavailable):
    """The store accepts no writes, or none of this command's lane; nothing has changed."""

    code = "read-only"


class Overloaded(Unavailable):
    """The queue is full; nothing has changed. Retry later with the same idempotency key."""

    code = "overloaded"


class Failed(Unavailable):
    """An internal error, which was logged, prevented the decision; nothing has changed."""

    code = "failed"


class OutcomeUnknown(Unavailable):
    """The command may or may not be in the log. Retry with the same key or number: it takes effect at most once."""

    code = "outcome-unknown"


class NotReached(Unavailable):
    """The requested revision was not reached in time."""

    code = "not-reached"


class Halted(Unavailable):
    """This server has halted and answers nothing, because its state is not reliable."""

    code = "stopped"


class ListAgain(Exception):
    """The position that a reader resumes from is not here: list again and resume from the list's revision token."""


class Gone(ListAgain):
    """The position to resume from was trimmed."""


class Diverged(ListAgain):
    """The position to resume from is not in this log: the log is another one, or was restored to an earlier state."""


class Stopped(Exception):
    """This server cannot continue; the message names the finding and the way out."""


class StoreWentBackwards(Stopped):
    """The store's head is older than the head that this server has seen, or is in another history (RULES 9)."""


class StateDiffers(Stopped):
    """The state of this server differs from the state digest in the log (RULES 16)."""


def show_token(token: RevisionToken) -> str:
    """Return a revision token in readable form: log, term, batch, and the start of its digest."""
    return f"{token.log_id}:{token.term}:{token.seq}:{token.digest_start.hex()}"
