package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// The peers of `sluice bench compute`: a Python environment and a Go program. The binary finds them in the cache, below
// bench/peers, wherever it was built.

func (e *Env) peersDir(elem ...string) string {
	return filepath.Join(append([]string{e.Repo, "bench", "peers"}, elem...)...)
}

// pythonPeers installs an environment of wheels: pip checks every one against its digest in a file of bench/peers.
func pythonPeers(name, requirements, sizes string) recipe {
	return pinnedPython(name, filepath.Join("bench", "peers", requirements),
		"peers: making a Python environment of pinned wheels (about "+sizes+")")
}

// pinnedPython installs an environment of wheels: pip checks every one against its digest in a file of the repository.
func pinnedPython(name, requirements, says string) recipe {
	return recipe{
		name: name, version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			_, _, id, err := e.python(ctx)
			if err != nil {
				return nil, err
			}
			pins, err := filehash.Sum(ctx, filepath.Join(e.Repo, requirements))
			return []string{id, pins}, err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("%s", says)
			path, _, _, err := e.python(ctx)
			if err != nil {
				return err
			}
			if err := e.run(ctx, j, j.work, nil, path, "-m", "venv", j.out); err != nil {
				return err
			}
			return e.pip(ctx, j, filepath.Join(j.out, "bin", "python3"), "--require-hashes", "--only-binary=:all:",
				"-r", filepath.Join(e.Repo, requirements))
		},
	}
}

// goInputs returns the inputs of a Go program of bench/peers.
func goInputs(ctx context.Context, e *Env, folder string) ([]string, error) {
	version, err := e.query(ctx, "go", "version")
	if err != nil {
		return nil, err
	}
	digests, err := sourceDigests(e.peersDir(folder), ".go", ".mod", ".sum")
	return append(digests, version), err
}

func peersPython() recipe {
	return pythonPeers("python-peers", "requirements.txt", "600 MB, 1.6 GB unpacked")
}

// peersGo builds the program of bench/peers/go, a separate module.
func peersGo() recipe {
	return recipe{
		name: "go-peers", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) { return goInputs(ctx, e, "go") },
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("peers: compiling the Go libraries")
			return e.run(ctx, j, e.peersDir("go"), []string{"GOFLAGS=-mod=readonly", "GOWORK=off"}, "go", "build", "-o",
				filepath.Join(j.out, "gopeers"), ".")
		},
	}
}

func assemblePeers(ctx context.Context, e *Env, outputs, places []string) error {
	if err := e.launchPython(ctx, "peers", outputs[0], places[0],
		"numpy, sklearn, jax, faiss, usearch, numkong, simsimd"); err != nil {
		return err
	}
	return copyFile(filepath.Join(outputs[1], "gopeers"), places[1])
}

// The peers of `sluice bench embed`: a Python environment, a Go program over the product's own ONNX Runtime and
// tokenizers, and the float64 reference of the tests.

func embedPython() recipe {
	return pythonPeers("python-embed-peers", "embed-requirements.txt", "150 MB, 500 MB unpacked")
}

// hugot builds the program of bench/peers/hugot, a separate module.
func hugot() recipe {
	return recipe{
		name: "hugot", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			tokens, err := tokenizers().key(ctx, e)
			if err != nil {
				return nil, err
			}
			in, err := goInputs(ctx, e, "hugot")
			return append(in, tokens), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			tokens, err := e.output(ctx, tokenizers())
			if err != nil {
				return err
			}
			e.console.printf("peers: compiling hugot")
			return e.run(ctx, j, e.peersDir("hugot"), []string{"GOFLAGS=-mod=readonly", "GOWORK=off", "CGO_ENABLED=1",
				"CGO_LDFLAGS=-L" + filepath.Join(tokens, "lib")}, "go", "build", "-tags", "ORT", "-o",
				filepath.Join(j.out, "hugot"), ".")
		},
	}
}

// reference copies the program of the tests.
func reference() recipe {
	from := filepath.Join("embed", "testdata", "reference.py")
	return recipe{
		name: "embed-reference", version: 1,
		inputs: func(_ context.Context, e *Env) ([]string, error) {
			digests, err := sourceDigests(filepath.Join(e.Repo, filepath.Dir(from)), ".py")
			return digests, err
		},
		build: func(_ context.Context, e *Env, j job) error { return copyInto(j.out, filepath.Join(e.Repo, from)) },
	}
}

func assembleEmbedPeers(ctx context.Context, e *Env, outputs, places []string) error {
	if err := e.launchPython(ctx, "embed-peers", outputs[0], places[0],
		"onnx, onnxruntime.transformers.optimizer, openvino, fastembed, tokenizers"); err != nil {
		return err
	}
	if err := launcher(places[1], filepath.Join(outputs[2], "hugot"), filepath.Join(outputs[1], "lib")); err != nil {
		return err
	}
	return copyFile(filepath.Join(outputs[3], "reference.py"), places[2])
}

// servePython is the peer of `sluice bench serve`.
func servePython() recipe {
	return pythonPeers("python-serve-peers", "serve-requirements.txt", "100 MB, 350 MB unpacked")
}

func assembleServePeers(ctx context.Context, e *Env, outputs, places []string) error {
	return e.launchPython(ctx, "serve-peers", outputs[0], places[0],
		"fastapi, uvicorn, uvloop, httptools, orjson, faiss, onnxruntime.transformers.optimizer, tokenizers")
}

// packages is a part of wheels, checked against their digests by pip, whose folder the cache has a link to.
func packages(name, doc, says, requirements string) part {
	return placed(name, doc+": $SLUICE_CACHE/"+name, []string{name},
		func(_ context.Context, _ *Env, outputs, places []string) error {
			found, err := filepath.Glob(filepath.Join(outputs[0], "lib", "python3*", "site-packages"))
			if err != nil || len(found) != 1 {
				return fmt.Errorf("%w: %s: %d folders of packages: %w", ErrPart, name, len(found), err)
			}
			return relink(found[0], places[0])
		}, pinnedPython("python-"+name, requirements, name+": "+says))
}

// launchPython writes a launcher of an environment's Python, which must be able to import modules.
func (e *Env) launchPython(ctx context.Context, part, env, path, modules string) error {
	python := filepath.Join(env, "bin", "python3")
	if err := e.run(ctx, job{name: part}, e.Repo, nil, python, "-c", "import "+modules); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrPart, part, err)
	}
	return launcher(path, python)
}

// launcher writes a program that starts a command with the arguments that it gets.
func launcher(path string, command ...string) error {
	text := "#!/bin/sh\nexec"
	for _, c := range command {
		text += " '" + strings.ReplaceAll(c, "'", `'\''`) + "'"
	}
	if err := WriteFile(path, strings.NewReader(text+" \"$@\"\n"), 0o755); err != nil {
		return err
	}
	return os.Chmod(path, 0o755) // an older launcher keeps its mode
}
