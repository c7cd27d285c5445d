"""All commands as one application. A module is imported when its command is called: the table below has the names, and
the lines of `holdfast --help`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from holdfast.cli.command import COMPLETE, global_options
from holdfast.cli.errors import CliError, CliExitCode, print_error
from holdfast.cli.options import PIPE_CLOSED, discard_stdout

#: Each command: the module that has it as `app`, and its line in `holdfast --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("objects.apply", "Create or change objects from files."),
    "get": ("objects.get", "List objects, or show some by name."),
    "describe": ("objects.describe", "Tell about one object, and what to do next."),
    "delete": ("objects.delete", "Remove objects."),
    "diff": ("objects.diff", "Show what apply would change."),
    "validate": ("objects.validate", "Check files without a server."),
    "wait": ("objects.wait", "Wait until an object is as it should be."),
    "schema": ("objects.schema", "Explain the fields of a kind."),
    "scale": ("workloads.scale", "Change how many replicas a workload has."),
    "restart": ("workloads.restart", "Replace the replicas of a workload, one after another."),
    "status": ("operations.status", "Show who leads, what is degraded, and how old the view of each region is."),
    "endpoints": ("workloads.endpoints", "Show where a workload is reached, and what of it serves."),
    "queue": ("workloads.queue", "Show what waits to be placed, in which order, and why."),
    "decisions": ("workloads.decisions", "Show what schedulers decided, when, and for whom."),
    "explain": ("workloads.explain", "Tell why a workload waits, or why a slot went where it is."),
    "quota": (
        "operations.quota",
        "Show what tenants were promised, what of it is lent and used, and what cannot be kept.",
    ),
    "audit": ("operations.audit", "Show who did what, when, and how it ended."),
    "repair": ("operations.repair", "Show what hangs, whose turn it is, and what to do next."),
    "region": ("operations.region", "Declare a region lost, or forget one that is destroyed."),
    "policy": ("operations.policy", "Say which scheduler policy is valid where, and take one back."),
    "token": ("setup.token", "Make, list and revoke tokens."),
    "certificate": ("setup.certificate", "Make an authority, and certificates for servers, machines and people."),
    "can-i": ("setup.can_i", "Ask whether something is allowed."),
    "whoami": ("setup.whoami", "Show whom the server takes you for."),
    "config": ("setup.config", "Show and change contexts: servers, tokens, defaults."),
    "version": ("setup.version", "Show the versions of this program and of the server."),
    "completion": ("setup.completion", "Print the completion script of a shell."),
    "server": ("processes.server", "Run a server of the platform or of a region."),
    "agent": ("processes.agent", "Run what is bound to a node."),
    "scheduler": ("processes.scheduler", "Schedule for a region, in a process of its own."),
    "dev": ("processes.dev", "Run a platform and three regions on this machine."),
    "sim": ("tools.sim", "Play scenarios in a simulated world."),
    "bench": ("tools.bench", "Measure Holdfast on this machine."),
}


class LazyGroup(TyperGroup):
    """The commands of the table, each imported when it is called."""

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        try:
            module = import_module(f"holdfast.cli.{COMMANDS[cmd_name][0]}")
        except ImportError as error:
            print_error(
                CliError(
                    f"{cmd_name} cannot be started: {error}", hint="the installation is not complete: install anew"
                )
            )
            raise typer.Exit(CliExitCode.REFUSED) from None
        command = get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        # Only so does the parent's suggestion of a near name know the names.
        self.commands = dict.fromkeys(self.list_commands(ctx))  # type: ignore[assignment]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        from typer._click.shell_completion import CompletionItem

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=COMMANDS[name][1]) for name in names]

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        """Run. A reader that has gone away, as `head` does, is no error: what it wanted to see, it has seen."""
        if COMPLETE in os.environ:
            from typer._completion_classes import completion_init

            completion_init()
        extra["complete_var"] = COMPLETE
        extra["prog_name"] = "holdfast"
        try:
            try:
                return super().main(args, **extra)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            discard_stdout()
            sys.exit(PIPE_CLOSED)


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Holdfast: a distributed scheduler control plane.",
)
app.callback()(global_options)
