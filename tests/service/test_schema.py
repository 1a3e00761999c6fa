"""The OpenAPI document says what the service does: what it allows is answered as it declares."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.service.cases import TOKENS

from bcdm.benchmark.serving import Server

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

HEADERS = {"Authorization": f"Bearer {TOKENS['owner']}"}
# Nothing can be wrong in a request to these.
PLAIN = ("GET /live", "GET /ready")
# No schema says which bytes are a scan: one that is none is refused at once here.
JUDGES = "POST /v1/mean"


def ask(cases: Any, skipped: list[object]) -> list[str]:
    """Asks what a strategy draws, and holds the answers to the document; the routes asked."""
    asked: list[str] = []

    @settings(
        max_examples=5,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def check(case: Any) -> None:
        asked.append(case.operation.label)
        case.call_and_validate(headers=HEADERS, excluded_checks=skipped)

    check()
    return asked


def test_answers_are_as_declared(server: Server) -> None:
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    address = f"http://127.0.0.1:{server.port}/openapi.json"
    document = schemathesis.openapi.from_url(address, headers=HEADERS)
    asked: list[str] = []
    for found in document.get_all_operations():
        operation = found.ok()
        skipped = [positive_data_acceptance] if operation.label == JUDGES else []
        for mode in schemathesis.GenerationMode:
            if mode is schemathesis.GenerationMode.NEGATIVE and operation.label in PLAIN:
                continue
            asked += ask(operation.as_strategy(generation_mode=mode), skipped)
    assert len(set(asked)) >= 12
    assert len(asked) > 100
