"""The table of licences in docs/security.md: every package that the image holds.

After a change of the lock files, run `.venv/bin/python -m tests.docs.licences`.
"""

from __future__ import annotations

import re
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

from tests.docs.tree import ROOT
from tests.docs.upgrade_pictures import with_blocks

PAGE: Final = ROOT / "docs" / "security.md"
IMAGE: Final = "requirements.lock"
TESTS: Final = "requirements-dev.lock"

PERMITTED: Final = frozenset(
    {
        "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0",
    }
)  # fmt: skip
"""What may be given away beside Apache-2.0 code: MPL-2.0 too, as none of its files is changed."""

_SPELLINGS: Final = {
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD 2-Clause License": "BSD-2-Clause",
    "BSD License": "BSD",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


def pinned(lock: str) -> list[str]:
    """The packages of a lock file that Linux installs."""
    lines = re.findall(r"^([\w.-]+)==\S+(.*)$", (ROOT / lock).read_text(), re.MULTILINE)
    return [name for name, marker in lines if "sys_platform == 'win32'" not in marker]


def licence(package: str) -> str:
    """What an installed package says about its licence, as an SPDX expression; empty if nothing."""
    told: Message = metadata(package)  # type: ignore[assignment]
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in told.get_all("Classifier") or []
        if each.startswith("License :: OSI Approved :: ")
    ]
    said = [told.get("License-Expression"), told.get("License"), *classifiers]
    named = [_SPELLINGS.get(each, each) for each in said if each]
    return next(iter(named), "")


def is_permitted(expression: str) -> bool:
    """Whether code under this licence may be given away with Manta."""
    return any(PERMITTED.issuperset(way.split(" AND ")) for way in expression.split(" OR "))


def table() -> str:
    """The packages of the image with their licences."""
    known = dict(re.findall(r"^\| `(\S+)` \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    rows = ["| Package | Licence |", "|---|---|"]
    for name in pinned(IMAGE):
        try:
            said = licence(name)
        except PackageNotFoundError:  # another version of Python does without it
            said = known.get(name, "")
        rows.append(f"| `{name}` | {said} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(with_blocks(PAGE.read_text(), {"licences": table()}))
