"""The state of a table's log: what there is, what would slow a reader down, and what to do about it.

    report = inspect_table("abfss://lake@account.dfs.core.windows.net/telemetry")
    for finding in report.findings:
        print(finding.severity, finding.message, finding.advice)

It reads the listing, a few small files and the footers of the newest checkpoint; the file list is never built.
"""

from delta_sidecar.health.inspect import inspect_table
from delta_sidecar.health.report import Finding, TableReport

__all__ = ["Finding", "TableReport", "inspect_table"]
