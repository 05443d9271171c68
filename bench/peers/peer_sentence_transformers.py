"""sentence-transformers with PyTorch. It is not in the pinned environment: torch's wheels for Linux bring 3 GB of CUDA.
`sluice bench embed --python` names an interpreter that has it."""
import torch
from common import THREADS
from common import versions as packages
from encoders import BATCH, competitors
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer


def versions():
    return packages("sentence-transformers", "torch", "transformers")


def embed(params):
    torch.set_num_threads(THREADS)
    parts = [Transformer(params["model"], max_seq_length=params["max_tokens"])]
    parts.append(Pooling(parts[0].get_word_embedding_dimension(), pooling_mode=params["pooling"]))
    if params["normalise"]:
        parts.append(Normalize())
    model = SentenceTransformer(modules=parts, device="cpu")

    def work(texts):  # it sorts by length itself
        with torch.inference_mode():
            return model.encode(texts, batch_size=BATCH, show_progress_bar=False)

    return competitors(params, "sentence-transformers", lambda single: {"": work})
