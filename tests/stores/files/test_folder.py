"""The folder of an embedded store: where it may lie, and the reserve for a full disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.host.ports.store import StoreError
from holdfast.stores.files.folder import DiskReserve, network_type, prepare

MOUNTS = r"""
21 1 252:0 / / rw,relatime - ext4 /dev/vda rw
30 21 0:24 / /dev/shm rw - tmpfs tmpfs rw
40 21 0:50 / /mnt rw - nfs4 server:/export rw,vers=4.2
41 40 0:51 / /mnt/local\040disk rw - xfs /dev/vdb rw
42 21 0:52 / /srv rw - xfs /dev/vdc rw
43 21 0:53 / /srv rw - fuse.sshfs me@far:/srv rw
44 21 0:54 / /media/share rw - cifs //server/share rw
""".strip()


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/var/lib/holdfast", None),
        ("/mnt/data", "nfs4"),
        ("/mntx", None),
        ("/mnt/local disk/data", None),
        ("/srv/data", "fuse.sshfs"),
        ("/media/share", "cifs"),
        ("/dev/shm/x", None),
    ],
)
def test_the_innermost_and_latest_mount_says_whether_a_folder_is_on_a_network(folder: str, kind: str | None) -> None:
    assert network_type(Path(folder), MOUNTS) == kind


def test_a_network_file_system_is_refused_with_its_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, encoding: "40 21 0:50 / / rw - nfs server:/ rw")
    with pytest.raises(StoreError, match=r"on a network file system \(nfs\)(.|\n)*hint: name a folder on a local disk"):
        prepare(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=rf"{tmp_path}/file/store: Not a directory\nhint:"):
        prepare(tmp_path / "file" / "store")


def test_ballast_takes_real_room_and_gives_it_back(tmp_path: Path) -> None:
    ballast = DiskReserve(tmp_path, 1 << 20)
    assert not ballast.held()
    assert ballast.restore()
    assert (tmp_path / "ballast").stat().st_blocks * 512 >= 1 << 20
    assert ballast.restore()
    ballast.release()
    assert not ballast.held()


def test_ballast_is_not_taken_from_the_last_of_the_room(tmp_path: Path) -> None:
    ballast = DiskReserve(tmp_path, 1 << 60)
    assert not ballast.restore()
    assert not (tmp_path / "ballast").exists()


# In a mount namespace of its own: nothing is left behind, and no privileges are needed where users may have one.
FULL_DISK = """
import asyncio, subprocess, sys
from pathlib import Path
from holdfast.host.ports.store import StoreError, WriteFull, WriteOk
from holdfast.stores.sqlite.store import SqliteStore
from tests.support.hosts.stores import LOG, fill, written

MIB = 1 << 20
disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "none", str(disk)], check=True)

async def main():
    store = await SqliteStore.open(disk / "store", ballast_bytes=16 * MIB)
    batch, outcome = await fill(store, size_bytes=200_000)
    assert isinstance(outcome, WriteFull), outcome
    head = await store.head()
    assert head.seq == batch.seq - 1
    assert (await store.usage()).share() > 0.8, await store.usage()
    # Something else takes what is left, to the last byte: only the reserve can help now.
    with open(disk / "something else", "wb", buffering=0) as other:
        try:
            while True:
                other.write(bytes(4096))
        except OSError:
            pass
    assert isinstance(await store.append(head, batch), WriteFull)
    assert written(await store.trim(LOG, head.seq - 1)).floor == head.seq - 1
    await store.reclaim()
    (disk / "something else").unlink()
    usage = await store.usage()
    assert usage.share() < 0.2, usage
    assert (disk / "store" / "ballast").stat().st_size == 16 * MIB
    assert isinstance(await store.append(head, batch), WriteOk)
    assert await store.read(head.seq + 1) == [batch]
    await store.close()
    store = await SqliteStore.open(disk / "store", ballast_bytes=16 * MIB)
    assert (await store.head()).seq == head.seq + 1
    try:
        await store.put_chunk(1, "big", bytes(50 * MIB))
        raise AssertionError("a chunk larger than the disk was put")
    except StoreError as error:
        assert "No space left" in str(error)
    await store.close()
    print("done")

asyncio.run(main())
"""


def test_on_a_disk_that_is_really_full_trimming_makes_room_and_appending_goes_on(tmp_path: Path) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*apart, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no mount namespaces here: cannot make a small disk")
    done = subprocess.run(
        [*apart, sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=60,
    )
    assert done.stdout == "done\n", done.stderr
