"""`holdfast config`, and what counts: the file, the environment, flags."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.cli.context import SERVER, CliContext, config_path, parse_simple_yaml, read_config, render_config, resolve
from holdfast.cli.errors import CliError
from holdfast.cli.options import GlobalOptions
from tests.support.api.command_line import CommandLine, same_as_golden

CONFIG = """\
current: production
contexts:
  production:
    servers: [https://one.example:7400, https://two.example:7400]
    token: hf_a_b
    tenant: shop
  test:
    servers: [http://127.0.0.1:7401]
    region: eu
"""


NONE = GlobalOptions()


def resolved(text: str, folder: Path, options: GlobalOptions = NONE, **environment: str) -> CliContext:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    (folder / "config.yaml").chmod(0o600)
    return resolve(options, {"HOLDFAST_CONFIG": str(folder / "config.yaml"), **environment})


# What counts


def test_without_a_file_the_server_of_this_machine_is_asked(tmp_path: Path) -> None:
    found = resolve(GlobalOptions(), {"HOLDFAST_CONFIG": str(tmp_path / "none.yaml")})
    assert found == CliContext(servers=(SERVER,))


def test_the_file_counts_then_the_environment_then_flags(tmp_path: Path) -> None:
    assert resolved(CONFIG, tmp_path).tenant == "shop"
    assert resolved(CONFIG, tmp_path, HOLDFAST_TENANT="bank").tenant == "bank"
    assert resolved(CONFIG, tmp_path, GlobalOptions(tenant="mill"), HOLDFAST_TENANT="bank").tenant == "mill"
    servers = resolved(CONFIG, tmp_path, HOLDFAST_SERVER="http://a:1, http://b:2/").servers
    assert servers == ("http://a:1", "http://b:2")
    assert resolved(CONFIG, tmp_path, GlobalOptions(server="http://c:3"), HOLDFAST_SERVER="http://a:1").servers == (
        "http://c:3",
    )
    assert resolved(CONFIG, tmp_path, HOLDFAST_TOKEN="hf_c_d").token == "hf_c_d"


@pytest.mark.parametrize(
    ("said", "insists"), [("true", True), ("yes", True), ('"yes"', True), ("no", False), ('"false"', False)]
)
def test_a_context_may_insist_on_plain_http(tmp_path: Path, said: str, insists: bool) -> None:
    config = f"current: a\ncontexts:\n  a:\n    servers: [http://a:1]\n    insecure: {said}\n"
    assert resolved(config, tmp_path).insecure is insists
    assert resolved(config, tmp_path, GlobalOptions(insecure=True)).insecure


def test_insisting_is_yes_or_no(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="'perhaps' is neither yes nor no"):
        resolved("current: a\ncontexts:\n  a:\n    insecure: perhaps\n", tmp_path)


def test_the_context_is_chosen_by_flag_then_environment_then_file(tmp_path: Path) -> None:
    assert resolved(CONFIG, tmp_path).name == "production"
    assert resolved(CONFIG, tmp_path, HOLDFAST_CONTEXT="test").region == "eu"
    assert resolved(CONFIG, tmp_path, GlobalOptions(context="production"), HOLDFAST_CONTEXT="test").name == "production"


def test_an_unknown_context_is_answered_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(CliError, match="no context 'prod'; known: production, test"):
        resolved(CONFIG, tmp_path, GlobalOptions(context="prod"))


def test_a_token_file_is_read_and_one_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hf_e_f\n", encoding="utf-8")
    secret.chmod(0o600)
    config = CONFIG.replace("token: hf_a_b", f"tokenFile: {secret}")
    assert resolved(config, tmp_path).token == "hf_e_f"
    assert capsys.readouterr().err == ""
    secret.chmod(0o644)
    assert resolved(CONFIG, tmp_path, GlobalOptions(token_file=str(secret)), HOLDFAST_TOKEN="hf_c_d").token == "hf_e_f"
    assert "warning: other users can read the token in" in capsys.readouterr().err
    with pytest.raises(CliError, match="the token cannot be read"):
        resolved(CONFIG, tmp_path, GlobalOptions(token_file="nowhere"))


def test_a_token_in_a_file_that_others_can_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved(CONFIG, tmp_path)
    assert capsys.readouterr().err == ""
    (tmp_path / "config.yaml").chmod(0o644)
    resolve(NONE, {"HOLDFAST_CONFIG": str(tmp_path / "config.yaml")})
    assert "warning: other users can read the token in" in capsys.readouterr().err


def test_an_empty_token_file_is_no_token_and_nobody_else_speaks_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "empty").chmod(0o600)
    with pytest.raises(CliError, match="it is empty"):
        resolved(CONFIG, tmp_path, GlobalOptions(token_file=str(tmp_path / "empty")))


@pytest.mark.parametrize("token", ["a b", "a\nb", "schlüssel"])
def test_what_cannot_be_a_token_is_not_sent(token: str, tmp_path: Path) -> None:
    with pytest.raises(CliError, match="contains no token"):
        resolved(CONFIG, tmp_path, HOLDFAST_TOKEN=token)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"HOLDFAST_CONFIG": "/a/b.yaml"}, "/a/b.yaml"),
        ({"XDG_CONFIG_HOME": "/x"}, "/x/holdfast/config.yaml"),
        ({}, str(Path("~/.config/holdfast/config.yaml").expanduser())),
    ],
)
def test_the_file_is_where_the_desktop_keeps_such_files(environment: dict[str, str], wanted: str) -> None:
    assert config_path(environment) == wanted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("contexts: [", "config.yaml:"),
        ("contexts: [a]", "has `current` and `contexts`"),
        ("- a", "has `current` and `contexts`"),
        (CONFIG.replace("tenant: shop", "tennant: shop"), "unknown field 'tennant'"),
        (CONFIG.replace("http://127.0.0.1:7401", "127.0.0.1"), None),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(text: str, said: str | None, tmp_path: Path) -> None:
    if said is None:
        with pytest.raises(CliError, match="is no URL of a server"):
            resolved(text, tmp_path, GlobalOptions(context="test"))
        return
    with pytest.raises(CliError) as trouble:
        resolved(text, tmp_path)
    assert said in str(trouble.value)


# The plain form


@pytest.mark.parametrize(
    "text",
    [
        CONFIG,
        CONFIG.replace("[https://one.example:7400, https://two.example:7400]", "https://one.example:7400"),
        "current: a\n",
        "# a comment\n\ncontexts:\n  a:\n    tokenFile: ~/.config/holdfast/a.token\n",
    ],
)
def test_plain_files_are_read_without_a_parser_and_mean_the_same(text: str) -> None:
    assert parse_simple_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "contexts:\n",
        "contexts: {}\n",
        "current: 'a'\n",
        "current: yes\n",
        "current: 12\n",
        "current: ~\n",
        "current: a # why\n",
        "current: a\ncurrent: b\n",
        "contexts:\n  a:\n      tenant: b\n",
        "contexts:\n  a:\n    servers:\n    - http://a:1\n",
        "contexts:\n  a:\n    servers: [http://a:1, 12]\n",
        "contexts:\n  yes:\n    tenant: b\n",
        "contexts:\n  a:\n    tenant: b:\n",
        "contexts: &x\n  a:\n    tenant: b\n",
        "current: a\n  b\n",
    ],
)
def test_whatever_is_not_plain_is_left_to_the_parser(text: str) -> None:
    assert parse_simple_yaml(text) is None


@pytest.mark.parametrize("tenant", ["shop", "yes", "12", "a b", 'quo"te', "x: y", "ünder"])
def test_what_is_written_is_read_back(tenant: str, tmp_path: Path) -> None:
    config = {"current": "a b", "contexts": {"a b": {"servers": ["http://a:1", "http://b:2"], "tenant": tenant}}}
    path = tmp_path / "config.yaml"
    path.write_text(render_config(config), encoding="utf-8")
    assert read_config(str(path)) == config


# The command


def test_contexts_are_made_used_and_listed(holdfast: CommandLine) -> None:
    same_as_golden("config_none", holdfast("config", "contexts"))
    holdfast("config", "set", "--context", "production", "servers=https://a:1,https://b:2", "token=hf_a_bcdef")
    holdfast("config", "set", "--context", "test", "server=http://127.0.0.1:7401", "tenant=shop")
    assert holdfast("config", "use", "test").stdout == "context test is current\n"
    same_as_golden("config_contexts", holdfast("config", "contexts"))
    assert holdfast("config", "use", "none").exit_code == 2


def test_the_file_is_for_its_owner_alone_and_plain(holdfast: CommandLine) -> None:
    path = holdfast.folder / "config.yaml"
    path.write_text("contexts: {}\n", encoding="utf-8")
    path.chmod(0o644)
    holdfast("config", "set", "servers=http://a:1", "token=hf_a_b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert parse_simple_yaml(path.read_text(encoding="utf-8")) is not None
    assert [one.name for one in holdfast.folder.iterdir()] == ["config.yaml"]


def test_what_is_shown_is_in_force_and_has_no_token_in_it(holdfast: CommandLine) -> None:
    holdfast("config", "set", "servers=http://a:1", "token=hf_a_verysecret", "tenant=shop")
    done = holdfast("config", "show", "--tenant", "bank", "-o", "json")
    found = msgspec.json.decode(done.stdout)
    assert (found["servers"], found["tenant"], found["token"]) == (["http://a:1"], "bank", "hf_a_v...")
    for words in (["config", "show"], ["config", "contexts", "-o", "yaml"]):
        assert "verysecret" not in holdfast(*words).stdout


def test_the_configuration_is_shown_though_its_token_file_cannot_be_read(holdfast: CommandLine) -> None:
    holdfast("config", "set", "servers=http://a:1", "tokenFile=/nonexistent/token")
    done = holdfast("config", "show")
    assert done.exit_code == 0
    assert "http://a:1" in done.stdout
    assert "warning: the token cannot be read from /nonexistent/token" in done.stderr


def test_fields_are_removed_by_an_empty_value_and_unknown_ones_refused(holdfast: CommandLine) -> None:
    holdfast("config", "set", "tenant=shop")
    holdfast("config", "set", "tenant=")
    assert "tenant" not in (holdfast.folder / "config.yaml").read_text(encoding="utf-8")
    for word in ("colour=blue", "tenant"):
        assert holdfast("config", "set", word).exit_code == 2


def test_the_path_is_printed(holdfast: CommandLine) -> None:
    assert holdfast("config", "path").stdout == f"{holdfast.folder / 'config.yaml'}\n"


def test_a_command_goes_where_the_context_says(holdfast: CommandLine) -> None:
    holdfast("config", "set", "servers=https://a:1", "token=hf_a_b", "tenant=shop")
    holdfast("get", "tenants")
    assert holdfast.access is not None
    assert (holdfast.access.servers, holdfast.access.token, holdfast.access.tenant) == (
        ("https://a:1",),
        "hf_a_b",
        "shop",
    )


def test_a_context_that_insists_sends_its_token_over_plain_http(holdfast: CommandLine) -> None:
    holdfast("config", "set", "servers=http://a:1", "token=hf_a_b")
    assert holdfast("get", "tenants").exit_code == 2
    assert not holdfast.access
    holdfast("config", "set", "insecure=yes")
    holdfast("get", "tenants")
    found = holdfast.access
    assert found is not None
    assert (found.servers, found.insecure) == (("http://a:1",), True)


WITH_A_USER = ("https://me:password@a:1", "me:password@a:1", 'https://me:pass"word@a:1', "https://me:pass/word@a:1")


@pytest.mark.parametrize("server", WITH_A_USER)
def test_a_server_with_a_user_is_refused_and_what_is_said_of_it_does_not_show_the_password(
    holdfast: CommandLine, server: str
) -> None:
    for words in (["get", "tenants", "--server", server, "-vv"], ["config", "set", f"servers=https://b:2,{server}"]):
        done = holdfast(*words)
        assert done.exit_code == 2
        assert "word" not in done.stdout + done.stderr
        assert "--token-file" in done.stderr
    assert not holdfast.access


def test_contexts_are_listed_without_the_password_that_somebody_has_written_there(holdfast: CommandLine) -> None:
    text = "contexts:\n  one:\n    servers: 'https://me:password@a:1'\n"
    (holdfast.folder / "config.yaml").write_text(text, encoding="utf-8")
    for words in (["config", "contexts"], ["config", "contexts", "-o", "json"]):
        said = holdfast(*words).stdout
        assert "a:1" in said
        assert "password" not in said
