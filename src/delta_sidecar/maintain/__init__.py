"""Maintenance of metadata sidecars: `vacuum` deletes those that no reader needs, by `evidence`."""

from delta_sidecar.maintain.vacuum import VacuumSummary, vacuum_sidecars

__all__ = ["VacuumSummary", "vacuum_sidecars"]
