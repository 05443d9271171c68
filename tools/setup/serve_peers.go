package setup

import (
	"context"
	"fmt"
	"path/filepath"
)

// The peer of `sluice bench serve`: a Python environment, which the binary finds in the cache, below bench/peers.

func servePython() recipe {
	return pythonPeers("python-serve-peers", "serve-requirements.txt", "100 MB, 350 MB unpacked")
}

func (e *Env) servePeerFile() string { return e.Cache.Path("bench", "peers", "serve-python3") }

func servePeersKey(ctx context.Context, e *Env) (string, error) {
	key, err := keyOf(servePython())(ctx, e)
	return fmt.Sprintf("%s in %s, there: %t", key, e.Cache.Root(), exists(e.servePeerFile())), err
}

func assembleServePeers(ctx context.Context, e *Env) error {
	out, err := outputsOf(servePython())(ctx, e)
	if err != nil {
		return err
	}
	real := filepath.Join(out[0], "bin", "python3")
	if err := e.run(ctx, job{name: "python-serve-peers"}, e.Repo, nil, real, "-c",
		"import fastapi, uvicorn, uvloop, httptools, orjson, faiss, onnxruntime.transformers.optimizer, "+
			"tokenizers"); err != nil {
		return fmt.Errorf("%w: serve-peers: %w", ErrPart, err)
	}
	return launcher(e.servePeerFile(), real)
}

func servePeersPart() part {
	return part{
		name: "serve-peers", doc: "the peer of `sluice bench serve`: $SLUICE_CACHE/bench/peers",
		key: servePeersKey, assemble: assembleServePeers,
	}
}
