"""LangChain's interfaces to a Sluice server."""

from __future__ import annotations

from typing import Any, Optional

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig, RunnableSerializable
from pydantic import Field, PrivateAttr, SecretStr
from sluice_client import Client, Decision, Passage

__all__ = ["SluiceGate", "SluiceRetriever"]


def _client(base_url: str, api_key: Optional[SecretStr], store: Optional[str]) -> Client:
    return Client(base_url, api_key.get_secret_value() if api_key else None, store=store)


def _document(p: Passage) -> Document:
    metadata = {
        "source": p.source,
        "document": p.document,
        "score": p.score,
        "start": p.start,
        "end": p.end,
        **{name: value for name in ("title", "heading", "anchor", "topic") if (value := getattr(p, name))},
    }
    return Document(id=p.id, page_content=p.text, metadata=metadata)


class SluiceRetriever(BaseRetriever):
    """Finds passages in a knowledge base of a Sluice server.

    Example:
        .. code-block:: python

            SluiceRetriever(base_url="http://127.0.0.1:8080", k=4).invoke("When does the gate open?")
    """

    base_url: str = "http://127.0.0.1:8080"
    api_key: Optional[SecretStr] = None
    store: Optional[str] = None
    k: int = 4
    gated: bool = False
    """Return nothing where the gate is closed."""
    where: list[str] = Field(default_factory=list)
    options: dict[str, Any] = Field(default_factory=dict)
    """Further fields of POST /v1/retrieve, such as mode, mmr or expand."""

    _sluice: Client = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._sluice = _client(self.base_url, self.api_key, self.store)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: Optional[int] = None, **options: Any
    ) -> list[Document]:
        found = self._sluice.retrieve(
            query,
            k=self.k if k is None else k,
            gate="auto" if self.gated else "open",
            where=self.where,
            **{**self.options, **options},
        )
        return [_document(p) for p in found]


class SluiceGate(RunnableSerializable[str, Decision]):
    """Decides, without a language model, whether a knowledge base can help with a question."""

    base_url: str = "http://127.0.0.1:8080"
    api_key: Optional[SecretStr] = None
    store: Optional[str] = None

    _sluice: Client = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._sluice = _client(self.base_url, self.api_key, self.store)

    def invoke(self, input: str, config: Optional[RunnableConfig] = None, **kwargs: Any) -> Decision:
        return self._call_with_config(self._sluice.gate, input, config)
