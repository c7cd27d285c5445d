"""Options of the processes of machines: schedulers and agents."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.wiring.config.server_settings import LEVELS, LOG_FORMS

if TYPE_CHECKING:
    from holdfast.wiring.machine import MachineOptions


def _text(metavar: str, help: str, **more: Any) -> Any:
    return Annotated[str, typer.Option(metavar=metavar, help=help, **more)]


CANNOT_START = 1

_Server = Annotated[
    list[str], typer.Option(metavar="URL", help="Server of the region; repeat the option for all of them.")
]
_Insecure = Annotated[
    bool, typer.Option("--insecure", help="Allow requests and metrics over plain http beyond this machine.")
]
#: By field of `MachineOptions`: the option and its default. They follow a machine's own options.
_COMMON: dict[str, tuple[Any, Any]] = {
    "token_file": (_text("FILE", "File with its bearer token.", show_default=False), ""),
    "tls_certificate": (_text("FILE", "Its certificate, PEM.", show_default=False), ""),
    "tls_key": (_text("FILE", "The certificate's key, PEM.", show_default=False), ""),
    "tls_trust": (_text("FILE", "Trusted authorities, PEM.", show_default=False), ""),
    "insecure": (_Insecure, False),
    "log_level": (_text("TEXT", f"One of: {', '.join(LEVELS)}."), "info"),
    "log_form": (_text("TEXT", f"One of: {', '.join(LOG_FORMS)}."), "text"),
    "listen": (_text("TEXT", "Address that serves metrics at /metrics. Default: none.", show_default=False), ""),
}


def with_machine_options(own: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of every machine. Its first argument is a dict of them, by the fields of
    `MachineOptions`."""

    def run(server: list[str], **said: Any) -> None:
        servers = tuple(url.rstrip("/") for one in server for url in one.replace(",", " ").split())
        own({"servers": servers, **{name: said.pop(name) for name in _COMMON}}, **said)

    named = inspect.Parameter.KEYWORD_ONLY
    _, *more = inspect.signature(own, eval_str=True).parameters.values()
    parameters = [
        inspect.Parameter("server", named, annotation=_Server),
        *(one.replace(kind=named) for one in more),
        *(inspect.Parameter(one, named, annotation=kind, default=value) for one, (kind, value) in _COMMON.items()),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__, run.__name__ = own.__doc__, own.__name__
    return run


def run_machine(options: MachineOptions, also_wrong: Iterable[str], run: Callable[[], int]) -> None:
    """Run the process and exit with its code, unless its options are invalid."""
    from holdfast.wiring.machine import invalid_machine_options
    from holdfast.wiring.process import print_machine_status

    found = [*invalid_machine_options(options), *also_wrong]
    for word, choices in ((options.log_level, LEVELS), (options.log_form, LOG_FORMS)):
        if word not in choices:
            found.append(f"{word!r} is none of {', '.join(choices)}")
    for why in found:
        print_machine_status(options.kind, f"cannot start: {why}")
    raise typer.Exit(CANNOT_START if found else run())
