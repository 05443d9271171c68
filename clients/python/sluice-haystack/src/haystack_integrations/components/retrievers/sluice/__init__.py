"""Haystack's components of a Sluice server."""

from __future__ import annotations

from typing import Any, Optional

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret, deserialize_secrets_inplace
from sluice_client import Client, Decision

__all__ = ["SluiceGate", "SluiceRetriever"]


def _key() -> Secret:
    return Secret.from_env_var("SLUICE_API_KEY", strict=False)


class _Connected:
    base_url: str
    api_key: Secret
    store: Optional[str]

    def _connect(self) -> Client:
        return Client(self.base_url, self.api_key.resolve_value() or "", store=self.store)


@component
class SluiceRetriever(_Connected):
    """Finds passages in a knowledge base of a Sluice server; none where the gate is closed if gated."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        api_key: Optional[Secret] = None,
        store: Optional[str] = None,
        top_k: int = 4,
        gated: bool = False,
    ) -> None:
        self.base_url, self.api_key, self.store = base_url, api_key or _key(), store
        self.top_k, self.gated = top_k, gated
        self._sluice = self._connect()

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(
            self,
            base_url=self.base_url,
            api_key=self.api_key.to_dict(),
            store=self.store,
            top_k=self.top_k,
            gated=self.gated,
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SluiceRetriever:
        deserialize_secrets_inplace(data["init_parameters"], ["api_key"])
        return default_from_dict(cls, data)

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: Optional[int] = None, where: Optional[list[str]] = None) -> dict[str, Any]:
        found = self._sluice.retrieve(
            query, k=top_k or self.top_k, gate="auto" if self.gated else "open", where=where or []
        )
        documents = [
            Document(
                id=p.id,
                content=p.text,
                score=p.score,
                meta={"source": p.source, "document": p.document, "title": p.title, "heading": p.heading},
            )
            for p in found
        ]
        return {"documents": documents}


@component
class SluiceGate(_Connected):
    """Sends a question on as open or closed: whether a knowledge base can help with it, without a language model."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        api_key: Optional[Secret] = None,
        store: Optional[str] = None,
    ) -> None:
        self.base_url, self.api_key, self.store = base_url, api_key or _key(), store
        self._sluice = self._connect()

    def to_dict(self) -> dict[str, Any]:
        return default_to_dict(self, base_url=self.base_url, api_key=self.api_key.to_dict(), store=self.store)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SluiceGate:
        deserialize_secrets_inplace(data["init_parameters"], ["api_key"])
        return default_from_dict(cls, data)

    @component.output_types(open=str, closed=str, decision=Decision)
    def run(self, query: str) -> dict[str, Any]:
        decision = self._sluice.gate(query)
        return {"open" if decision.retrieve else "closed": query, "decision": decision}
