"""`holdfast agent`: what is said of tenants on the command line is what the node is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.drivers.process.settings import TENANT_MAP, TENANT_USERS
from holdfast.wiring import agent
from holdfast.wiring.agent import NodeOptions
from holdfast.wiring.machine import MachineOptions
from tests.support.api.command_line import CommandLine

LEAST = ("agent", "--server", "http://127.0.0.1:7401/", "--node", "n1", "--data", "/no/such", "--token-file", "t")


def test_users_and_secrets_of_tenants_arrive(holdfast: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[NodeOptions] = []

    def run(options: MachineOptions, node: NodeOptions) -> int:
        told.append(node)
        return 0

    monkeypatch.setattr(agent, "run", run)
    assert holdfast(*LEAST).exit_code == 0
    more = (
        "--tenant-users", "20000-29999", "--tenant-map", "/srv/users.json", "--allow-user", "shop=www",
        "--allow-user", "shop=61234", "--allow-user", "risk=nobody", "--secret-folder", "/srv/secrets",
        "--secret-variable", "shop=TOKEN", "--secret-variable", "risk=TOKEN",
    )  # fmt: skip
    assert holdfast(*LEAST, *more).exit_code == 0
    plain, said = told
    assert (plain.tenant_users, plain.tenant_map) == (TENANT_USERS, Path(TENANT_MAP))
    assert (plain.users, plain.secret_folder, plain.secret_variables) == ((), None, ())
    assert (said.tenant_users, said.tenant_map) == ((20_000, 29_999), Path("/srv/users.json"))
    assert said.users == (("shop", "www"), ("shop", "61234"), ("risk", "nobody"))
    assert (said.secret_folder, said.secret_variables) == (
        Path("/srv/secrets"), (("shop", "TOKEN"), ("risk", "TOKEN")),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--allow-user", "www"), "user 'www' is not TENANT=NAME"),
        (("--allow-user", "shop="), "user 'shop=' is not TENANT=NAME"),
        (("--secret-variable", "TOKEN"), "secret variable 'TOKEN' is not TENANT=NAME"),
        (("--tenant-users", "many"), "tenant users 'many' are not A-B"),
        (("--tenant-users", "5-4"), "no range of users"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_told_and_nothing_starts(
    holdfast: CommandLine, words: tuple[str, ...], why: str
) -> None:
    done = holdfast(*LEAST, *words)
    assert done.exit_code == 1
    assert why in done.stderr
