"""OpenVINO over the same graph: float32, and the precision that it takes by itself where that is bfloat16."""
import numpy as np
import openvino
from common import THREADS
from common import versions as packages
from encoders import by_length, competitors, tokenizer


def versions():
    return packages("openvino", "tokenizers")


def embed(params):
    tokenize, core = tokenizer(params), openvino.Core()
    model = core.read_model(params["export"] + "/raw.onnx")

    def compiled(precision, hint):
        config = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": hint}
        if precision:
            config["INFERENCE_PRECISION_HINT"] = precision
        return core.compile_model(model, "CPU", config)

    def latency(m):
        request = m.create_infer_request()
        return by_length(tokenize, lambda ids, mask: request.infer({"input_ids": ids, "attention_mask": mask})[0].copy())

    def throughput(m):
        queue = openvino.AsyncInferQueue(m)
        free = [m.create_infer_request() for _ in range(len(queue))]  # one for each stream

        def run(ids, mask):
            request = free.pop()
            try:
                return request.infer({"input_ids": ids, "attention_mask": mask})[0].copy()
            finally:
                free.append(request)

        return by_length(tokenize, run, len(queue))

    def settings(precision):
        fast = compiled(precision, "LATENCY")

        def make(single):
            out = {"latency": latency(fast)}
            if not single and THREADS > 1:
                out["throughput"] = throughput(compiled(precision, "THROUGHPUT"))
            return out
        return fast, make

    _, f32 = settings("f32")
    out = competitors(params, "openvino", f32)
    default, own = settings(None)
    if (kind := str(default.get_property("INFERENCE_PRECISION_HINT"))).find("bfloat16") >= 0 or "bf16" in kind:
        out += competitors(params, "openvino default", own, "bf16")
    return out
