package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// The official clients of the APIs that `sluice serve` speaks, for its tests: Python's in an environment of wheels that
// pip checks against their digests, with the frameworks that clients/python has packages for, and JavaScript's, which
// npm checks against the lock file. They lie in the cache, below clients.

func (e *Env) clientsDir() string { return filepath.Join("internal", "e2e", "testdata", "clients") }

func clientPython(e *Env) recipe {
	return pinnedPython("python-clients", filepath.Join(e.clientsDir(), "requirements.txt"),
		"clients: Python's (about 100 MB)")
}

// clientNode returns the folder node_modules of the JavaScript clients.
func clientNode(e *Env) recipe {
	pins := []string{"package.json", "package-lock.json"}
	return recipe{
		name: "node-clients", version: 1,
		inputs: func(ctx context.Context, e *Env) (in []string, err error) {
			for _, name := range pins {
				sum, err := filehash.Sum(ctx, filepath.Join(e.Repo, e.clientsDir(), name))
				if err != nil {
					return nil, err
				}
				in = append(in, sum)
			}
			return in, nil
		},
		build: func(ctx context.Context, e *Env, j job) error {
			e.console.printf("clients: JavaScript's (about 90 MB unpacked)")
			for _, name := range pins {
				from := filepath.Join(e.Repo, e.clientsDir(), name)
				if err := copyFile(from, filepath.Join(j.out, name)); err != nil {
					return err
				}
			}
			return e.run(ctx, j, j.out, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
		},
	}
}

// clientRecipes leaves the JavaScript clients out without npm; their tests are then skipped.
func clientRecipes(e *Env) []recipe {
	if _, err := exec.LookPath("npm"); err != nil {
		return []recipe{clientPython(e)}
	}
	return []recipe{clientPython(e), clientNode(e)}
}

func (e *Env) clientFiles() (python, modules string) {
	return e.Cache.Path("clients", "python3"), e.Cache.Path("clients", "node_modules")
}

func clientsKey(ctx context.Context, e *Env) (string, error) {
	keys, err := keyOf(clientRecipes(e)...)(ctx, e)
	if err != nil {
		return "", err
	}
	python, modules := e.clientFiles()
	return fmt.Sprintf("%s in %s, there: %t %t", keys, e.Cache.Root(), exists(python), exists(modules)), nil
}

// assembleClients writes a program that starts Python with its clients, and a link to node's.
func assembleClients(ctx context.Context, e *Env) error {
	out, err := outputsOf(clientRecipes(e)...)(ctx, e)
	if err != nil {
		return err
	}
	real := filepath.Join(out[0], "bin", "python3")
	if err := e.run(ctx, job{name: "python-clients"}, e.Repo, nil, real, "-c", "import openai, mcp"); err != nil {
		return fmt.Errorf("%w: clients: %w", ErrPart, err)
	}
	python, modules := e.clientFiles()
	if err := launcher(python, real); err != nil || len(out) == 1 {
		return err
	}
	if err := os.Remove(modules); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be of other pins
		return err
	}
	return os.Symlink(filepath.Join(out[1], "node_modules"), modules)
}

func clientsPart() part {
	return part{
		name: "clients", doc: "official clients of the server's APIs, for tests: $SLUICE_CACHE/clients",
		key: clientsKey, assemble: assembleClients,
	}
}
