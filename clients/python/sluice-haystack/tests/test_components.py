"""SLUICE_URL names a server that knows about herrings (docs/api.md)."""

import os

import pytest
from haystack import Pipeline
from haystack_integrations.components.retrievers.sluice import SluiceGate, SluiceRetriever

url = os.environ.get("SLUICE_URL", "")
pytestmark = pytest.mark.skipif(not url, reason="SLUICE_URL names no server")
question = "Which plankton of the northern sea does the herring feed on?"


def pipeline() -> Pipeline:
    p = Pipeline()
    p.add_component("gate", SluiceGate(url))
    p.add_component("retriever", SluiceRetriever(url, top_k=2))
    p.connect("gate.open", "retriever.query")
    return p


def test_pipeline() -> None:
    again = Pipeline.loads(pipeline().dumps())
    for p in (pipeline(), again):
        found = p.run({"gate": {"query": question}})["retriever"]["documents"]
        assert len(found) == 2 and "herring" in found[0].content and found[0].score >= found[1].score
        closed = p.run({"gate": {"query": "How do I bake rye bread?"}})
        assert closed["gate"]["closed"] and "retriever" not in closed


def test_secret_stays_out_of_the_description() -> None:
    os.environ["SLUICE_API_KEY"] = "secret"
    try:
        assert "secret" not in pipeline().dumps()
    finally:
        del os.environ["SLUICE_API_KEY"]
