"""The `@command` decorator: a command is a function `(options, ...)` that returns its exit code, or None for success.

`command` adds the global options to the function's own options. They may stand before or after the command's name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import typer

from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, run_command
from holdfast.cli.output.printer import OutputFormat

UncheckedOption = Annotated[
    bool, typer.Option("--unchecked", help="Skip local checks of fields, for a server newer than this program.")
]

#: The variable by which a shell requests completions.
COMPLETE = "_HOLDFAST_COMPLETE"
_KEY = "holdfast.options"

GLOBAL_OPTIONS: dict[str, Any] = {
    "context": Annotated[str, typer.Option("--context", metavar="NAME", help="Use this context of the configuration.")],
    "server": Annotated[
        str, typer.Option("--server", metavar="URL", help="Server to use; separate several by commas.")
    ],
    "tenant": Annotated[str, typer.Option("--tenant", "-t", metavar="NAME", help="Tenant of the objects.")],
    "region": Annotated[
        str, typer.Option("--region", "-r", metavar="NAME", help="Send requests to this region, not to the platform.")
    ],
    "token_file": Annotated[str, typer.Option("--token-file", metavar="PATH", help="File with the bearer token.")],
    "timeout": Annotated[str, typer.Option("--timeout", metavar="TIME", help="Time limit, such as 30s or 5m.")],
    "verbose": Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Print requests to stderr; -vv: stack traces.", show_default=False
        ),
    ],
    "insecure": Annotated[
        bool, typer.Option("--insecure", help="Allow plain http to other machines.", show_default=False)
    ],
}
#: Defaults of global options, unless an empty text.
_DEFAULTS: dict[str, Any] = {"verbose": 0, "insecure": False}

#: For commands that print a report instead of objects.
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]
#: For commands that are recorded with their reason; see `require_reason`.
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason, recorded in the audit log.")]
FilesOption = Annotated[
    list[str], typer.Option("--filename", "-f", metavar="FILE|DIR|-", help="File, folder, or - for stdin.")
]
RecursiveOption = Annotated[bool, typer.Option("--recursive", "-R", help="Include subfolders.")]


def complete_words(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete a kind, then names of its objects, as far as a server returns them within a second."""
    from holdfast.api.kinds import KINDS, SOFT_KINDS, find_kind

    before = list(ctx.params.get("words") or ())
    if not before:
        return [plural for plural in (*KINDS, *SOFT_KINDS) if plural.startswith(incomplete)]
    kind = find_kind(before[0])
    return [] if kind is None else [name for name in _names(ctx, kind.plural) if name.startswith(incomplete)]


def complete_tenants(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete tenants that have a quota, as far as a server returns them within a second."""
    return [name for name in _names(ctx, "quotas") if name.startswith(incomplete)]


def complete_workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete workloads, as far as a server returns them within a second."""
    return [name for name in _names(ctx, "workloads") if name.startswith(incomplete)]


def _names(ctx: typer.Context, plural: str) -> list[str]:
    from holdfast.api.kinds import KINDS, SOFT_KINDS
    from holdfast.cli.connect import connect
    from holdfast.cli.context import resolve
    from holdfast.cli.targets import region_for

    options = _merged(ctx, {one: ctx.params.get(one) for one in GLOBAL_OPTIONS})._replace(timeout="1s", verbose=0)
    try:
        context = resolve(options)
        client = connect(options, context, region=region_for((KINDS | SOFT_KINDS)[plural], context, options.region))
        found = [one["metadata"] for one in client.list(plural, tenant=context.tenant or "*").items]
    except Exception:
        return []  # No message: it would appear in the line that the user types.
    return [
        f"{one['tenant']}/{one['name']}" if one.get("tenant") and not context.tenant else one["name"] for one in found
    ]


ObjectArgument = Annotated[
    list[str], typer.Argument(metavar="KIND NAME", help="Kind and name, or KIND/NAME.", autocompletion=complete_words)
]


def global_options(ctx: typer.Context, **given: Any) -> None:
    """Store the options given before the command's name."""
    ctx.meta[_KEY] = GlobalOptions(**given)


def _set_parameters(run: Any, own: Iterable[inspect.Parameter], common: Iterable[str]) -> None:
    """Give the function the context, its own parameters and these global options, for typer to read."""
    named = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", named, annotation=typer.Context),
        *(one.replace(kind=named) for one in own),
        *(
            inspect.Parameter(one, named, annotation=GLOBAL_OPTIONS[one], default=_DEFAULTS.get(one, ""))
            for one in common
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)
    run.__annotations__ = {one.name: one.annotation for one in parameters}


_set_parameters(global_options, (), GLOBAL_OPTIONS)


def make_app(help: str = "", **settings: Any) -> typer.Typer:
    """Build an application without typer's colours, which cost a tenth of a second."""
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=help,
        **settings,
    )


def require_reason(reason: str) -> None:
    """Raise `CliError` without a reason."""
    if not reason.strip():
        raise usage_error("--reason is required (recorded in the audit log)", "--reason TEXT")


CommandBody = Callable[..., int | None]


def command(
    app: typer.Typer, name: str | None = None, without: Sequence[str] = (), **settings: Any
) -> Callable[[CommandBody], CommandBody]:
    """Make the function a command of the application. Its first argument is the `GlobalOptions`.

    Options in `without` have no effect on the command and are rejected. If the function has a parameter of the same
    name as a global option, the function's own replaces it.
    """

    def wrap(function: CommandBody) -> CommandBody:
        def run(ctx: typer.Context, **given: Any) -> None:
            options = _merged(ctx, {one: given.pop(one) for one in common})

            def act() -> int | None:
                _refuse(options, without)
                return function(options, **given)

            raise typer.Exit(run_command(act, options.verbose))

        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        common = [one for one in GLOBAL_OPTIONS if one not in {parameter.name for parameter in own}]
        _set_parameters(run, own, common)
        run.__doc__, run.__name__ = function.__doc__, function.__name__
        app.command(name, **settings)(run)
        return function

    return wrap


def _refuse(options: GlobalOptions, without: Sequence[str]) -> None:
    """Raise `CliError` if an option is set that has no effect on this command."""
    for one in without:
        if getattr(options, one):
            raise usage_error(f"--{one.replace('_', '-')} has no effect on this command", "leave it out")


def _merged(ctx: typer.Context, given: dict[str, Any]) -> GlobalOptions:
    """Merge the options; those after the command's name override those before it."""
    before: GlobalOptions = ctx.meta.get(_KEY, GlobalOptions())
    return before._replace(**{name: value for name, value in given.items() if value})


WorkloadArgument = Annotated[
    list[str], typer.Argument(metavar="workload NAME", help="Workload.", autocompletion=complete_words)
]
