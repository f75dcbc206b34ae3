"""What keeps a table's metadata sidecars in order: `vacuum` removes those that nobody needs, by `evidence`."""

from delta_sidecar.maintain.vacuum import VacuumSummary, vacuum_sidecars

__all__ = ["VacuumSummary", "vacuum_sidecars"]
