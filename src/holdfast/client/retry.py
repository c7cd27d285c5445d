"""What follows a failed attempt: the next server, a back-off, or the final error.

    unreachable                  not executed    next server
    no answer, 502, 504          maybe executed  next server
    503                          by its code     the leader it names, or the next server
    429                          not executed    the same server, later: the rate limit applies to this sender
    500 and other 5xx            maybe executed  final: a retry would fail in the same way
    4xx                          not executed    final, with the reason

A server that was not tried since the last back-off is tried at once. `Retry-After` holds for the server that sent it,
up to a limit. Some refusals precede the search for an earlier answer (no permission, no session, too old). After an
attempt that may have been executed they do not settle it: the result is `OutcomeUnknownError`.
"""

from __future__ import annotations

from holdfast.client import errors
from holdfast.client.config import ClientRuntime
from holdfast.host.ports.transport import Reply, TransportError, Unreachable, first_value

FIRST_PAUSE_MS = 100
MAX_PAUSE_MS = 5_000
#: Longest time that a server's `Retry-After` delays this client.
RETRY_AFTER_MAX_MS = 15_000

RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
#: Codes with which a server guarantees that it executed nothing.
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
#: Refusals that precede the search for an earlier answer: an earlier attempt may be committed all the same.
INCONCLUSIVE_CODES = frozenset({"no-session", "too-old-to-retry"})


class RetryState:
    """The attempts of one request, or of a watch that opens a stream.

    `patience_ms` None: retry without end. `writes`: the request changes state. `key`: its idempotency key.
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
        self._problem = errors.ProblemReport(code="unreachable", detail="no attempt was made")
        self._pauses = 0
        #: Servers tried since the last back-off, and until when a server asked to be left out (`Retry-After`).
        self._tried: set[str] = set()
        self._not_before: dict[str, int] = {}

    def left_ms(self) -> int:
        """Return the time left for retries; at least 1 ms, since the first attempt is always made."""
        assert self._until is not None, "retries without end have no time left"
        return max(1, self._until - self._means.now())

    def worked(self) -> None:
        """Record an answer: prefer this server from now on, and forget earlier failures."""
        self._servers.worked(self.server)
        self._pauses = 0
        self._tried.clear()

    def forget(self) -> None:
        """Restart the back-off at its shortest wait, because earlier failures are long ago."""
        self._pauses = 0

    def failed(self, error: TransportError, *, was_hurried: bool = False) -> None:
        """Record a transport error. If the deadline shortened the attempt (`was_hurried`), an earlier answer of a
        server remains the problem to report: it contains more than a timeout."""
        if not (was_hurried and self._problem.status):
            self._problem = errors.problem_from_transport(self.server, error)
        self.may_be_done |= not isinstance(error, Unreachable)
        self._go(self._servers.after(self.server))

    def broke(self, problem: errors.ProblemReport) -> None:
        """Record the end of a stream that had delivered messages. The next server follows after a back-off, never at
        once."""
        self._problem = problem
        self._go(self._servers.after(self.server))
        self._tried.add(self.server)

    def answered(self, reply: Reply) -> None:
        """Record an unsuccessful reply. Raises the final error if no retry can help."""
        problem = self._problem = errors.problem_from_reply(reply)
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
        """Return the wait before the next attempt. Raises the final error if the retry time ends before it."""
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
        """Return a random wait between half and all of a limit that doubles with each failure."""
        most = min(MAX_PAUSE_MS, FIRST_PAUSE_MS << min(self._pauses, 16))
        self._pauses += 1
        return most - int(self._means.jitter() * (most // 2))

    def _refused(self, problem: errors.ProblemReport, reply: Reply) -> errors.HoldfastError:
        if problem.status >= 500:
            return self._unfinished(problem, may_be_done=True)
        says_nothing = problem.status in (401, 403) or problem.code in INCONCLUSIVE_CODES
        if self._writes and self.may_be_done and says_nothing:
            return errors.OutcomeUnknownError(problem, self._key)
        return errors.refused_error(problem, reply)

    def _unfinished(self, problem: errors.ProblemReport, may_be_done: bool) -> errors.HoldfastError:
        return (
            errors.OutcomeUnknownError(problem, self._key)
            if self._writes and may_be_done
            else errors.UnavailableError(problem)
        )


def _seconds(text: str) -> int:
    """Return `Retry-After` in seconds. Dates are ignored: the usual back-off applies."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


class ServerPool:
    """The servers of one ledger, in configured order. Requests start with the server that answered last."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = tuple(dict.fromkeys(_plain(name) for name in names))
        self.preferred = self.names[0]

    def worked(self, server: str) -> None:
        """Record that this server answered: the next request starts with it."""
        self.preferred = server

    def after(self, server: str) -> str:
        """Return the next server of the list."""
        return self.names[(self.names.index(server) + 1) % len(self.names)]

    def leader_named_in(self, reply: Reply, asked: str, region: str) -> str:
        """Return the other configured server that this reply names as leader; empty if it names none of them.

        A server's reply never adds a destination for this client's bearer token (RULES 27). None is needed: a follower
        forwards requests to the leader.
        """
        if region:
            return ""  # A region's servers name their own leader; the pool holds the platform's.
        leader = _plain(first_value(reply.headers, "holdfast-leader"))
        return leader if leader != asked and leader in self.names else ""


class ReadYourWrites:
    """The newest revision token of this client's own writes, per ledger.

    A ledger is named by the region through which it was reached; the directly reached one has the empty name.
    """

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}

    def of(self, region: str) -> str:
        """Return the revision that a read must include; empty if any will do."""
        return self._newest.get(region, "")

    def wrote(self, region: str, reply: Reply) -> None:
        """Record the revision of an answered write, which later reads must include."""
        token = first_value(reply.headers, "holdfast-token")
        ledger = first_value(reply.headers, "holdfast-ledger")
        if not token or (region and ledger and ledger != f"region/{region}"):
            return
        if _is_later(token, self._newest.get(region, "")):
            self._newest[region] = token

    def forget(self, region: str, token: str) -> None:
        """Forget this token, which is no longer in the log. A newer one of a later write stays."""
        if self._newest.get(region) == token:
            del self._newest[region]


def _plain(name: str) -> str:
    return name.strip().rstrip("/")


def _is_later(token: str, than: str) -> bool:
    """Return whether `token` replaces `than`. Answers to concurrent writes arrive in any order."""
    log, _, seq = _parts(token)
    other, _, other_seq = _parts(than)
    return log != other or seq >= other_seq


def _parts(token: str) -> tuple[str, int, int]:
    """Split `log_id:term:seq:digest`. Text of another form counts as a token of another log, so it is replaced."""
    log, *rest = token.rsplit(":", 3)
    try:
        return log, int(rest[0]), int(rest[1])
    except (IndexError, ValueError):
        return token, 0, 0
