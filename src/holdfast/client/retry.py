"""What follows a failed attempt: where to go next, how long to wait, when to give up.

    unreachable                  not done     the next server
    no answer, 502, 504          maybe done   the next server
    503                          by its code  the leader it names, or the next server
    429                          not done     the same server: it is the sender who is too fast
    500 and other 5xx            maybe done   give up: the same again would fail again
    4xx                          not done     give up, with the reason

A server that was not tried since the last pause is tried at once. `Retry-After` holds for the server that said it, up
to a limit. After an attempt that may have been executed, a refusal that was made before anybody looked for an earlier
answer (no right, no session, too old) says nothing about that attempt, and is `OutcomeUnknownError`.
"""

from __future__ import annotations

from holdfast.client.config import ClientRuntime
from holdfast.client.errors import (
    HoldfastError,
    OutcomeUnknownError,
    ProblemReport,
    UnavailableError,
    problem_from_reply,
    problem_from_transport,
    refused_error,
)
from holdfast.client.server_pool import ServerPool
from holdfast.host.ports.transport import Reply, TransportError, Unreachable, first_value

FIRST_PAUSE_MS = 100
MAX_PAUSE_MS = 5_000
#: The longest that a server can make a client wait.
RETRY_AFTER_MAX_MS = 15_000

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
#: Codes with which a server promises that it has not executed anything.
NOT_EXECUTED_CODES = frozenset(
    {
        "failed",
        "not-leading",
        "not-proven",
        "not-reached",
        "overloaded",
        "rate-limited",
        "read-only",
        "region-unreachable",
        "stopped",
    }
)
#: Refusals that come before the search for an earlier answer, so that an earlier attempt may have landed all the same.
INCONCLUSIVE_CODES = frozenset({"no-session", "too-old-to-retry"})


class RetryState:
    """The attempts of one request, or of one watch to get a stream.

    `patience_ms` None: it never gives up. `writes` says whether anything is changed by the request, and `key` under
    which idempotency key.
    """

    def __init__(
        self,
        means: ClientRuntime,
        servers: ServerPool,
        region: str,
        patience_ms: int | None,
        *,
        writes: bool = False,
        key: str = "",
    ) -> None:
        self._means = means
        self._writes = writes
        self._key = key
        self._servers = servers
        self._region = region
        self._until = None if patience_ms is None else means.now() + patience_ms
        self.server = servers.preferred
        self.may_be_done = False
        self._problem = ProblemReport(code="unreachable", detail="nothing was tried")
        self._pauses = 0
        #: Who was tried since the last pause, and who asked not to be, until when.
        self._tried: set[str] = set()
        self._not_before: dict[str, int] = {}

    def left_ms(self) -> int:
        """What is left of the patience; at least a millisecond, since there is always a first attempt."""
        assert self._until is not None, "this one has no end"
        return max(1, self._until - self._means.now())

    def worked(self) -> None:
        """The server answered: it is preferred from now on, and what failed before is forgotten."""
        self._servers.worked(self.server)
        self._pauses = 0
        self._tried.clear()

    def forget(self) -> None:
        """What failed before is long ago: pauses begin anew."""
        self._pauses = 0

    def failed(self, error: TransportError, *, was_hurried: bool = False) -> None:
        """The server could not be talked to. That it did not answer an attempt `was_hurried` by the end of our patience
        says less than what a server said before."""
        if not (was_hurried and self._problem.status):
            self._problem = problem_from_transport(self.server, error)
        self.may_be_done |= not isinstance(error, Unreachable)
        self._go(self._servers.after(self.server))

    def broke(self, problem: ProblemReport) -> None:
        """A stream ended that had begun: go on elsewhere, and not at once, lest we run round in circles."""
        self._problem = problem
        self._go(self._servers.after(self.server))
        self._tried.add(self.server)

    def answered(self, reply: Reply) -> None:
        """The server answered with something else than success. Raises what ends the call, if that does."""
        problem = self._problem = problem_from_reply(reply)
        if problem.status not in RETRYABLE_STATUSES:
            raise self._refused(problem, reply)
        self.may_be_done |= problem.status != 429 and problem.code not in NOT_EXECUTED_CODES
        asked_ms = problem.retry_after_ms or _seconds(first_value(reply.headers, "retry-after")) * 1_000
        self._not_before[self.server] = self._means.now() + min(asked_ms, RETRY_AFTER_MAX_MS)
        if problem.status == 429:
            self._go(self.server)
        else:
            leader = self._servers.leader_named_in(reply, self.server, self._region)
            self._go(leader or self._servers.after(self.server))

    def pause_ms(self) -> int:
        """How long to wait before the next attempt. Raises when patience would have ended by then."""
        now, wait = self._means.now(), 0
        if self.server in self._tried or len(self._tried) > len(self._servers.names):
            wait = self._back_off()
            self._tried.clear()
        wait = max(wait, self._not_before.get(self.server, now) - now)
        if self._until is not None and now + wait >= self._until:
            raise self._unfinished(self._problem, self.may_be_done)
        return wait

    def _go(self, server: str) -> None:
        self._tried.add(self.server)
        self.server = server

    def _back_off(self) -> int:
        """Between half of it and all of it, twice as long each time."""
        most = min(MAX_PAUSE_MS, FIRST_PAUSE_MS << min(self._pauses, 16))
        self._pauses += 1
        return most - int(self._means.jitter() * (most // 2))

    def _refused(self, problem: ProblemReport, reply: Reply) -> HoldfastError:
        if problem.status >= 500:
            return self._unfinished(problem, may_be_done=True)
        says_nothing = problem.status in (401, 403) or problem.code in INCONCLUSIVE_CODES
        if self._writes and self.may_be_done and says_nothing:
            return OutcomeUnknownError(problem, self._key)
        return refused_error(problem, reply)

    def _unfinished(self, problem: ProblemReport, may_be_done: bool) -> HoldfastError:
        return OutcomeUnknownError(problem, self._key) if self._writes and may_be_done else UnavailableError(problem)


def _seconds(text: str) -> int:
    """`Retry-After` in seconds. A date is not understood: the usual pause has to do."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
