"""Nobody writes to standard error but by what blots secrets out and escapes what others said."""

from __future__ import annotations

import re

from tests.architecture.checkout import ROOT

SOURCE = ROOT / "src" / "holdfast"
#: Who writes there, with what it is written by. Examples are tenants' work: what they say is theirs.
WRITERS = {
    "cli/errors.py": "escape_controls(redact_secrets(",
    "cli/options.py": "escape_controls(redact_secrets(",
    "observe/log_output.py": "handler.setFormatter(SafeFormatter())",
    "sim/runs/swarm.py": "logging.basicConfig(handlers=[log_to_stderr()])",
}
WRITING = re.compile(r"sys\.stderr|StreamHandler|basicConfig|echo\(.*err=True")


def test_whoever_writes_to_standard_error_lets_no_line_be_forged_and_no_secret_through() -> None:
    found = {}
    for path in SOURCE.rglob("*.py"):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(SOURCE).as_posix()
        if WRITING.search(text) and not name.startswith("examples/"):
            found[name] = text
    assert sorted(found) == sorted(WRITERS)
    assert [name for name, by in WRITERS.items() if by not in found[name]] == []
