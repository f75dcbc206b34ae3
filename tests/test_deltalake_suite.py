"""The script that runs deltalake's own tests: what it replaces in them."""

from __future__ import annotations

import textwrap

from tools.deltalake_suite import with_imports_replaced


def test_imports_are_replaced_and_nothing_else() -> None:
    source = """
        import deltalake
        from deltalake import DeltaTable, Field
        from deltalake.exceptions import (
            DeltaError,
        )
        from elsewhere import DeltaTable as other

        if True:
            from deltalake.writer import (
                convert_to_deltalake,
                write_deltalake as write,
            )
        text = "from deltalake import DeltaTable"
    """
    expected = """
        import deltalake
        from delta_sidecar import DeltaTable
        from deltalake import Field
        from deltalake.exceptions import (
            DeltaError,
        )
        from elsewhere import DeltaTable as other

        if True:
            from delta_sidecar import write_deltalake as write
            from deltalake.writer import convert_to_deltalake
        text = "from deltalake import DeltaTable"
    """
    assert with_imports_replaced(textwrap.dedent(source)) == textwrap.dedent(expected)
