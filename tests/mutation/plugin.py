"""Loaded into pytest while mutants are tried: random tests are repeatable and stop at a failure.

To shrink a failing example takes long, and nobody looks at it.
"""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile(
    "mutation",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("mutation")
