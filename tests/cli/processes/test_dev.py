"""`holdfast dev` and the context that it keeps; with its processes it is tested in e2e."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from holdfast.cli.context import read_config
from holdfast.cli.processes import dev
from tests.support.processes.process_world import ProcessFolder, a_work

URL = "http://127.0.0.1:7400"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "conf" / "config.yaml"))
    return tmp_path / "conf" / "config.yaml"


def test_the_first_context_becomes_the_current_one_and_is_for_its_owner_alone(config: Path) -> None:
    assert "--context" not in dev.keep_context(URL, Path("/t/operator.token"))
    wanted = {"current": "dev", "contexts": {"dev": {"servers": [URL], "tokenFile": "/t/operator.token"}}}
    assert read_config(str(config)) == wanted
    assert stat.S_IMODE(config.stat().st_mode) == 0o600


def test_another_current_context_stays_and_commands_name_this_one(config: Path) -> None:
    config.parent.mkdir()
    text = "current: production\ncontexts:\n  production:\n    servers: [https://hf.example:7400]\n"
    config.write_text(text, encoding="utf-8")
    assert dev.keep_context(URL, Path("/t")).endswith("--context dev")
    found = read_config(str(config))
    assert (found["current"], sorted(found["contexts"])) == ("production", ["dev", "production"])


def test_a_context_that_is_so_already_is_not_written_again(config: Path) -> None:
    dev.keep_context(URL, Path("/t"))
    before = config.stat().st_mtime_ns
    dev.keep_context(URL, Path("/t"))
    assert config.stat().st_mtime_ns == before


def test_what_people_added_to_the_context_stays(config: Path) -> None:
    dev.keep_context(URL, Path("/t"))
    text = config.read_text(encoding="utf-8")
    config.write_text(f"{text}    tenant: shop\n", encoding="utf-8")
    dev.keep_context("http://127.0.0.1:7500", Path("/u"))
    wanted = {"servers": ["http://127.0.0.1:7500"], "tokenFile": "/u", "tenant": "shop"}
    assert read_config(str(config))["contexts"]["dev"] == wanted


def test_a_configuration_that_cannot_be_read_is_left_alone_and_commands_say_it_all(config: Path) -> None:
    config.parent.mkdir()
    config.write_text("- no configuration\n", encoding="utf-8")
    assert dev.keep_context(URL, Path("/t")).endswith(f"--server {URL} --token-file /t")
    assert config.read_text(encoding="utf-8") == "- no configuration\n"


def test_a_folder_with_other_files_is_refused_and_nothing_is_removed(tmp_path: Path, config: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine").touch()
    done = CliRunner().invoke(dev.app, ["--data", str(tmp_path / "data"), "--fresh"])
    assert done.exit_code == 1
    assert "holds other files" in done.stderr
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine"]


@pytest.mark.parametrize(("text", "why"), [(None, "cannot be read"), ("kind: [", "cannot be read"), ("a: 1", "kind")])
def test_a_file_that_cannot_be_applied_is_told_before_anything_is_started(
    tmp_path: Path, config: Path, text: str | None, why: str
) -> None:
    if text is not None:
        (tmp_path / "file.yaml").write_text(text, encoding="utf-8")
    done = CliRunner().invoke(dev.app, ["--data", str(tmp_path / "data"), "-f", str(tmp_path / "file.yaml")])
    assert done.exit_code == 1
    assert why in done.stderr
    assert not (tmp_path / "data" / "platform").exists()


def test_what_an_agent_that_was_killed_has_left_ends_with_the_platform(tmp_path: Path, config: Path) -> None:
    """It is not there to be asked when all else stops; here not even one part was started."""
    data = tmp_path / "data"
    CliRunner().invoke(dev.app, ["--data", str(data), "-f", str(tmp_path / "missing.yaml")])
    yard = ProcessFolder(data / "nodes", cgroups=False)
    yard.data = data / "nodes" / "eu-central-1"

    async def start() -> None:
        async with yard.driver() as driver:
            await driver.start(a_work("exec sleep 60"))

    try:
        asyncio.run(start())
        assert yard.record().process.is_alive()
        done = CliRunner().invoke(dev.app, ["--data", str(data), "-f", str(tmp_path / "missing.yaml")])
        assert (done.exit_code, yard.record().process.is_alive()) == (1, False)
    finally:
        yard.clear()
