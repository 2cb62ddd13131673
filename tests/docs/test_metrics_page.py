"""docs/metrics.md has every metric that the operator registers."""

from __future__ import annotations

import pytest

from tests.docs.metrics_page import PAGE, SECTIONS, metrics, table
from tests.docs.upgrade_pictures import block

pytestmark = pytest.mark.real_time


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_the_metrics_of_the_operator(section: str):
    written = block(PAGE.read_text(), section)
    assert written == table(section), "run python -m tests.docs.metrics_page"


def test_every_metric_says_what_it_means():
    assert len(metrics()) > 60
    assert [each.name for each in metrics() if not each.text] == []
