"""A server of documents that fits on a page: enough of the API for the client's examples, and none of its judgement.

It keeps objects by kind and name, numbers its writes, remembers idempotency keys, and answers lists in pages and
watches from its own log. There is no authentication, and nothing is refused but what If-Match and If-None-Match refuse.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.host.ports.transport import NoAnswer, Reply, Request, StreamDeclined, StreamReply, first_value

Found = dict[str, Any]


class DocumentServer:
    """One ledger. `/v1/in/NAME/...` is answered by another one, made when it is first asked for."""

    def __init__(self, ledger: str = "platform") -> None:
        self.ledger = ledger
        self.seq = 1
        self.objects: dict[str, Found] = {}
        self.log: list[tuple[int, str, str, Found]] = []
        self.kept: dict[str, Reply] = {}
        self.regions: dict[str, DocumentServer] = {}
        self.asked: list[Request] = []
        self.changed = asyncio.Event()

    async def serve(self, request: Request) -> Reply | StreamReply:
        """What this server answers, to whichever transport carries it."""
        answer = self.answer(request)
        return answer if isinstance(answer, Reply) else StreamReply(self._stream(*answer))

    def answer(self, request: Request) -> Reply | tuple[DocumentServer, Request]:
        """One answer; for a watch, whose it is and what it asks for."""
        self.asked.append(request)
        if request.path.startswith("/v1/in/"):
            region, _, rest = request.path.removeprefix("/v1/in/").partition("/")
            there = self.regions.setdefault(region, DocumentServer(f"region/{region}"))
            return there.answer(replace(request, path=f"/v1/{rest}"))
        if first_value(request.query, "watch"):
            return self, request
        key = first_value(request.headers, "idempotency-key")
        if key in self.kept:
            return self.kept[key]
        reply = self._answer(request, request.path.removeprefix("/v1/"))
        if key and not first_value(request.query, "dryRun"):
            self.kept[key] = reply
        return reply

    def lines_since(self, request: Request, seq: int) -> Iterator[bytes]:
        """What a watch sees after this number."""
        word = request.path.removeprefix("/v1/")
        for number, change, place, found in self.log:
            if number > seq and place.startswith(f"{word}/"):
                yield json.dumps({"type": change, "object": found, "token": self._token(number)}).encode()

    async def _stream(self, owner: DocumentServer, request: Request) -> AsyncIterator[bytes]:
        seq = int(first_value(request.query, "since").split(":")[2])
        while True:
            owner.changed.clear()
            lines = list(owner.lines_since(request, seq))
            seq = owner.seq
            for line in lines:
                yield line
            await owner.changed.wait()

    def _answer(self, request: Request, place: str) -> Reply:
        word, _, name = place.partition("/")
        match request.verb, word:
            case _, "status" | "whoami" | "can-i" | "audit" | "schemas" | "renewals":
                return self._reply(ASKED[word])
            case "POST", "commands" | "envelopes":
                self.seq += 1
                landed = {"revision": f"{self.seq}.0", "session": f"{self.seq}.0"}
                return self._reply({**landed, "at": "2026-11-15T17:00:00.000Z"})
            case "POST", "batch":
                return self._batch(request)
            case "PUT", _:
                return self._put(request, place)
            case "DELETE", _ if place in self.objects:
                return self._reply(self._change("DELETED", place, self.objects.pop(place)))
            case "GET", _ if not name:
                return self._list(request, word)
            case "GET", _ if place in self.objects:
                return self._reply(self.objects[place], ("etag", f'"{self.objects[place]["metadata"]["revision"]}"'))
        return self._problem(404, "not-found", f"there is no {place}")

    def _put(self, request: Request, place: str) -> Reply:
        before, wanted = self.objects.get(place), json.loads(request.body)
        match = first_value(request.headers, "if-match").strip('"')
        if match and (before is None or match not in ("*", before["metadata"]["revision"])):
            return self._problem(412, "stale", f"{place} is not at {match}")
        if before is not None and first_value(request.headers, "if-none-match"):
            return self._problem(409, "exists", f"there is a {place}")
        if before is not None and before.get("spec") == wanted.get("spec"):
            return self._reply(before, ("holdfast-outcome", "unchanged"))
        outcome = ("holdfast-outcome", "created" if before is None else "configured")
        if first_value(request.query, "dryRun"):
            return self._reply(wanted, outcome)
        metadata = {"uid": f"{self.seq + 1}.0", **(before or {}).get("metadata", {}), **wanted["metadata"]}
        self.objects[place] = {**wanted, "metadata": {**metadata, "revision": f"{self.seq + 1}.0"}}
        found = self._change("ADDED" if before is None else "MODIFIED", place, self.objects[place])
        return self._reply(found, outcome, ("etag", f'"{self.seq}.0"'))

    def _batch(self, request: Request) -> Reply:
        items = []
        for document in json.loads(request.body)["items"]:
            metadata = document["metadata"]
            place = "/".join(filter(None, [f"{document['kind'].lower()}s", metadata.get("tenant"), metadata["name"]]))
            reply = self._put(Request("PUT", "", request.query, (), json.dumps(document).encode()), place)
            items.append({"outcome": first_value(reply.headers, "holdfast-outcome"), "object": json.loads(reply.body)})
        return self._reply({"items": items})

    def _list(self, request: Request, word: str) -> Reply:
        tenant, start = first_value(request.query, "tenant"), int(first_value(request.query, "continue", "0"))
        limit = int(first_value(request.query, "limit", "500"))
        within = f"{word}/{tenant}/" if tenant else f"{word}/"
        found = [self.objects[place] for place in sorted(self.objects) if place.startswith(within)]
        going_on = str(start + limit) if start + limit < len(found) else ""
        metadata = {"token": self._token(self.seq), "continue": going_on}
        return self._reply({"kind": "List", "items": found[start : start + limit], "metadata": metadata})

    def _change(self, change: str, place: str, found: Found) -> Found:
        self.seq += 1
        self.log.append((self.seq, change, place, found))
        self.changed.set()
        return found

    def _token(self, seq: int) -> str:
        return f"{self.ledger.replace('/', '-')}:1:{seq}:aa"

    def _reply(self, body: Any, *headers: tuple[str, str], status: int = 200) -> Reply:
        ours = (("holdfast-ledger", self.ledger), ("holdfast-token", self._token(self.seq)))
        return Reply(status, (*ours, *headers), json.dumps(body).encode())

    def _problem(self, status: int, code: str, detail: str) -> Reply:
        return self._reply({"code": code, "status": status, "detail": detail}, status=status)


ASKED: dict[str, Any] = {
    "status": {"role": "leading", "ledger": "platform"},
    "whoami": {"principal": "person/operator", "rights": ["operate"]},
    "can-i": {"allowed": True, "why": "person/operator has the right operate"},
    "audit": {"items": [{"actor": "person/operator", "command": "put-tenant", "outcome": "accepted"}]},
    "renewals": {"worthMs": 9_000, "term": 1, "logId": "platform", "at": 5},
    "schemas": {"title": "Workload", "type": "object"},
}


class BlockingDocumentServer:
    """A blocking transport to such a server. A stream brings what there is, and then falls silent."""

    def __init__(self, answers: DocumentServer) -> None:
        self.answers = answers
        self.closed = 0

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        answer = self.answers.answer(request)
        if isinstance(answer, Reply):
            return answer
        raise StreamDeclined(Reply(406, body=b"this is answered with a stream"))

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        answer = self.answers.answer(request)
        if isinstance(answer, Reply):
            raise StreamDeclined(answer)
        owner, asked = answer
        try:
            yield from owner.lines_since(asked, int(first_value(asked.query, "since").split(":")[2]))
            raise NoAnswer(f"nothing came from {peer} within {idle_ms} ms")
        finally:
            self.closed += 1
