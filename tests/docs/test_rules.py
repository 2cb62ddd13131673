"""docs/rules.md explains the rules that code and pages cite by number, and holds no others."""

from __future__ import annotations

import re

from tests.docs.tree import ROOT, lines_with_digits, text_files

MOST = 60
FAMILIES = ("INF", "WQ", "EXP", "LE", "MGR", "CTL", "THR", "EVT", "NET", "KAI")
CITATION = re.compile(rf"\b(?:{'|'.join(FAMILIES)})-\d+")
ROW = re.compile(r'^\| <a id="([a-z]+-\d+)"></a>([A-Z]+-\d+) \|', re.MULTILINE)
PRODUCT = ("workqueue", "informers", "controller")
UNRESOLVABLE = re.compile(
    r"\bDESIGN \d|\b[Tt]raps? \d+|spec/[\w-]+\.md|\b[Ss]ection \d+(?:\.\d+)?\b|\(D\d+\)"
)
ROWS = ROW.findall((ROOT / "docs" / "rules.md").read_text())


def citations() -> dict[str, set[str]]:
    """The files that cite each rule, by its number."""
    found: dict[str, set[str]] = {}
    for path in text_files():
        for _, line in lines_with_digits(path):
            for rule in CITATION.findall(line):
                found.setdefault(rule, set()).add(str(path.relative_to(ROOT)))
    return found


def test_every_rule_that_is_cited_is_explained_and_every_rule_cited_by_code():
    cited, explained = citations(), {rule for _, rule in ROWS}
    assert cited.keys() == explained
    assert [rule for rule, files in cited.items() if not _by_code(files)] == []


def _by_code(files: set[str]) -> bool:
    return any(name.startswith(PRODUCT) for name in files)


def test_no_citation_points_out_of_the_repository():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in text_files()
        for number, line in lines_with_digits(path)
        for match in UNRESOLVABLE.finditer(line)
    ]
    assert found == []


def test_each_rule_is_explained_once_under_its_own_anchor():
    assert [anchor for anchor, rule in ROWS if anchor != rule.lower()] == []
    assert len(ROWS) == len(set(ROWS)) <= MOST
