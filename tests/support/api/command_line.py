"""A command line against a little platform within the process: what a server answers, without one.

`PlatformTarget` stands where HTTP does: the client, its retries and its errors are the real ones. `CommandLine` runs
commands and gives what a user sees.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from holdfast.api.kinds import BY_NAME, KINDS
from holdfast.api.resources.schemas import parse_object, render_object
from holdfast.cli import connect
from holdfast.cli.context import CliContext
from holdfast.cli.main import app
from holdfast.client.blocking_client import Client
from holdfast.client.config import ClientConfig
from holdfast.host.ports.transport import Pairs, Reply, Request, StreamDeclined, Unreachable, first_value

GOLDEN = Path(__file__).parents[2] / "cli" / "golden"
#: Set to write what commands print now into the files they are compared with.
UPDATE = "HOLDFAST_UPDATE_GOLDEN"

Document = dict[str, Any]


def problem(status: int, code: str, detail: str, **more: Any) -> Reply:
    """What a server says instead."""
    return said({"status": status, "code": code, "detail": detail, **more}, status)


def said(value: Any, status: int = 200, headers: Pairs = ()) -> Reply:
    return Reply(status, (("content-type", "application/json"), *headers), msgspec.json.encode(value))


def canonical(document: Document) -> Any:
    """The spec as a server shows it, with every default."""
    meta = {key: value for key, value in document["metadata"].items() if key in ("name", "tenant")}
    return render_object(parse_object({**document, "metadata": meta, "status": {}}))["spec"]


class Platform:
    """Objects in a map. `answers` are given instead of its own, by verb and path; what was asked is in `asked`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Document] = {}
        self.answers: dict[tuple[str, str], Any] = {}
        self.asked: list[Request] = []
        self.events: list[Document] = []
        self.unreachable = False
        self.revision = 40

    def hold(self, kind: str, name: str, spec: Document, tenant: str = "", **more: Any) -> Document:
        """Let there be an object."""
        self.revision += 1
        uid = f"{self.revision}.0"
        meta = {"name": name, "uid": uid, **({"tenant": tenant} if tenant else {}), "generation": 1, "revision": uid}
        document = {"apiVersion": "holdfast/v1", "kind": kind, "metadata": {**meta, **more.pop("meta", {})}}
        document |= {"spec": spec, **more}
        self.objects[BY_NAME[kind].plural, f"{tenant}/{name}" if tenant else name] = document
        return document

    # A blocking transport

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        self.asked.append(request)
        if self.unreachable:
            raise Unreachable("connection refused")
        answer = self.answers.get((request.verb, request.path))
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer if isinstance(answer, Reply) else said(answer)
        if request.path == "/v1/batch":
            items = msgspec.json.decode(request.body)["items"]
            return said({"items": [self._item(item, bool(request.query)) for item in items]})
        return self._object(request)

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        self.asked.append(request)
        if not self.events:
            raise StreamDeclined(problem(410, "gone", "that is all"))
        events, self.events = self.events, []
        yield from map(msgspec.json.encode, events)
        raise KeyboardInterrupt  # as a user ends a watch

    # Objects

    def _object(self, request: Request) -> Reply:
        plural, _, name = request.path.removeprefix("/v1/").partition("/")
        if plural == "in":
            _, _, rest = name.partition("/")
            return self._object(msgspec.structs.replace(request, path=f"/v1/{rest}"))
        if plural not in KINDS:
            return problem(404, "no-such-route", f"there is no {request.path} here")
        if not name:
            return self._list(plural, request)
        if request.verb == "PUT":
            return self._put(plural, name, msgspec.json.decode(request.body), request)
        found = self.objects.get((plural, name))
        if found is None:
            return problem(404, "not-found", f"there is no {name} among the {plural}")
        if request.verb == "DELETE":
            del self.objects[plural, name]
        return said(found, headers=(("etag", f'"{found["metadata"]["revision"]}"'),))

    def _list(self, plural: str, request: Request) -> Reply:
        tenant = first_value(request.query, "tenant")
        items = [
            found
            for (kind, _), found in sorted(self.objects.items())
            if kind == plural and tenant in ("", found["metadata"].get("tenant"))
        ]
        return said({"kind": "List", "items": items, "metadata": {"token": f"log:1:{self.revision}:ab"}})

    def _put(self, plural: str, name: str, document: Document, request: Request) -> Reply:
        found = self.objects.get((plural, name))
        match = first_value(request.headers, "if-match").strip('"')
        if match and (found is None or found["metadata"]["revision"] != match):
            return problem(412, "stale", f"{name} has changed")
        if found is not None and first_value(request.headers, "if-none-match"):
            return problem(409, "exists", f"there is a {name} already")
        outcome, after = self._after(plural, name, document)
        if not first_value(request.query, "dryRun") and outcome != "unchanged":
            self.objects[plural, name] = after
        return said(after, headers=(("holdfast-outcome", outcome), ("etag", f'"{after["metadata"]["revision"]}"')))

    def _after(self, plural: str, name: str, document: Document) -> tuple[str, Document]:
        found = self.objects.get((plural, name))
        after = {**document, "spec": canonical(document)}
        if found is not None and canonical(found) == after["spec"]:
            return "unchanged", {**found, "spec": after["spec"]}
        self.revision += 1
        before = (found or {}).get("metadata", {"uid": f"{self.revision}.0", "generation": 0})
        own = {"uid": before["uid"], "generation": before["generation"] + 1, "revision": f"{self.revision}.0"}
        after["metadata"] = {**document["metadata"], **own}
        return ("created" if found is None else "configured"), after

    def _item(self, document: Document, dry_run: bool) -> Document:
        meta = document["metadata"]
        plural = BY_NAME[document["kind"]].plural
        name = f"{meta['tenant']}/{meta['name']}" if meta.get("tenant") else meta["name"]
        answer = self.answers.get(("PUT", f"/v1/{plural}/{name}"))
        if answer is not None:
            return {"outcome": "refused", "problem": msgspec.json.decode(answer.body)}
        outcome, after = self._after(plural, name, document)
        if not dry_run and outcome != "unchanged":
            self.objects[plural, name] = after
        return {"outcome": outcome, "object": after}


class CommandLine:
    """Runs commands, in this process, against one platform."""

    def __init__(self, platform: Platform, folder: Path) -> None:
        self.platform = platform
        self.folder = folder
        self.clock = 0
        self.access: ClientConfig | None = None
        self.context: CliContext | None = None

    def __call__(self, *words: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=stdin)

    def opened(self, access: ClientConfig, context: CliContext, verbose: int = 0) -> Client:
        """What `connect` gives instead of a client over HTTP. Its pauses take no time."""
        self.access, self.context = access, context

        def sleep(seconds: float) -> None:
            self.clock += int(seconds * 1000) + 1

        return Client(self.platform, access, now=lambda: self.clock, sleep=sleep)

    def write(self, name: str, text: str) -> str:
        """A file in the folder in which commands are run."""
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")
        return name


def a_command_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line of nobody in particular: without a configuration, in an empty folder."""
    line = CommandLine(Platform(), folder)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_") and name != UPDATE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_CONFIG", str(folder / "config.yaml"))
    monkeypatch.setattr(connect, "open_client", line.opened)
    monkeypatch.chdir(folder)
    return line


def told(result: Result) -> str:
    """All that a user sees of a command: stdout, stderr and how it ended."""
    parts = [result.stdout]
    if result.stderr:
        parts.append(f"--- stderr\n{result.stderr}")
    return "".join(parts) + f"--- exit {result.exit_code}\n"


def same_as_golden(name: str, result: Result) -> None:
    """The command prints what is in the file; run with HOLDFAST_UPDATE_GOLDEN=1 to write it anew."""
    path = GOLDEN / f"{name}.txt"
    text = told(result)
    if os.environ.get(UPDATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; if that is meant, run with {UPDATE}=1"
