package serve

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/bench/peers"
)

//go:embed peer/service.py
var service embed.FS

// graphs returns the folder of the model's graphs in standard operators, which the peer runs.
func (s *session) graphs(ctx context.Context) (string, error) {
	return s.once("export-"+s.digest(), func(dir string) error {
		scripts, err := peers.Unpack(s.temp)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		s.log("writing the graphs that %s runs", FastAPI)
		i := s.encoder.Info()
		c := exec.CommandContext(ctx, s.o.Python, filepath.Join(scripts, "export.py"), i.Dir, dir, "mean", "true",
			fmt.Sprint(i.MaxTokens))
		c.Env = peers.Environment(s.o.Threads)
		if said, err := c.CombinedOutput(); err != nil {
			lines := bytes.Split(bytes.TrimSpace(said), []byte("\n"))
			return fmt.Errorf("%w: export.py: %w: %s", ErrPeer, err, lines[len(lines)-1])
		}
		return nil
	})
}

// fastAPI starts the peer over contexts (a file; "": no contexts) with their vectors (a file, which it creates if it
// does not exist). It returns nil if the peer was not chosen, or is missing, which is noted.
func (s *session) fastAPI(ctx context.Context, contexts, vectors string, cutoff float64) (*process, error) {
	if !slices.Contains(s.o.Peers, FastAPI) {
		return nil, nil
	}
	p, err := s.startFastAPI(ctx, contexts, vectors, cutoff)
	if err != nil && ctx.Err() == nil {
		s.note("%s is left out: %v (`make bench-serve` sets it up)", FastAPI, err)
		return nil, nil
	}
	return p, err
}

func (s *session) startFastAPI(ctx context.Context, contexts, vectors string, cutoff float64) (*process, error) {
	if _, err := exec.LookPath(s.o.Python); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPeer, err)
	}
	if s.encoder.Info().Name != "all-MiniLM-L6-v2" {
		return nil, fmt.Errorf("%w: its graph is written for all-MiniLM-L6-v2's pooling only", ErrPeer)
	}
	export, err := s.graphs(ctx)
	if err != nil {
		return nil, err
	}
	text, err := service.ReadFile("peer/service.py")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(s.temp, "service.py")
	if err := os.WriteFile(program, text, 0o644); err != nil {
		return nil, err
	}
	settings := filepath.Join(s.temp, "settings.json")
	return launchOther(ctx, FastAPI, "/healthz", peers.Environment(1), func(port int) []string {
		raw, _ := json.Marshal(map[string]any{"graph": filepath.Join(export, "fused.onnx"),
			"tokenizer":  filepath.Join(s.encoder.Info().Dir, "tokenizer.json"),
			"max_tokens": s.encoder.Info().MaxTokens,
			"contexts":   contexts, "vectors": vectors, "cutoff": cutoff, "port": port, "workers": s.o.Threads,
			"tokens": 2048})
		_ = os.WriteFile(settings, raw, 0o644) // the program reports it if the file is missing
		return []string{s.o.Python, program, settings}
	})
}

// llamaServer starts llama-server with the given numbers of slots and cells. It returns nil if the peer was not
// chosen, or is missing, which is noted.
func (s *session) llamaServer(ctx context.Context, slots, cells int) (*process, error) {
	if !slices.Contains(s.o.Peers, Llama) {
		return nil, nil
	}
	path, err := exec.LookPath(filepath.Join(s.o.Tools, Llama))
	if err == nil {
		n := fmt.Sprint
		var p *process
		p, err = launchOther(ctx, Llama, "/health", os.Environ(), func(port int) []string {
			// A cache per slot is faster than a common one if slots share no prefixes, as here.
			return []string{path, "-m", s.o.Model, "--host", "127.0.0.1", "--port", n(port), "-np", n(slots), "-c",
				n(slots * cells), "--no-kv-unified", "-b", "512", "-ub", "512", "-t", n(s.o.Threads), "-tb",
				n(s.o.Threads),
				"--cont-batching", "--cache-prompt", "--jinja", "--no-ui", "--no-slots", "--offline", "-lv", "1"}
		})
		if err == nil {
			return p, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.note("%s is left out: %v (`make bench-serve` sets it up)", Llama, err)
	return nil, nil
}

// ask sends one request and reads its JSON answer.
func ask(ctx context.Context, url, body string, into any) error {
	return send(ctx, http.DefaultClient, asking{url: url, body: []byte(body), read: reading(into)})
}

// quoted returns a text as a JSON string.
func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // writing to a string builder cannot fail
	return strings.TrimSpace(b.String())
}
