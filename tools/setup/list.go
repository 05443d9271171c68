package setup

import (
	"context"
	"path/filepath"
)

// productParts is how many of parts() the product needs; the rest is for tests and benches.
const productParts = 6

func parts() []part {
	return []part{
		modulesPart(), onnxruntimePart(), tokenizersPart(), llamaPart(), cudaPart(), modelsPart(),
		pythonPart(), llamaSanitizedPart(), llamaBenchPart(), llamaServerPart(), peersPart(),
		embedPeersPart(), servePeersPart(), clientsPart(), ocrPart(), postgresPart(), flashlibPart(), nvccPart(),
		llamaCUDAPart(), onnxCUDAPart(),
	}
}

func modulesPart() part {
	return part{
		name: "modules", doc: "Go modules: the module cache",
		key: modulesKey, assemble: modules,
	}
}

func onnxruntimePart() part {
	return part{
		name: "onnxruntime", doc: "ONNX Runtime: third_party/onnxruntime/{lib,include}",
		key: keyOf(onnxruntime()), recipes: outputsOf(onnxruntime()),
		files: []install{
			{"lib/*", "third_party/onnxruntime/lib/"},
			{"include/*.h", "third_party/onnxruntime/include/"},
		},
		after: stampEmbed,
	}
}

func tokenizersPart() part {
	return part{
		name: "tokenizers", doc: "Hugging Face tokenizers: third_party/tokenizers/lib",
		lane: "rust",
		key:  keyOf(tokenizers()), recipes: outputsOf(tokenizers()),
		files: []install{{"lib/libtokenizers.a", "third_party/tokenizers/lib/"}},
		after: stampEmbed,
	}
}

// bindingKey and bindingOutputs are of our binding; the outputs of what it is built over follow its own.
func bindingKey(sanitized bool) func(context.Context, *Env) (string, error) {
	return func(ctx context.Context, e *Env) (string, error) {
		var keys []string
		for _, r := range bindingNeeds(e) {
			key, err := r.key(ctx, e)
			if err != nil {
				return "", err
			}
			keys = append(keys, key)
		}
		return keyOf(binding(e.sets(), keys[0], keys[1], keys[2:], sanitized))(ctx, e)
	}
}

func bindingOutputs(sanitized bool) func(context.Context, *Env) ([]string, error) {
	return func(ctx context.Context, e *Env) ([]string, error) {
		needs := bindingNeeds(e)
		outs, err := outputsOf(needs[0])(ctx, e) // alone: the crates' lane is still at work then, and it ends later
		if err != nil {
			return nil, err
		}
		rest, err := outputsOf(needs[1:]...)(ctx, e)
		if err != nil {
			return nil, err
		}
		outs = append(outs, rest...)
		merged, err := e.output(ctx, binding(e.sets(), outs[0], outs[1], outs[2:], sanitized))
		return append([]string{merged}, outs...), err
	}
}

// bindingNeeds are llama.cpp, the templates' engine, and ggml's CPU code for each set.
func bindingNeeds(e *Env) []recipe { return append([]recipe{libllama(), libjinja()}, e.libcpus()...) }

func llamaPart() part {
	return part{
		name: "llama", doc: "llama.cpp and our binding over it: third_party/llama/{lib,include}",
		lane: "c++",
		key:  bindingKey(false), recipes: bindingOutputs(false),
		files: []install{
			{"lib/libbinding.a", "third_party/llama/lib/"},
			{"include/*.h", "third_party/llama/include/"},
			{"LICENSE", "third_party/llama/lib/LICENSE.llama.cpp"},
			{"LICENSE-jsonhpp", "third_party/llama/lib/LICENSE.nlohmann-json"},
		},
		after: func(_ context.Context, e *Env) error {
			return e.stamp("llm", linked{filepath.Join("llama", "lib", "libbinding.a"),
				"llama.cpp " + e.Manifest.Native.Llama.Commit})
		},
	}
}

func modelsPart() part {
	return part{
		name: "models", doc: "the default encoder and generator: $SLUICE_CACHE/models",
		key: modelsKey((*Env).defaults), assemble: pullModels((*Env).defaults),
	}
}

func ocrPart() part {
	names := func(*Env) []string { return []string{"ocr"} }
	return part{
		name: "ocr", doc: "the models that read pictures of text: $SLUICE_CACHE/models",
		key: modelsKey(names), assemble: pullModels(names),
	}
}

func pythonPart() part {
	return part{
		name: "python", doc: "reference environment of tests and benches: third_party/python/bin/python3",
		key: pythonKey, assemble: assemblePython,
	}
}

func llamaSanitizedPart() part {
	return part{
		name: "llama-asan", doc: "our binding over llama.cpp under sanitizers: build/out/asan",
		lane: "c++",
		key:  bindingKey(true), recipes: bindingOutputs(true),
		files: []install{{"lib/libbinding.a", "build/out/asan/"}},
	}
}

func llamaBenchPart() part {
	return part{
		name: "llama-bench", doc: "llama.cpp's own benchmark, for comparisons: build/out/llama-bench",
		lane: "c++",
		key:  keyOf(llamaBench()), recipes: outputsOf(llamaBench()),
		files: []install{{"llama-bench", "build/out/"}},
	}
}

func llamaServerPart() part {
	return part{
		name: "llama-server", doc: "llama.cpp's own server, for comparisons: build/out/llama-server",
		lane: "c++",
		key:  keyOf(llamaServer()), recipes: outputsOf(llamaServer()),
		files: []install{{"llama-server", "build/out/"}},
	}
}
