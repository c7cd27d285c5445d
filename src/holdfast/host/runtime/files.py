"""Small files that survive a crash: written to a temporary file, synced, renamed; the folder is synced last."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(file: Path, text: str, mode: int = 0o666) -> None:
    """Replace the file's text durably, with this mode less the umask."""
    fresh = file.with_suffix(".new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
