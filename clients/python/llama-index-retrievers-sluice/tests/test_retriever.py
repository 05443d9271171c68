"""SLUICE_URL names a server that knows about herrings (docs/api.md)."""

import os

import pytest
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.retrievers.sluice import SluiceRetriever

url = os.environ.get("SLUICE_URL", "")
pytestmark = pytest.mark.skipif(not url, reason="SLUICE_URL names no server")
question = "Which plankton of the northern sea does the herring feed on?"


def test_class() -> None:
    assert BaseRetriever in SluiceRetriever.__mro__


async def test_retrieve() -> None:
    retriever = SluiceRetriever(url, k=2)
    found = retriever.retrieve(question)
    assert len(found) == 2 and "herring" in found[0].text and found[0].score >= found[1].score
    assert found[0].node.metadata["document"] and found[0].node.node_id
    assert [n.node.node_id for n in await retriever.aretrieve(question)] == [n.node.node_id for n in found]
    assert SluiceRetriever(url, gated=True).retrieve("How do I bake rye bread?") == []
