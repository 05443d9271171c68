package setup

import (
	"context"
	"path/filepath"
)

// productParts is how many of parts() the product needs; the rest is for tests and benches.
const productParts = 1

func parts() []part {
	return []part{llamaPart(), llamaBenchPart()}
}

func llamaPart() part {
	return part{
		name: "llama", doc: "llama.cpp and our binding over it: third_party/llama/{lib,include}",
		key: func(ctx context.Context, e *Env) (string, error) {
			libs, err := libllama().key(ctx, e)
			if err != nil {
				return "", err
			}
			return keyOf(binding(libs))(ctx, e)
		},
		recipes: func(ctx context.Context, e *Env) ([]string, error) {
			libs, err := e.output(ctx, libllama())
			if err != nil {
				return nil, err
			}
			merged, err := e.output(ctx, binding(libs))
			return []string{merged, libs}, err
		},
		files: []install{{"lib/libbinding.a", "third_party/llama/lib/"}, {"include/*.h", "third_party/llama/include/"}, {"LICENSE", "third_party/llama/lib/LICENSE.llama.cpp"}},
		after: func(_ context.Context, e *Env) error {
			return e.stamp("llm", "llama.cpp "+e.Manifest.Native.Llama.Commit, filepath.Join("llama", "lib", "libbinding.a"))
		},
	}
}

func llamaBenchPart() part {
	return part{
		name: "llama-bench", doc: "llama.cpp's own benchmark, for comparisons: build/out/llama-bench",
		key: keyOf(llamaBench()), recipes: outputsOf(llamaBench()),
		files: []install{{"llama-bench", "build/out/"}},
	}
}
