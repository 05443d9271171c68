"""LlamaIndex's retriever of a Sluice server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from sluice_client import Client

__all__ = ["SluiceRetriever"]


class SluiceRetriever(BaseRetriever):
    """Finds passages in a knowledge base of a Sluice server; none where the gate is closed if gated."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        api_key: Optional[str] = None,
        *,
        store: Optional[str] = None,
        k: int = 4,
        gated: bool = False,
        where: Sequence[str] = (),
        callback_manager: Optional[CallbackManager] = None,
        **options: Any,
    ) -> None:
        self._sluice = Client(base_url, api_key, store=store)
        self._fields = {"k": k, "gate": "auto" if gated else "open", "where": where, **options}
        super().__init__(callback_manager=callback_manager)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(
                node=TextNode(
                    id_=p.id,
                    text=p.text,
                    metadata={"source": p.source, "document": p.document, "title": p.title, "heading": p.heading},
                    start_char_idx=p.start,
                    end_char_idx=p.end,
                ),
                score=p.score,
            )
            for p in self._sluice.retrieve(query_bundle.query_str, **self._fields)
        ]
