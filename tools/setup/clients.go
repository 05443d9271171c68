package setup

import (
	"context"
	"os/exec"
	"path/filepath"

	"github.com/sluice-rag/sluice/internal/filehash"
)

// clientsDir has the pins of the official clients of the APIs that `sluice serve` speaks, for its tests: Python's in an
// environment of wheels that pip checks against their digests, with the frameworks that clients/python has packages
// for, and JavaScript's, which npm checks against the lock file. They lie in the cache, below clients.
var clientsDir = filepath.Join("internal", "e2e", "testdata", "clients")

func clientPython() recipe {
	return pinnedPython("python-clients", filepath.Join(clientsDir, "requirements.txt"),
		"clients: Python's (about 100 MB)")
}

// clientNode returns the folder node_modules of the JavaScript clients.
func clientNode() recipe {
	pins := []string{"package.json", "package-lock.json"}
	return recipe{
		name: "node-clients", version: 1,
		inputs: func(ctx context.Context, e *Env) (in []string, err error) {
			for _, name := range pins {
				sum, err := filehash.Sum(ctx, filepath.Join(e.Repo, clientsDir, name))
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
				if err := copyInto(j.out, filepath.Join(e.Repo, clientsDir, name)); err != nil {
					return err
				}
			}
			return e.run(ctx, j, j.out, nil, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
		},
	}
}

// clientRecipes leaves the JavaScript clients out without npm; their tests are then skipped.
func clientRecipes() []recipe {
	if _, err := exec.LookPath("npm"); err != nil {
		return []recipe{clientPython()}
	}
	return []recipe{clientPython(), clientNode()}
}

// assembleClients writes a program that starts Python with its clients, and a link to node's.
func assembleClients(ctx context.Context, e *Env, outputs, places []string) error {
	err := e.launchPython(ctx, "clients", outputs[0], places[0], "openai, mcp")
	if err != nil || len(outputs) == 1 {
		return err
	}
	return relink(filepath.Join(outputs[1], "node_modules"), places[1])
}
