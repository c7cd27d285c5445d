"""Where the files under examination are, and how a finding is written down.

A checker takes text and returns findings, so that a test can also hand it a bad snippet and see it found.
"""

import ast
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "holdfast"
CORE = SOURCE / "core"

# Only consulted where git cannot tell which files belong to the project, as in an unpacked archive.
NOT_OURS = re.compile(r"\.git|\.venv|\.hypothesis|build|dist|__pycache__|.*_cache|.*\.egg-info")


class Finding(NamedTuple):
    file: str
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


def none_of(findings: Iterable[Finding]) -> None:
    """Fail with one line for each finding."""
    lines = [str(finding) for finding in sorted(findings)]
    assert not lines, f"{len(lines)} found\n" + "\n".join(lines)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules_under(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


def project_files() -> list[Path]:
    """Files that are tracked, or would be by the next commit."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        paths = [p for p in ROOT.rglob("*") if not any(map(NOT_OURS.fullmatch, p.relative_to(ROOT).parts))]
    return sorted({path for path in paths if path.is_file()})
