"""The folder of an embedded store: lock, free space, and a reserve for a full disk.

    lock        held by the one process that has the store open; contains its process id
    log.db      the log, with log.db-wal (`sqlite.database`)
    snapshots/  (`snapshot_files`)
    decisions.db  decisions of a region's schedulers: derived, rebuilt if missing (`stores.indexes`)
    ballast     space taken in advance, so that trimming can run when the disk is full (RULES 20)

The lock is a file of its own: closing any descriptor of a database file drops SQLite's locks on it (RULES 21).
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.host.ports.store import StoreError, StoreInUse

#: More than twice the write-ahead log (`log_writer`), which is emptied before trimming.
BALLAST_BYTES = 16 << 20

#: File systems that provide locks and fsync over a network. A server on one of them can lose acknowledged writes.
NETWORK_TYPES = re.compile(
    r"(nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs\w*|glusterfs|orangefs|pvfs2|ocfs2|gfs2|davfs|ncpfs|coda"
    r"|fuse\.(sshfs|glusterfs|ceph\S*|s3fs|rclone|juicefs|davfs2?|gcsfuse|goofys|smbnetfs|curlftpfs|moosefs|seaweedfs))"
)


class FolderLock:
    """An exclusive lock on a folder. It ends with its process, however that ends."""

    def __init__(self, folder: Path) -> None:
        try:
            # For its owner only: any user who can open a file can lock it, and tenants can reach a node's folder.
            self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            os.fchmod(self._file, 0o600)
        except OSError as error:
            raise StoreError(f"{folder}/lock: {error.strerror}\nhint: name a folder that this user owns") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise StoreInUse(
                f"{folder}: in use by process {holder}\n"
                f"hint: stop that process (`ps -p {holder}` shows it), or give this server a folder of its own"
            ) from None
        # For operators. The lock works without it, also on a full disk.
        with suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._file)


class DiskReserve:
    """Reserved disk space: released when there is no other, restored once 125 % of it is free."""

    def __init__(self, folder: Path, size_bytes: int = BALLAST_BYTES) -> None:
        self._folder = folder
        self._path = folder / "ballast"
        self.size_bytes = size_bytes

    def held(self) -> bool:
        """Whether the space is reserved."""
        try:
            return os.stat(self._path).st_size >= self.size_bytes
        except FileNotFoundError:
            return self.size_bytes == 0

    def restore(self) -> bool:
        """Reserve the space if enough is free. Return whether it is reserved."""
        if self.held():
            return True
        if free_bytes(self._folder) < self.size_bytes + self.size_bytes // 4:
            return False
        try:
            with open_to_write(self._path) as file:
                os.posix_fallocate(file, 0, self.size_bytes)
                os.fsync(file)
        except OSError:
            self.release()
        return self.held()

    def release(self) -> None:
        """Free the space for an operation that frees more."""
        self._path.unlink(missing_ok=True)


def prepare(folder: Path) -> None:
    """Create a missing folder, for its owner only: a log has the specs of all tenants. Reject a network file system."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        kind = network_type(folder.resolve(), Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror}\nhint: name a folder that this user can write to") from error
    if kind is not None:
        raise StoreError(
            f"{folder}: on a network file system ({kind}), where locks and fsync do not hold\n"
            "hint: name a folder on a local disk, or use a store that is a server"
        )


def network_type(folder: Path, mountinfo: str) -> str | None:
    """Return the type of the folder's network file system, by the kernel's mount table; None if it is local."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), before.split()[4]))
        # Of two mounts on one point, the later covers the earlier.
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind if NETWORK_TYPES.fullmatch(kind) else None


def free_bytes(folder: Path) -> int:
    """Return the bytes that an unprivileged process may still write."""
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def size_of(path: Path) -> int:
    """Return the size of a file, 0 if it is missing."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


@contextmanager
def open_to_write(path: Path) -> Iterator[int]:
    """Open a new or truncated file for writing."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        yield file
    finally:
        os.close(file)
