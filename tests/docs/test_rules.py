"""docs/rules.md explains every rule that code, tests or pages cite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.docs.tree import ROOT, lines_with_digits, text_files

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = (ROOT / "docs" / "rules.md").read_text()
BEHAVIOURS = (ROOT / "docs" / "compatibility.md").read_text()

FAMILIES = ("INF", "WQ", "EXP", "LE", "MGR", "CTL", "HLT", "THR", "EVT", "NET", "MET", "KAI")
RULE = re.compile(rf"\b({'|'.join(FAMILIES)})-(\d+)[a-d]?(?:(?:\.\.|/)(\d+))?")
RULE_IN_A_NAME = re.compile(rf"(?<=[_ ])({'|'.join(FAMILIES)})(\d+)(?![A-Za-z0-9])")
ROW = re.compile(r"(?<![A-Za-z0-9])(T\d{3}|M\d{2})(?![A-Za-z0-9])")
BUG = re.compile(r"(?<![A-Za-z])bugs?[ _](\d+)\b", re.IGNORECASE)
BEHAVIOUR = re.compile(r"\bbehaviours? (\d+)(?: to (\d+))?\b")
ANYTHING_LIKE_A_RULE = re.compile(r"(?<![A-Za-z0-9-])([A-Z]{2,5})-\d+\b")
LICENCES = {"BSD", "GPL", "MIT", "MPL", "PSF"}
NOT_RULES = {"UTF", "DNS", "SSH", "SHA", "ISO", "KEP", "RFC", "CVE", "GLM", *LICENCES}
UNRESOLVABLE = re.compile(
    r"\bDESIGN \d|\b[Tt]raps? \d+|spec/[\w-]+\.md|\b[Ss]ection \d+(?:\.\d+)?\b|\(D\d+\)"
)


class Citation(NamedTuple):
    where: str
    rule: str


def cited(line: str) -> Iterator[str]:
    """The rules that a line cites, each as docs/rules.md spells it."""
    spaced = line.replace("_", " ")
    for family, first, last in RULE.findall(line):
        yield from (f"{family}-{n}" for n in range(int(first), int(last or first) + 1))
    for family, number in RULE_IN_A_NAME.findall(spaced):
        yield f"{family}-{number}"
    yield from ROW.findall(spaced)
    for number in BUG.findall(spaced):
        yield f"bug {int(number)}"
    for first, last in BEHAVIOUR.findall(line):
        yield from (f"behaviour {n}" for n in range(int(first), int(last or first) + 1))


def explained() -> set[str]:
    anchors = re.findall(r'^\| <a id="[a-z0-9-]+"></a>([^|]+?) \|', RULES, re.MULTILINE)
    table = BEHAVIOURS.split("## Fifty subtle behaviours")[1].split("\n## ")[0]
    return {*anchors, *(f"behaviour {n}" for n in re.findall(r"^\| (\d+) \|", table, re.MULTILINE))}


def citations() -> Iterator[Citation]:
    for path in text_files():
        for number, line in lines_with_digits(path):
            for rule in cited(line):
                yield Citation(f"{path.relative_to(ROOT)}:{number}", rule)


def test_every_rule_that_is_cited_is_explained():
    known = explained()
    missing = [f"{where} cites {rule}" for where, rule in citations() if rule not in known]
    assert missing == []


def test_nothing_that_looks_like_a_rule_is_of_an_unknown_family():
    unknown = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in text_files()
        for number, line in lines_with_digits(path)
        for match in ANYTHING_LIKE_A_RULE.finditer(line)
        if match.group(1) not in {*FAMILIES, *NOT_RULES}
    ]
    assert unknown == []


def test_no_citation_points_out_of_the_repository():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in text_files()
        for number, line in lines_with_digits(path)
        for match in UNRESOLVABLE.finditer(line)
    ]
    assert found == []


def test_each_rule_is_explained_once_under_its_own_anchor():
    rows = re.findall(r'<a id="([a-z0-9-]+)"></a>([^|]+?) \|', RULES)
    assert len(rows) == len({anchor for anchor, _ in rows})
    assert [anchor for anchor, rule in rows if anchor != rule.lower().replace(" ", "-")] == []


def test_the_finder_finds_every_form():
    line = "def test_T001_M02_bug_07_EXP33(): INF-29/30, WQ-1..3, INF-4c, behaviours 6 to 8"
    assert set(cited(line)) == {
        *("T001", "M02", "bug 7", "EXP-33", "INF-29", "INF-30", "WQ-1", "WQ-2", "WQ-3", "INF-4"),
        *("behaviour 6", "behaviour 7", "behaviour 8"),
    }
