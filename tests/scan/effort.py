"""How hard property tests try: a second or two each by default, `PROPERTY_EFFORT=100` for a long hunt."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

EFFORT = float(os.environ.get("PROPERTY_EFFORT", "0.6"))


def examples(count: int) -> settings:
    """Gives the settings of a property with so many examples at an effort of 1."""
    unhurried = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    return settings(
        max_examples=max(3, round(count * EFFORT)),
        deadline=None,
        suppress_health_check=unhurried,
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
        print_blob=True,
    )
