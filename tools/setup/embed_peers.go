package setup

import (
	"context"
	"fmt"
	"path/filepath"
)

// The peers of `sluice bench embed`: a Python environment, a Go program over the product's own ONNX Runtime and
// tokenizers, and the float64 reference of the tests. The binary finds them in the cache, below bench/peers.

func embedPython() recipe {
	return pythonPeers("python-embed-peers", "embed-requirements.txt", "150 MB, 500 MB unpacked")
}

// hugot builds the program of bench/peers/hugot, a separate module.
func hugot(tokenizersKey, tokenizersOut string) recipe {
	return recipe{
		name: "hugot", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			version, err := e.query(ctx, "go", "version")
			if err != nil {
				return nil, err
			}
			_, digests, err := sourceDigests(e.peersDir("hugot"), ".go", ".mod", ".sum")
			return append(digests, version, tokenizersKey), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("peers: compiling hugot")
			return e.run(ctx, j, e.peersDir("hugot"), []string{"GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=1",
				"CGO_LDFLAGS=-L" + filepath.Join(tokenizersOut, "lib")}, "go", "build", "-tags", "ORT", "-o",
				filepath.Join(j.out, "hugot"), ".")
		},
	}
}

func (e *Env) embedPeerFiles() (python, hugot, reference string) {
	at := func(name string) string { return e.Cache.Path("bench", "peers", name) }
	return at("embed-python3"), at("hugot"), at("reference.py")
}

func (e *Env) referenceSource() string {
	return filepath.Join(e.Repo, "embed", "testdata", "reference.py")
}

func embedPeersKey(ctx context.Context, e *Env) (string, error) {
	tokens, err := tokenizers().key(ctx, e)
	if err != nil {
		return "", err
	}
	keys, err := keyOf(embedPython(), onnxruntime(), hugot(tokens, ""))(ctx, e)
	if err != nil {
		return "", err
	}
	_, reference, err := sourceDigests(filepath.Dir(e.referenceSource()), ".py")
	python, program, copied := e.embedPeerFiles()
	return fmt.Sprintf("%s %s in %s, there: %t %t %t", keys, reference, e.Cache.Root(), exists(python), exists(program),
		exists(copied)), err
}

func assembleEmbedPeers(ctx context.Context, e *Env) error {
	tokens, err := tokenizers().key(ctx, e)
	if err != nil {
		return err
	}
	out, err := outputsOf(embedPython(), onnxruntime(), tokenizers())(ctx, e)
	if err != nil {
		return err
	}
	compiled, err := e.output(ctx, hugot(tokens, out[2]))
	if err != nil {
		return err
	}
	real := filepath.Join(out[0], "bin", "python3")
	if err := e.run(ctx, job{name: "python-embed-peers"}, e.Repo, nil, real, "-c",
		"import onnx, onnxruntime.transformers.optimizer, openvino, fastembed, tokenizers"); err != nil {
		return fmt.Errorf("%w: embed-peers: %w", ErrPart, err)
	}
	python, program, reference := e.embedPeerFiles()
	if err := launcher(python, real); err != nil {
		return err
	}
	if err := launcher(program, filepath.Join(compiled, "hugot"), filepath.Join(out[1], "lib")); err != nil {
		return err
	}
	return copyFile(e.referenceSource(), reference)
}

func embedPeersPart() part {
	return part{
		name: "embed-peers", doc: "peers of `sluice bench embed`: $SLUICE_CACHE/bench/peers",
		key: embedPeersKey, assemble: assembleEmbedPeers,
	}
}
