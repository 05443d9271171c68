"""Writes the graphs that the encoder peers run: a BERT encoder in standard operators, opset 18, over its model.safetensors.

usage: export.py MODEL OUT POOLING NORMALISE MAX_TOKENS     (folder, folder, mean|cls, true|false, 256)

  raw.onnx    input_ids, attention_mask -> sentence_embedding; ONNX Runtime fuses what it knows when it loads it
  fused.onnx  the same after onnxruntime.transformers' optimiser: Attention, SkipLayerNormalization, BiasGelu
  int8.onnx   fused.onnx with dynamic int8 products, weights quantised by channel
  model.onnx  input_ids, attention_mask, token_type_ids -> last_hidden_state, beside the files that fastembed and hugot
              want: tokenizer.json that cuts at MAX_TOKENS and does not pad, config.json and the like
"""
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper


def load(path):
    """All float tensors of a safetensors file as float32."""
    with open(path, "rb") as f:
        raw = f.read()
    n = int.from_bytes(raw[:8], "little")
    out = {}
    for name, t in json.loads(raw[8 : 8 + n]).items():
        if name == "__metadata__" or t["dtype"] not in ("F32", "F16", "BF16"):
            continue
        data = raw[8 + n + t["data_offsets"][0] : 8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            a = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            a = np.frombuffer(data, "<f4" if t["dtype"] == "F32" else "<f2").astype(np.float32)
        out[name.removeprefix("bert.")] = a.reshape(t["shape"])
    return out


class Graph:
    """Nodes and initialisers, in the forms that ONNX Runtime's fusions look for."""

    def __init__(self, config, weights):
        self.c, self.w, self.nodes, self.inits = config, weights, [], {}
        heads, dim = config["num_attention_heads"], config["hidden_size"]
        for name, value in {"sqrt2": np.sqrt(2), "one": 1, "half": 0.5, "sqrtd": np.sqrt(dim // heads),
                            "lowest": np.finfo(np.float32).min, "tiny": 1e-9, "eps": 1e-12}.items():
            self.init(name, np.float32(value))
        for name, value in {"ax1": [1], "ax2": [2], "zero": [0], "heads": [0, 0, heads, dim // heads],
                            "joined": [0, 0, dim]}.items():
            self.init(name, np.array(value, np.int64))
        self.init("second", np.int64(1))
        self.init("first", np.int64(0))

    def init(self, name, value):
        self.inits[name] = numpy_helper.from_array(np.array(value, order="C", copy=True), name)
        return name

    def node(self, op, inputs, out=None, **attributes):
        out = out or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name="n_" + out, **attributes))
        return out

    def linear(self, x, name):
        """y = x W^T + b, as PyTorch's Linear."""
        w, b = self.init(name + ".w", self.w[name + ".weight"].T), self.init(name + ".b", self.w[name + ".bias"])
        return self.node("Add", [self.node("MatMul", [x, w]), b])

    def norm(self, x, name):
        g, b = self.init(name + ".g", self.w[name + ".weight"]), self.init(name + ".beta", self.w[name + ".bias"])
        return self.node("LayerNormalization", [x, g, b], axis=-1, epsilon=self.c.get("layer_norm_eps", 1e-12))

    def gelu(self, x):
        e = self.node("Erf", [self.node("Div", [x, "sqrt2"])])
        return self.node("Mul", [self.node("Mul", [x, self.node("Add", [e, "one"])]), "half"])

    def split(self, x, perm):
        return self.node("Transpose", [self.node("Reshape", [x, "heads"])], perm=perm)

    def layer(self, x, mask, i):
        p = f"encoder.layer.{i}."
        q, v = (self.split(self.linear(x, p + "attention.self." + n), [0, 2, 1, 3]) for n in ("query", "value"))
        k = self.split(self.linear(x, p + "attention.self.key"), [0, 2, 3, 1])
        s = self.node("Add", [self.node("Div", [self.node("MatMul", [q, k]), "sqrtd"]), mask])
        a = self.node("MatMul", [self.node("Softmax", [s], axis=-1), v])
        a = self.node("Reshape", [self.node("Transpose", [a], perm=[0, 2, 1, 3]), "joined"])
        a = self.linear(a, p + "attention.output.dense")
        x = self.norm(self.node("Add", [a, x]), p + "attention.output.LayerNorm")
        f = self.linear(self.gelu(self.linear(x, p + "intermediate.dense")), p + "output.dense")
        return self.norm(self.node("Add", [f, x]), p + "output.LayerNorm")

    def hidden(self, types):
        """The tokens' last states; types: token_type_ids are an input, else type 0 is added to the positions."""
        position, kinds = (self.w[f"embeddings.{n}_embeddings.weight"] for n in ("position", "token_type"))
        word = self.init("word", self.w["embeddings.word_embeddings.weight"])
        self.init("position", position if types else position + kinds[0])
        x = self.node("Gather", [word, "input_ids"])
        if types:
            x = self.node("Add", [x, self.node("Gather", [self.init("kinds", kinds), "token_type_ids"])])
        length = self.node("Unsqueeze", [self.node("Gather", [self.node("Shape", ["input_ids"]), "second"]), "zero"])
        x = self.node("Add", [x, self.node("Slice", ["position", "zero", length, "zero"])])
        x = self.norm(x, "embeddings.LayerNorm")
        m = self.node("Unsqueeze", [self.node("Unsqueeze", ["attention_mask", "ax1"]), "ax2"])
        mask = self.node("Mul", [self.node("Sub", ["one", self.node("Cast", [m], to=T.FLOAT)]), "lowest"])
        for i in range(self.c["num_hidden_layers"]):
            x = self.layer(x, mask, i)
        return x

    def pool(self, x, pooling, normalise):
        """No Max and no ReduceL2: the optimiser's shape inference does not know them, and would not fuse."""
        if pooling == "mean":
            m = self.node("Cast", [self.node("Unsqueeze", ["attention_mask", "ax2"])], to=T.FLOAT)
            n = self.node("Clip", [self.node("ReduceSum", [m, "ax1"], keepdims=0), "tiny"])
            x = self.node("Div", [self.node("ReduceSum", [self.node("Mul", [x, m]), "ax1"], keepdims=0), n])
        else:
            x = self.node("Gather", [x, "first"], axis=1)
        if not normalise:
            return self.node("Identity", [x], "sentence_embedding")
        square = self.node("ReduceSum", [self.node("Mul", [x, x]), "ax1"], keepdims=1)
        return self.node("Div", [x, self.node("Clip", [self.node("Sqrt", [square]), "eps"])], "sentence_embedding")

    def save(self, path, inputs, output, shape):
        used = {i for n in self.nodes for i in n.input}
        ints = [helper.make_tensor_value_info(i, T.INT64, ["batch", "sequence"]) for i in inputs]
        outs = [helper.make_tensor_value_info(output, T.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, "encoder", ints, outs, [v for k, v in self.inits.items() if k in used])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], producer_name="pytorch")
        model.ir_version = 9
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def fuse(config, raw, out):
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    done = optimizer.optimize_model(raw, model_type="bert", num_heads=config["num_attention_heads"],
                                    hidden_size=config["hidden_size"], opt_level=0,
                                    optimization_options=FusionOptions("bert"))
    done.save_model_to_file(out)


def quantise(fused, out):
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(fused, out, per_channel=True, reduce_range=False, weight_type=QuantType.QInt8,
                     extra_options={"DefaultTensorType": T.FLOAT})


def settings(model, out, config, max_tokens):
    """The files beside model.onnx."""
    tokenizer = json.load(open(model + "/tokenizer.json"))
    tokenizer["padding"] = None
    tokenizer["truncation"] = {"direction": "Right", "max_length": max_tokens, "strategy": "LongestFirst", "stride": 0}
    special = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]",
               "mask_token": "[MASK]"}
    files = {"tokenizer.json": tokenizer, "config.json": config, "special_tokens_map.json": special,
             "tokenizer_config.json": special | {"model_max_length": max_tokens, "tokenizer_class": "BertTokenizer"}}
    for name, value in files.items():
        json.dump(value, open(os.path.join(out, name), "w"))


def main(model, out, pooling, normalise, max_tokens):
    config = json.load(open(model + "/config.json"))
    if config["model_type"] != "bert" or config.get("hidden_act", "gelu") != "gelu":
        raise SystemExit(f"export.py: {model}: model_type {config['model_type']}: only bert with gelu is exported")
    weights = load(model + "/model.safetensors")
    dim, path = config["hidden_size"], lambda name: os.path.join(out, name)
    raw = Graph(config, weights)
    raw.pool(raw.hidden(False), pooling, normalise == "true")
    raw.save(path("raw.onnx"), ["input_ids", "attention_mask"], "sentence_embedding", ["batch", dim])
    fuse(config, path("raw.onnx"), path("fused.onnx"))
    quantise(path("fused.onnx"), path("int8.onnx"))
    plain = Graph(config, weights)
    plain.node("Identity", [plain.hidden(True)], "last_hidden_state")
    plain.save(path("model.onnx"), ["input_ids", "attention_mask", "token_type_ids"], "last_hidden_state",
               ["batch", "sequence", dim])
    settings(model, out, config, int(max_tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])
