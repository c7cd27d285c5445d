"""All commands as one application. The table below has their names, modules and lines in `holdfast --help`; a module is
imported when its command is called.
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
from holdfast.cli.targets import FOREIGN_COMMANDS

#: Each command: the module that contains its `app`, and its line in `holdfast --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "apply": ("objects.apply", "Create or change objects from files."),
    "get": ("objects.get", "List objects, or show them by name."),
    "describe": ("objects.describe", "Show one object in detail, with suggested next commands."),
    "delete": ("objects.delete", "Delete objects."),
    "diff": ("objects.diff", "Show what apply would change."),
    "validate": ("objects.validate", "Check files without a server."),
    "wait": ("objects.wait", "Wait for a condition, a value or a deletion."),
    "schema": ("objects.schema", "Explain the fields of a kind."),
    "scale": ("workloads.scale", "Change the number of replicas of a workload."),
    "restart": ("workloads.restart", "Replace all replicas of a workload by a rollout."),
    "status": ("operations.status", "Show the leader, what is degraded, and each region's last contact."),
    "endpoints": ("workloads.endpoints", "Show the addresses of a workload, and which replicas serve."),
    "queue": ("workloads.queue", "Show scheduling requests in queue order, and why they wait."),
    "decisions": ("workloads.decisions", "Show what schedulers decided, newest first."),
    "explain": ("workloads.explain", "Explain why a workload waits, or why a slot is on its node."),
    "quota": ("operations.quota", "Show quota, grants and usage by tenant and region."),
    "audit": ("operations.audit", "Show who sent which command, when, and the outcome."),
    "repair": ("operations.repair", "List stuck operations, their owner and the next step."),
    "region": ("operations.region", "Set a region's address; declare it lost, attest, or forget it."),
    "policy": ("operations.policy", "Activate, inspect and roll back scheduler policies."),
    "token": ("setup.token", "Create, list and revoke tokens."),
    "certificate": ("setup.certificate", "Create an authority, and certificates that it signs."),
    "can-i": ("setup.can_i", "Check whether you may do something."),
    "whoami": ("setup.whoami", "Show the authenticated principal and its permissions."),
    "config": ("setup.config", "Show and change contexts: servers, tokens, defaults."),
    "version": ("setup.version", "Show the versions of this program and of the server."),
    "completion": ("setup.completion", "Print the completion script of a shell."),
    "server": ("processes.server", "Run a server of the platform or of a region."),
    "agent": ("processes.agent", "Run the agent of a node."),
    "scheduler": ("processes.scheduler", "Run a standalone scheduler of a region."),
    "dev": ("processes.dev", "Run a platform and three regions on this machine."),
    "sim": ("tools.sim", "Run scenarios in the simulator."),
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
                    f"{cmd_name} cannot be started: {error}",
                    hint="the installation is incomplete: install Holdfast again",
                )
            )
            raise typer.Exit(CliExitCode.REFUSED) from None
        command = get_command(module.app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        instead = FOREIGN_COMMANDS.get(args[0]) if args else None
        if instead is not None:
            ctx.fail(f"No such command {args[0]!r}. Instead: {instead}")
        # The suggestion of a similar name reads this attribute.
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
        """Run a command. A reader that closes the pipe early, as `head` does, is not an error."""
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
