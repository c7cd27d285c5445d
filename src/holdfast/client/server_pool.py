"""Which server to ask, and how far this client's own writes have come."""

from __future__ import annotations

from holdfast.host.ports.transport import Reply, first_value


class ServerPool:
    """The servers of one ledger, as whoever uses them has listed them. The one that worked last is asked first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = tuple(dict.fromkeys(_plain(name) for name in names))
        self.preferred = self.names[0]

    def worked(self, server: str) -> None:
        """This one gave an answer: begin with it next time."""
        self.preferred = server

    def after(self, server: str) -> str:
        """The next in the list."""
        return self.names[(self.names.index(server) + 1) % len(self.names)]

    def leader_named_in(self, reply: Reply, asked: str, region: str) -> str:
        """The other server that this reply says leads; empty when it names none that is listed.

        Our token goes where we go, and nobody whom we reach says where that is (RULES 27): a server that follows hands
        on what it is asked, so nobody needs a leader who was not listed.
        """
        if region:
            return ""  # Whatever that region's servers wrote: it is not one of these that they speak of.
        leader = _plain(first_value(reply.headers, "holdfast-leader"))
        return leader if leader != asked and leader in self.names else ""


class ReadYourWrites:
    """The newest revision token of this client's own writes, for each ledger it has written to.

    A ledger is named by the region through which it was reached; the one that is asked directly has the empty name.
    """

    def __init__(self) -> None:
        self._newest: dict[str, str] = {}

    def of(self, region: str) -> str:
        """What a read has to see; empty when anything will do."""
        return self._newest.get(region, "")

    def wrote(self, region: str, reply: Reply) -> None:
        """A write was answered: reads are to see it from now on."""
        token = first_value(reply.headers, "holdfast-token")
        ledger = first_value(reply.headers, "holdfast-ledger")
        if not token or (region and ledger and ledger != f"region/{region}"):
            return
        if _is_later(token, self._newest.get(region, "")):
            self._newest[region] = token

    def forget(self, region: str, token: str) -> None:
        """This token is not in the log any more. A newer one, from a write since, stays."""
        if self._newest.get(region) == token:
            del self._newest[region]


def _plain(name: str) -> str:
    return name.strip().rstrip("/")


def _is_later(token: str, than: str) -> bool:
    """Whether to keep this token rather than that one: answers to writes side by side come in any order."""
    log, _, seq = _parts(token)
    other, _, other_seq = _parts(than)
    return log != other or seq >= other_seq


def _parts(token: str) -> tuple[str, int, int]:
    """`log_id:term:seq:digest`. What does not read so is another log's: it is replaced."""
    log, *rest = token.rsplit(":", 3)
    try:
        return log, int(rest[0]), int(rest[1])
    except (IndexError, ValueError):
        return token, 0, 0
