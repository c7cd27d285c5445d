"""Which server to ask, and how far this client's own writes have come."""

from __future__ import annotations

from holdfast.core.model.addresses import is_exposed
from holdfast.host.transport import Reply, named


class Servers:
    """The servers of one ledger. The one that worked last is asked first; a leader may be one that was not listed."""

    def __init__(self, names: tuple[str, ...], *, insecure: bool = False) -> None:
        self._insecure = insecure
        self.names = tuple(dict.fromkeys(_plain(name) for name in names))
        self.preferred = self.names[0]

    def worked(self, server: str) -> None:
        """This one gave an answer: begin with it next time."""
        self.preferred = server

    def after(self, server: str) -> str:
        """The next in the list; after one that is not listed, the first."""
        if server not in self.names:
            return self.names[0]
        return self.names[(self.names.index(server) + 1) % len(self.names)]

    def leader_named_in(self, reply: Reply, asked: str, region: str) -> str:
        """The other server that this reply says leads; empty when it names none that can be asked in its place."""
        if region:
            return ""  # Whatever that region's servers wrote: they do not say where else our token is sent.
        leader = _plain(named(reply.headers, "holdfast-leader"))
        if not leader or leader == asked:
            return ""
        # Our token goes where we go: never from a protected connection to an open one, nor from this machine to
        # another in the clear. And where servers are URLs, a bare name leads nowhere.
        scheme = asked.partition("://")[0] if "://" in asked else ""
        if scheme and leader.partition("://")[0] not in (scheme, "https"):
            return ""
        return "" if is_exposed(leader) and not self._insecure else leader


class Tokens:
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
        token = named(reply.headers, "holdfast-token")
        ledger = named(reply.headers, "holdfast-ledger")
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
