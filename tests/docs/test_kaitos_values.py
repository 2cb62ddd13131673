"""The table of Kaito's values: what it names is a value of the chart."""

from __future__ import annotations

import re

import yaml

from tests.docs.tree import ROOT

PAGE = ROOT / "docs" / "workspace.md"
ROW = re.compile(r"^\| (?P<theirs>`.*) \| (?P<ours>.+) \|$", re.MULTILINE)
NAME = re.compile(r"`([a-z][\w.]+)`")


def test_every_value_that_stands_for_one_of_kaitos_exists():
    values = yaml.safe_load((ROOT / "charts/manta-operator/values.yaml").read_text())
    table = PAGE.read_text().partition("| Value of Kaito's chart | Here |")[2].partition("\n\n")[0]
    rows = [(match["theirs"], match["ours"]) for match in ROW.finditer(table)]
    named = [NAME.findall(theirs if ours == "the same" else ours) for theirs, ours in rows]
    assert sum(map(len, named)) > 15
    for path in (path for names in named for path in names):
        found = values
        for part in path.split("."):
            assert part in found, path
            found = found[part]
