"""Readers are measured in a cloud, by what the network sees, and only where their answer is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench.cloud import DELTALAKE, OURS, WrongAnswerError, measurements, ours, upload
from bench.logs import FIRST_FILE, LAST_HOUR, made_log
from bench.measure import Measurement
from bench.slow_network import slow_network

if TYPE_CHECKING:
    from pathlib import Path

    from tests.azurite import Azurite

FILES = 3000

pytestmark = [pytest.mark.azurite, pytest.mark.full]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.setattr("bench.cloud.made_log", lambda files: made_log(files, tmp_path))
    monkeypatch.setattr("bench.cloud.DELAY", 0.001)
    return list(measurements(lambda _: None, files=[FILES], rounds=1))


def test_every_reader_has_its_turn(found: list[dict[str, Any]]) -> None:
    by_case = {(each["reader"], each["base"], each["question"]): each for each in found}
    bases = [(OURS, "sidecar"), (OURS, "checkpoint"), (DELTALAKE, "checkpoint")]
    assert set(by_case) == {(*base, question) for base in bases for question in (FIRST_FILE, LAST_HOUR)}
    for each in found:
        assert (each["suite"], each["files"]) == ("cloud", FILES)
        assert each["files_found"] == (1 if each["question"] == FIRST_FILE else 1250)
        assert each["median"]["requests"] > 5
        assert each["median"]["bytes"] > 10_000
    assert by_case[OURS, "sidecar", LAST_HOUR]["median"]["trips"] <= 4


def test_the_network_counts_what_this_library_says_it_asked_for(azurite: Azurite, tmp_path: Path) -> None:
    made = made_log(FILES, tmp_path)
    address = f"az://{azurite.create_container()}/table"
    upload(made.sidecar, address, {**azurite.options, "allow_http": "true"})
    with slow_network(azurite.endpoint, 0.001, 1e9) as network:
        options = {**azurite.options, "endpoint": network.address, "allow_http": "true"}
        answer = ours(address, options, f"_event_hour = '{made.log.newest_hour}'")()
    assert answer["files"] == 1250
    assert network.requests == answer["requests"]
    assert answer["bytes"] < network.bytes < answer["bytes"] * 1.5


def test_a_wrong_answer_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_work: object, **_arguments: object) -> Measurement:
        answer = {"files": 1, "first_path": "x", "paths": "x", "tier": 1}
        return Measurement(answer, 1, 1)

    monkeypatch.setattr("bench.cloud.measured", wrong)
    monkeypatch.setattr("bench.cloud.made_log", lambda files: made_log(files, tmp_path))
    with pytest.raises(WrongAnswerError, match="first file by delta-sidecar"):
        list(measurements(lambda _: None, files=[FILES], rounds=1))
