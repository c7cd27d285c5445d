"""The server for the next request, and the newest revision that this client wrote."""

from __future__ import annotations

from holdfast.host.ports.transport import Reply, first_value


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
