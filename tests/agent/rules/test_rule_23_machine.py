"""RULES 23: which machine an agent runs on, told from its folder and its host."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.node_load import MACHINE_ID_FILE, machine_of


def test_the_id_of_a_machine_is_made_once_in_its_folder(tmp_path: Path) -> None:
    first = machine_of(tmp_path)
    assert len(first.id) == 32
    assert machine_of(tmp_path) == first
    (tmp_path / "other").mkdir()
    assert machine_of(tmp_path / "other").id != first.id, "another folder is another machine"


def test_a_folder_that_was_copied_to_another_host_is_told_apart(tmp_path: Path) -> None:
    here, boot = tmp_path / "host", tmp_path / "boot"
    here.write_text("one\n")
    boot.write_text("1\n")
    first = machine_of(tmp_path, here, boot)
    assert (first.host, first.boot) == ("one", "1")
    here.write_text("two\n")
    assert machine_of(tmp_path, here, boot) == replace(first, host="two")
    assert machine_of(tmp_path, tmp_path / "none", boot) == replace(first, host=""), "as in some containers"


@pytest.mark.parametrize("text", ["", "a b", "x" * 65])
def test_an_id_that_cannot_be_read_is_no_new_one(tmp_path: Path, text: str) -> None:
    (tmp_path / MACHINE_ID_FILE).write_text(text)
    with pytest.raises(ValueError, match="holds no valid machine id"):
        machine_of(tmp_path)


def test_a_folder_that_was_copied_or_restored_on_the_same_host_is_another_machine(tmp_path: Path) -> None:
    """Its copy does not know what was begun since: nothing that it does not find is gone."""
    folder, backup = tmp_path / "agent", tmp_path / "backup"
    folder.mkdir()
    first = machine_of(folder)
    shutil.copytree(folder, backup)
    assert machine_of(backup).id != first.id
    assert machine_of(folder) == first
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    assert machine_of(folder).id not in (first.id, machine_of(backup).id)
