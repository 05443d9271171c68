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
			path, _, err := e.python(ctx)
			if err != nil {
				return nil, err
			}
			id, err := e.query(ctx, path, "-c", "import sys; print(*sys.version_info[:2], sys.base_prefix)")
			if err != nil {
				return nil, err
			}
			pins, err := filehash.Sum(ctx, filepath.Join(e.Repo, requirements))
			return []string{id, pins}, err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("%s", says)
			path, _, err := e.python(ctx)
			if err != nil {
				return err
			}
			if err := e.run(ctx, j, j.work, nil, path, "-m", "venv", j.out); err != nil {
				return err
			}
			return e.run(ctx, j, j.work, []string{"PIP_FIND_LINKS=", "PIP_REQUIRE_VIRTUALENV=0"},
				filepath.Join(j.out, "bin", "python3"), "-m", "pip", "install", "--quiet", "--require-hashes",
				"--no-deps", "--only-binary=:all:", "--disable-pip-version-check",
				"--no-warn-script-location", "-r", filepath.Join(e.Repo, requirements))
		},
	}
}

func peersPython() recipe {
	return pythonPeers("python-peers", "requirements.txt", "600 MB, 1.6 GB unpacked")
}

// peersGo builds the program of bench/peers/go, a separate module.
func peersGo() recipe {
	return recipe{
		name: "go-peers", version: 1,
		inputs: func(ctx context.Context, e *Env) ([]string, error) {
			version, err := e.query(ctx, "go", "version")
			if err != nil {
				return nil, err
			}
			_, digests, err := sourceDigests(e.peersDir("go"), ".go", ".mod", ".sum")
			return append(digests, version), err
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("peers: compiling the Go libraries")
			return e.run(ctx, j, e.peersDir("go"), []string{"GOFLAGS=-mod=readonly", "GOWORK=off"}, "go", "build", "-o",
				filepath.Join(j.out, "gopeers"), ".")
		},
	}
}

func (e *Env) peerPrograms() (python, goProgram string) {
	return e.Cache.Path("bench", "peers", "python3"), e.Cache.Path("bench", "peers", "gopeers")
}

func peersKey(ctx context.Context, e *Env) (string, error) {
	keys, err := keyOf(peersPython(), peersGo())(ctx, e)
	if err != nil {
		return "", err
	}
	python, goProgram := e.peerPrograms()
	return fmt.Sprintf("%s in %s, there: %t %t", keys, e.Cache.Root(), exists(python), exists(goProgram)), nil
}

func assemblePeers(ctx context.Context, e *Env) error {
	out, err := outputsOf(peersPython(), peersGo())(ctx, e)
	if err != nil {
		return err
	}
	real := filepath.Join(out[0], "bin", "python3")
	if err := e.run(ctx, job{name: "python-peers"}, e.Repo, nil, real, "-c",
		"import numpy, sklearn, jax, faiss, usearch, numkong, simsimd"); err != nil {
		return fmt.Errorf("%w: peers: %w", ErrPart, err)
	}
	python, goProgram := e.peerPrograms()
	if err := launcher(python, real); err != nil {
		return err
	}
	return copyFile(filepath.Join(out[1], "gopeers"), goProgram)
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

func peersPart() part {
	return part{
		name: "peers", doc: "peers of `sluice bench compute`: $SLUICE_CACHE/bench/peers",
		key: peersKey, assemble: assemblePeers,
	}
}
