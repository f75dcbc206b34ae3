"""The paths in keys, which have a length in front and an id behind."""

from __future__ import annotations

import pyarrow as pa

from delta_sidecar.log.actions import DELETION_VECTOR
from delta_sidecar.log.identity import canonical_paths, file_keys, key_paths


def test_the_path_is_given_back_whatever_is_in_it() -> None:
    paths = pa.array(["a", "", "7:x:y", "ü%20ß", "file:///p/:q", "p=1/a:b:", "12"])
    vector = {"storageType": "u", "pathOrInlineDv": "x:y", "offset": 1, "sizeInBytes": 2, "cardinality": 3}
    vectors = pa.array([None, vector, vector, None, vector, vector, None], DELETION_VECTOR)
    keys = file_keys({"path": paths, "deletionVector": vectors})
    assert key_paths(keys) == canonical_paths(paths)
    assert key_paths(keys.slice(0, 0)) == pa.array([], pa.string())
