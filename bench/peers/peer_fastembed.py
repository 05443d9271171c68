"""fastembed over an export of the same weights; it pools and normalises by itself."""
import numpy as np
from common import THREADS
from common import versions as packages
from encoders import BATCH, competitors, sorted_batches
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType


def versions():
    return packages("fastembed")


def embed(params):
    pooling = PoolingType.MEAN if params["pooling"] == "mean" else PoolingType.CLS
    TextEmbedding.add_custom_model(model="sluice/export", pooling=pooling, normalization=params["normalise"],
                                   sources=ModelSource(url="file:///none"), dim=params["dim"], model_file="model.onnx")
    model = TextEmbedding("sluice/export", threads=THREADS, specific_model_path=params["export"],
                          providers=["CPUExecutionProvider"])
    work = sorted_batches(lambda texts: np.stack(list(model.embed(texts, batch_size=BATCH))))
    return competitors(params, "fastembed", lambda single: {"": work})
