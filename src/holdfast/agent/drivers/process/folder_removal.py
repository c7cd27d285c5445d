"""Removes a folder that a tenant filled, possibly in a way that makes removal hard.

It follows no link, uses no path longer than one name, and opens at most three descriptors at a time. A folder within a
folder is moved up before it is emptied, so that any depth of nesting is reached.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from secrets import token_hex

#: Largest number of names in memory at a time.
NAMES_MAX = 1_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(folder: Path) -> None:
    """Remove a folder and all in it. `OSError` if something stays, for example a mount."""
    above = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if folder.is_symlink() or not folder.is_dir():
            os.unlink(folder.name, dir_fd=above)
            return
        top = _opened(folder.name, above)
        try:
            fresh = map(f"{token_hex(8)}-{{}}".format, count())
            while some := _names(top):
                for name, is_folder in some:
                    _remove(name, top, fresh) if is_folder else os.unlink(name, dir_fd=top)
        finally:
            os.close(top)
        os.rmdir(folder.name, dir_fd=above)
    finally:
        os.close(above)


def _remove(name: str, above: int, fresh: Iterator[str]) -> None:
    """Remove a folder and its files; move the folders in it to its parent."""
    folder = _opened(name, above)
    try:
        while some := _names(folder):
            for one, is_folder in some:
                if not is_folder:
                    os.unlink(one, dir_fd=folder)
                    continue
                _own(one, folder)
                os.rename(one, next(fresh), src_dir_fd=folder, dst_dir_fd=above)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=above)


def _opened(name: str, above: int) -> int:
    """Open a folder and take its ownership, so that processes of its former owner can add nothing more."""
    _own(name, above)
    folder = os.open(name, _FOLDER, dir_fd=above)
    if os.geteuid() == 0:
        os.fchown(folder, 0, 0)
        os.fchmod(folder, 0o700)
    return folder


def _own(name: str, above: int) -> None:
    """Open a folder that its owner has closed to itself, which hinders every user but root."""
    if os.geteuid() != 0:
        os.chmod(name, 0o700, dir_fd=above)


def _names(folder: int) -> list[tuple[str, bool]]:
    """Return some of the names in a folder, and whether each is a folder; a link is not."""
    with os.scandir(folder) as found:
        return [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, NAMES_MAX)]
