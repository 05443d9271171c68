"""LangChain's own conformance tests; SLUICE_URL names a server."""

import os

import pytest
from langchain_sluice import SluiceGate, SluiceRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

url = os.environ.get("SLUICE_URL", "")
pytestmark = pytest.mark.skipif(not url, reason="SLUICE_URL names no server")


class TestSluiceRetriever(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[SluiceRetriever]:
        return SluiceRetriever

    @property
    def retriever_constructor_params(self) -> dict:
        return {"base_url": url}

    @property
    def retriever_query_example(self) -> str:
        return "Which plankton of the northern sea does the herring feed on?"


def test_gate() -> None:
    gate = SluiceGate(base_url=url)
    assert gate.invoke(TestSluiceRetriever().retriever_query_example).retrieve
    chain = gate | (lambda d: "search" if d.retrieve else "know")
    assert chain.batch(["Which plankton does the herring feed on?"]) == ["search"]


def test_gated() -> None:
    closed = SluiceRetriever(base_url=url, gated=True).invoke("How do I bake rye bread?")
    assert closed == []
