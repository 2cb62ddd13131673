"""Crash at every write, lose every answer, cut every watch: the numbers stay the same.

The scenario is one cluster scaled 1 -> 10 -> 3. It is played once to learn its writes and watch
events, then once for each of them with a fault in that very place.
"""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.embedded_only
