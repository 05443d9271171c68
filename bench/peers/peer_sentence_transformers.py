"""sentence-transformers with PyTorch. It is not in the pinned environment: torch's wheels for Linux bring 3 GB of CUDA.
`sluice bench embed --python` names an interpreter that has it."""
import torch
from common import THREADS
from common import versions as packages
from encoders import BATCH, competitors
from sentence_transformers import SentenceTransformer


def versions():
    return packages("sentence-transformers", "torch", "transformers")


def embed(params):
    if params["pooling"] != "mean":
        raise ValueError("of a folder without modules.json it pools by the mean only")
    torch.set_num_threads(THREADS)
    model = SentenceTransformer(params["model"], device="cpu")
    model.max_seq_length = params["max_tokens"]

    def work(texts):  # it sorts by length itself
        with torch.inference_mode():
            return model.encode(texts, batch_size=BATCH, show_progress_bar=False, normalize_embeddings=params["normalise"])

    return competitors(params, "sentence-transformers", lambda single: {"": work})
