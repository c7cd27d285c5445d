"""The program itself: how it begins, how it ends, what it imports."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.main import get_command

from holdfast.cli.app import COMMANDS
from holdfast.cli.errors import CliExitCode
from holdfast.cli.main import CHOICES, FAST_OPTIONS, parse_fast_get
from holdfast.cli.objects import get, listing
from holdfast.cli.options import GlobalOptions
from tests.support.api.command_line import CommandLine, same_as_golden

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "holdfast.cli.main"]
#: What a `get` must not pay for.
HEAVY = {"asyncio", "aiohttp", "uvicorn", "yaml", "rich", "typer", "click", "pathlib", "dataclasses", "logging"}
#: How many modules it may import, the interpreter's own included: each costs about half a millisecond.
MODULES_MOST = 220


# A server that is just enough for a list


#: Who asked it, request by request.
HEARD: list[str] = []


class Lists(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        HEARD.append(self.headers.get("authorization") or "")
        meta = {"name": "web", "tenant": "shop", "labels": {"text": "x" * 100}}
        item = {"kind": "Workload", "metadata": meta, "spec": {"replicas": 3}, "status": {"ready": 2}}
        body = msgspec.json.encode({"kind": "List", "items": [item] * 2_000, "metadata": {"token": "log:1:2:ab"}})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Lists)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{made.server_address[1]}"
    made.shutdown()
    made.server_close()


def environment(**more: str) -> dict[str, str]:
    # Where Python does not buffer, a text that is cut off by a closed pipe is no error to it.
    kept = {name: one for name, one in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHONUNBUFFERED"))}
    return {**kept, "PYTHONPATH": f"{ROOT / 'src'}", "HOLDFAST_CONFIG": "/nonexistent/config.yaml", **more}


def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAM, *words], capture_output=True, text=True, env=environment(**more), check=False)


# What is imported


def telling_imports(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run, and print on stderr in the end what has been imported."""
    code = (
        "import sys, atexit\n"
        "from holdfast.cli.main import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment(**more), check=False)


@pytest.mark.parametrize("output", ["table", "json", "name"])
def test_a_plain_get_imports_only_what_it_needs(output: str, server: str) -> None:
    done = telling_imports("get", "workloads", "-o", output, HOLDFAST_SERVER=server)
    assert done.returncode == 0, done.stderr
    assert "web" in done.stdout
    imported = set(done.stderr.split())
    assert imported & HEAVY == set()
    assert len(imported) < MODULES_MOST
    ledgers = ("holdfast.core.platform", "holdfast.core.region", "holdfast.host.ledger.ledger", "holdfast.sim")
    assert [name for name in imported if name.startswith(ledgers)] == []


def test_help_imports_no_command() -> None:
    done = telling_imports("--help")
    assert done.returncode == 0
    imported = set(done.stderr.split())
    assert not any(f"holdfast.cli.{module}" in imported for module, _ in COMMANDS.values())
    assert {"rich", "asyncio", "yaml"} & imported == set()


# The short way and the long one


def as_typer_reads(words: list[str]) -> dict[str, Any]:
    """What the application makes of the words."""
    context = get_command(get.app).make_context("get", list(words))
    given = {name: value for name, value in context.params.items() if value not in ("", None, False, 0)}
    return {**given, "words": list(given["words"])}


@pytest.mark.parametrize(
    "line",
    [
        "get workloads",
        "get wl web mail",
        "get wl/shop/web -o json",
        "get wl --output=name --tenant shop -A",
        "get nodes -r eu --sort-by spec.cpu --read linear",
        "get wl -l app=web,x!=y --context test --server http://a:1,http://b:2 --token-file t --timeout 5s",
        "get wl --selector=app=web",
        "get wl --insecure",
    ],
)
def test_the_short_way_reads_what_the_long_one_reads(line: str) -> None:
    words = line.split()
    short = parse_fast_get(words)
    assert short is not None
    long = as_typer_reads(words[1:])
    defaults = {"output": listing.ListFormat.TABLE, "read": listing.ReadOption.ANY}
    assert {**defaults, **short} == long


@pytest.mark.parametrize(
    "line",
    [
        "", "get", "get --help", "get wl -h", "get wl -o", "get wl -o xml", "get wl --read maybe", "get wl -w",
        "get wl -v", "get wl --watch", "get wl -ojson", "get wl --tenant", "get wl --tenant=", "get wl -A=1",
        "get wl -- web", "get wl --unknown", "--context a get wl", "describe wl web", "get -o json",
        "get wl --tenant -A",
    ],
)  # fmt: skip
def test_what_is_not_plain_goes_the_long_way(line: str) -> None:
    assert parse_fast_get(line.split()) is None


def test_the_short_way_knows_no_option_that_the_long_one_does_not() -> None:
    known = {name: one for one in get_command(get.app).params for name in one.opts}
    for option, (name, takes) in FAST_OPTIONS.items():
        assert (known[option].name, not known[option].is_flag) == (name, takes)  # type: ignore[attr-defined]
    assert {"output": tuple(listing.ListFormat), "read": tuple(listing.ReadOption)} == CHOICES
    assert set(listing.GetQuery._fields) | set(GlobalOptions._fields) >= {name for name, _ in FAST_OPTIONS.values()}


def test_both_ways_print_the_same(server: str) -> None:
    short = run("get", "workloads", HOLDFAST_SERVER=server)
    long = run("--timeout", "30s", "get", "workloads", HOLDFAST_SERVER=server)
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert short.stdout.count("\n") == 2_001


# What is sent in the clear


@pytest.mark.parametrize("way", [[], ["--timeout", "30s"]], ids=["the short way", "the long way"])
def test_a_token_is_not_sent_to_another_machine_over_plain_http_unless_somebody_insists(
    server: str, way: list[str]
) -> None:
    elsewhere = server.replace("127.0.0.1", "0.0.0.0")  # the kernel takes it for this machine, and nobody else does
    HEARD.clear()
    refused = run(*way, "get", "workloads", HOLDFAST_SERVER=elsewhere, HOLDFAST_TOKEN="hf_a_b")
    assert (refused.returncode, refused.stdout, HEARD) == (CliExitCode.USAGE, "", [])
    assert refused.stderr.startswith(f"error: nothing was sent: {elsewhere} is plain http beyond this machine")
    assert "--insecure" in refused.stderr
    assert "hf_a_b" not in refused.stderr
    done = run(*way, "get", "workloads", "--insecure", HOLDFAST_SERVER=elsewhere, HOLDFAST_TOKEN="hf_a_b")
    assert (done.returncode, HEARD) == (CliExitCode.DONE, ["Bearer hf_a_b"])


# How it ends


def test_a_closed_pipe_ends_quietly(server: str) -> None:
    for words in (["get", "workloads"], ["--timeout", "30s", "get", "workloads", "-o", "json"]):
        with subprocess.Popen(
            [*PROGRAM, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(HOLDFAST_SERVER=server),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == ""
            process.wait(30)
        assert process.returncode == 141


def test_an_interrupt_ends_quietly_with_130(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as silent:
        threading.Thread(target=silent.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{silent.server_address[1]}"
        with subprocess.Popen(
            [*PROGRAM, "get", "workloads"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(HOLDFAST_SERVER=address),
            # Whoever runs these tests in the background of a shell has it ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:
            assert ASKED.wait(30)
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=30) == ("", "")
        GO_ON.set()
        silent.shutdown()
    assert process.returncode == 130


ASKED, GO_ON = threading.Event(), threading.Event()


class Silent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        ASKED.set()
        GO_ON.wait(30)

    def log_message(self, format: str, *args: Any) -> None: ...


def test_nobody_listening_ends_with_4_and_names_the_address() -> None:
    done = run("get", "workloads", "--server", "http://127.0.0.1:1", "--timeout", "500ms")
    assert (done.returncode, done.stdout) == (4, "")
    assert "http://127.0.0.1:1" in done.stderr
    assert "hint: `holdfast config show`" in done.stderr


@pytest.mark.parametrize(("more", "colourful"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_want_them(more: dict[str, str], colourful: bool, server: str) -> None:
    ours, theirs = pty.openpty()
    terminal = {"TERM": "xterm", "NO_COLOR": "", **more}
    done = subprocess.run(
        [*PROGRAM, "schema"], stdout=theirs, stderr=subprocess.PIPE, env=environment(**terminal), check=False
    )
    os.close(theirs)
    shown = os.read(ours, 100_000)
    os.close(ours)
    assert done.returncode == 0
    assert (b"\x1b[1m" in shown) is colourful
    assert "\x1b" not in run("schema", **terminal).stdout


def test_our_own_mistake_is_told_without_a_stack_trace(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "object_label", lambda document: 1 / 0)
    done = shop("get", "workloads", "-o", "name")
    assert done.exit_code == CliExitCode.UNKNOWN
    assert done.stderr.startswith("error: internal error: ZeroDivisionError")
    assert "Traceback" not in done.stderr
    assert "Traceback" in shop("get", "workloads", "-o", "name", "-vv").stderr


def test_an_installation_that_lacks_something_says_so(holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "scale", ("nowhere", "No such module."))
    done = holdfast("scale", "workload", "web", "--replicas", "1")
    assert done.exit_code == 1
    assert "error: scale cannot be started: No module named" in done.stderr


def test_verbose_says_what_was_asked_on_stderr(server: str) -> None:
    done = run("get", "workloads", "-v", "-o", "name", HOLDFAST_SERVER=server)
    assert re.search(r"GET http://127.0.0.1:\d+/v1/workloads 200 \d+ ms", done.stderr)
    assert done.stdout.startswith("workload/shop/web\n")


# Help


def test_the_commands_are_listed(holdfast: CommandLine) -> None:
    same_as_golden("help", holdfast("--help"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, holdfast: CommandLine) -> None:
    done = holdfast(name, "--help")
    assert done.exit_code == 0
    assert f"Usage: holdfast {name} " in done.stdout


def test_a_command_that_is_mistyped_gets_the_nearest(holdfast: CommandLine) -> None:
    done = holdfast("aply", "-f", "x.yaml")
    assert done.exit_code == 2
    assert "Did you mean 'apply'" in done.stderr


def test_explain_of_a_kind_points_to_schema(holdfast: CommandLine) -> None:
    done = holdfast("explain", "workload.spec")
    assert done.exit_code == 2
    assert "hint: `holdfast schema workload.spec`" in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str, holdfast: CommandLine) -> None:
    assert "_HOLDFAST_COMPLETE" in holdfast("completion", shell).stdout


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("holdfast des", "describe"),
        ("holdfast token re", "revoke"),
        ("holdfast get wl --sel", "--selector"),
        ("holdfast get work", "workloads"),
        ("holdfast describe workload sh", "shop/web"),
        ("holdfast get wl -o na", "name"),
    ],
)
def test_completion_knows_commands_options_kinds_and_names(line: str, wanted: str, server: str) -> None:
    position = str(len(line.split()) - 1)
    done = run(_HOLDFAST_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=position, HOLDFAST_SERVER=server)
    assert wanted in done.stdout.split(), done.stderr


def test_completion_is_silent_when_no_server_answers() -> None:
    line = "holdfast describe workload sh"
    more = {"_HOLDFAST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "3"}
    done = run(**more, HOLDFAST_SERVER="http://127.0.0.1:1")
    assert (done.stdout.strip(), done.stderr) == ("", "")


# Schema


@pytest.mark.parametrize(("name", "words"), [("schema_kinds", []), ("schema_unknown_field", ["workload.spec.templat"])])
def test_schema_lists_kinds_and_suggests_fields(name: str, words: list[str], holdfast: CommandLine) -> None:
    same_as_golden(name, holdfast("schema", *words))
    assert holdfast.platform.asked == []


def test_schema_explains_fields_with_their_types(holdfast: CommandLine) -> None:
    spec = holdfast("schema", "wl.spec").stdout
    assert "  replicas       <number> required\n" in spec
    assert '  failover       <additive|acknowledged|leased> default "additive"\n' in spec
    assert "  memory  <0|text>\n" in holdfast("schema", "workload.spec.template.need").stdout
    assert "  serving " in holdfast("schema", "workload.status").stdout


def test_schema_as_json_is_a_json_schema(holdfast: CommandLine) -> None:
    whole = msgspec.json.decode(holdfast("schema", "workload", "-o", "json").stdout)
    assert whole["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "status" in holdfast("schema", "workload.status").stdout
