"""How hard property tests try: a few seconds each by default, `PROPERTY_EFFORT=100` for a long hunt."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

EFFORT = int(os.environ.get("PROPERTY_EFFORT", "1"))


def examples(count: int) -> settings:
    """Gives the settings of a property with so many examples at the default effort."""
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(
        max_examples=count * EFFORT,
        deadline=None,
        suppress_health_check=unhurried,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        print_blob=True,
    )
