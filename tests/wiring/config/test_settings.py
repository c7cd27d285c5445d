"""Settings: who wins, what is refused, and that the table, the struct, the flags and the documents agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import fields

from holdfast.wiring.config.server_settings import SETTINGS, ServerSettings
from holdfast.wiring.config.sources import BadSetting, LoadedSettings, load_settings, settings_table


def settings_file(folder: Path, text: str) -> str:
    path = folder / "server.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def gathered(file: str = "", environment: dict[str, str] | None = None, **flags: object) -> LoadedSettings:
    return load_settings(file, {"XDG_DATA_HOME": "/data", **(environment or {})}, flags)


def test_the_table_has_one_row_for_each_setting_in_the_same_order() -> None:
    assert [one.field for one in SETTINGS] == [field.name for field in fields(ServerSettings)]


def test_every_setting_says_why_it_is_there_and_what_goes_wrong_otherwise() -> None:
    assert [one.field for one in SETTINGS if not (one.why.endswith(".") and one.otherwise.endswith("."))] == []


def test_the_file_is_over_defaults_the_environment_over_the_file_and_flags_over_all(tmp_path: Path) -> None:
    file = settings_file(tmp_path, "role: platform\nlisten: 127.0.0.1:1\nwatches: 7\nlogLevel: error\n")
    environment = {"HOLDFAST_SERVER_LISTEN": "127.0.0.1:2", "HOLDFAST_SERVER_WATCHES": "8"}
    found = gathered(file, environment, watches="9")
    assert (found.settings.listen, found.settings.watches, found.settings.log_level) == ("127.0.0.1:2", 9, "error")
    sources = {key: source for key, _, source in settings_table(found)}
    assert sources["watches"] == "flag --watches"
    assert sources["listen"] == "environment HOLDFAST_SERVER_LISTEN"
    assert sources["logLevel"] == f"file {file}"
    assert sources["timeout"] == "default"
    assert sources["advertise"] == "derived from other settings"


def test_the_environment_names_the_file_unless_a_flag_does(tmp_path: Path) -> None:
    file = settings_file(tmp_path, "role: platform\n")
    assert gathered("", {"HOLDFAST_SERVER_SETTINGS": file}).settings.role == "platform"


def test_what_the_command_line_understands_by_region_is_not_taken_for_the_servers_own() -> None:
    assert gathered("", {"HOLDFAST_REGION": "eu", "HOLDFAST_SERVER": "http://a"}).settings.region == ""


def test_an_unknown_key_of_the_file_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="unknown key lissten; did you mean listen"):
        gathered(settings_file(tmp_path, "lissten: 127.0.0.1:1\n"))


def test_an_unknown_variable_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(BadSetting, match="HOLDFAST_SERVER_LISTN; did you mean HOLDFAST_SERVER_LISTEN"):
        gathered("", {"HOLDFAST_SERVER_LISTN": "127.0.0.1:1"})


def test_an_empty_variable_was_not_set() -> None:
    assert gathered("", {"HOLDFAST_SERVER_LISTEN": ""}).settings.listen == "127.0.0.1:7400"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- role\n", "settings by name"),
        ("role: [", "not valid YAML"),
        ("watches: many\n", "watches .file .*: 'many' is not a count"),
        ("watches: true\n", "not a count"),
        ("retention: 7\n", "'7' is not a duration"),
        ("role: leader\n", "'leader' is not one of platform, region"),
        ("insecure: perhaps\n", "neither yes nor no"),
        ("listen: {port: 7400}\n", "is not text"),
        ("bodyBytes: huge\n", "amount of memory"),
        ("ledger: [sessionLease]\n", "not a pair"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_where_it_was_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        gathered(settings_file(tmp_path, text))


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"cannot read the settings file no-such\.yaml"):
        gathered("no-such.yaml")


def test_sizes_durations_lists_and_pairs_are_written_as_people_write_them(tmp_path: Path) -> None:
    text = "bodyBytes: 2Mi\nretention: 1d12h\nplatform: [http://a:1, http://b:2]\nledger: {sessionLease: 20s}\n"
    settings = gathered(settings_file(tmp_path, text)).settings
    assert (settings.body_bytes, settings.retention) == (2 << 20, 36 * 3_600_000)
    assert settings.platform == ("http://a:1", "http://b:2")
    assert settings.ledger == (("sessionLease", "20s"),)


def test_flags_give_lists_and_pairs_one_by_one_or_with_commas() -> None:
    found = gathered(platform=["http://a:1,http://b:2", "http://c:3"], ledger=["grace=5s", "killMargin=2s"]).settings
    assert found.platform == ("http://a:1", "http://b:2", "http://c:3")
    assert found.ledger == (("grace", "5s"), ("killMargin", "2s"))


def test_what_is_shown_can_be_read_back(tmp_path: Path) -> None:
    found = gathered(role="region", region="eu", platform=["http://a:1"], retention="90m", insecure=True)
    text = "".join(f"{key}: '{value}'\n" for key, value, _ in settings_table(found) if value)
    assert gathered(settings_file(tmp_path, text)).settings == found.settings


def test_what_was_not_said_follows_from_the_rest() -> None:
    settings = gathered(role="region", region="eu", listen="127.0.0.1:7401", token_file="t").settings
    assert settings.data == "/data/holdfast/eu"
    assert settings.advertise == settings.name == "http://127.0.0.1:7401"
    assert settings.token_file == "/data/holdfast/eu/t"
    assert settings.bootstrap_file == ""


def test_a_platform_puts_its_operators_token_into_its_data_folder_and_advertises_tls() -> None:
    settings = gathered(role="platform", data="/srv/hf", tls_certificate="c.pem", tls_key="/k.pem").settings
    assert settings.bootstrap_file == "/srv/hf/operator.token"
    assert (settings.tls_certificate, settings.tls_key) == ("/srv/hf/c.pem", "/k.pem")
    assert settings.advertise == "https://127.0.0.1:7400"
