"""Python onnxruntime over the same weights: the graph as it is and fused by onnxruntime.transformers, float32 and dynamic
int8."""
import onnxruntime
from common import THREADS
from common import versions as packages
from encoders import by_length, competitors, threads, tokenizer


def versions():
    return packages("onnxruntime", "tokenizers", "onnx", "numpy")


def session(path, intra):
    o = onnxruntime.SessionOptions()
    o.intra_op_num_threads, o.inter_op_num_threads, o.log_severity_level = intra, 1, 4
    o.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def embed(params):
    tokenize, kept = tokenizer(params), {}

    def settings(graphs):
        def make(single):
            out = {}
            for graph in graphs:
                for text, (intra, runs) in threads().items():
                    if single and runs > 1:
                        text, runs = text.replace(f"{runs} x ", "1 x "), 1
                    s = kept.setdefault((graph, intra), session(f"{params['export']}/{graph}.onnx", intra))
                    run = lambda ids, mask, s=s: s.run(None, {"input_ids": ids, "attention_mask": mask})[0]
                    out[", ".join(filter(None, (graph, text)))] = by_length(tokenize, run, runs)
            return out
        return make

    return competitors(params, "onnxruntime", settings(["raw", "fused"])) + competitors(
        params, "onnxruntime dynamic int8", settings(["int8"]), "i8")
