package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
)

// words is an encoder double: a text is the bag of its words, hashed into 256 dimensions. It reads limit
// tokens: the words and two special ones.
type words struct {
	name  string
	limit int
	calls atomic.Int64
	after func(texts []string) // called after each Embed
}

func newWords() *words { return &words{name: "words", limit: 64} }

func (w *words) Embed(ctx context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	const dim = 256
	w.calls.Add(1)
	e := &embed.Embeddings{Dim: dim, Data: make([]float32, len(texts)*dim), Tokens: make([]int, len(texts))}
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if strings.ContainsRune(text, 0) {
			e.Repaired++
		}
		tokens := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r < 'a' || r > 'z' })
		if len(tokens)+2 > w.limit {
			e.Truncated++
			tokens = tokens[:w.limit-2]
		}
		e.Tokens[i] = len(tokens) + 2
		row := e.Row(i)
		for _, t := range tokens {
			h := fnv.New32a()
			h.Write([]byte(t))
			row[h.Sum32()%dim]++
		}
		var norm float64
		for _, x := range row {
			norm += float64(x * x)
		}
		for j := range row {
			if norm > 0 {
				row[j] /= float32(math.Sqrt(norm))
			}
		}
	}
	if w.after != nil {
		w.after(texts)
	}
	return e, nil
}

func (w *words) CountTokens(text string) (int, error) { return len(strings.Fields(text)) + 2, nil }

func (w *words) Info() embed.Info {
	sum := sha256.Sum256([]byte(w.name))
	digest := "sha256:" + hex.EncodeToString(sum[:])
	return embed.Info{Name: w.name, Digest: digest, TokenizerDigest: digest, Dim: 256, MaxTokens: w.limit, Architecture: "double"}
}

// parrot is a generator double: it answers everything with reply, word by word.
type parrot struct {
	reply string
	calls atomic.Int64
}

func (p *parrot) Generate(ctx context.Context, _ llm.Request, stream func(string) error) (llm.Result, error) {
	p.calls.Add(1)
	if err := ctx.Err(); err != nil {
		return llm.Result{}, err
	}
	for piece := range strings.SplitAfterSeq(p.reply, " ") {
		if stream != nil {
			if err := stream(piece); err != nil {
				return llm.Result{}, err
			}
		}
	}
	n := len(strings.Fields(p.reply))
	return llm.Result{Text: p.reply, PromptTokens: 7, CompletionTokens: n, Finish: llm.FinishStop}, nil
}

func (p *parrot) CountTokens(text string) (int, error) { return len(strings.Fields(text)), nil }
func (p *parrot) ContextSize() int                     { return 2048 }
func (p *parrot) Info() llm.Info                       { return llm.Info{Name: "parrot", SHA256: strings.Repeat("0", 64)} }

// bench is a folder with a store in it, and the command to run there.
type bench struct {
	t        *testing.T
	dir      string
	store    string
	embedder *words
	model    *parrot
	stdin    string
	env      []string
}

func newBench(t *testing.T) *bench {
	dir := t.TempDir()
	return &bench{t: t, dir: dir, store: filepath.Join(dir, "store"), embedder: newWords(), model: &parrot{reply: "It says so [1]."}}
}

type outcome struct {
	code           int
	stdout, stderr string
}

// run executes a command line with the doubles.
func (b *bench) run(args ...string) outcome { return b.runContext(b.t.Context(), args...) }

func (b *bench) runContext(ctx context.Context, args ...string) outcome {
	b.t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(b.stdin), stdout: &stdout, stderr: &stderr, env: append(b.env, "SLUICE_STORE="+b.store, "SLUICE_CONFIG="+b.file("empty.yaml", ""))}
	if b.embedder != nil {
		a.embedder = b.embedder
	}
	if b.model != nil {
		a.generator = b.model
	}
	code := a.run(ctx, args)
	return outcome{code, stdout.String(), stderr.String()}
}

// ok runs a command line that must succeed and returns its standard output.
func (b *bench) ok(args ...string) string {
	b.t.Helper()
	o := b.run(args...)
	if o.code != exitOK {
		b.t.Fatalf("sluice %v: exit code %d\n%s%s", args, o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// fails runs a command line that must fail so, and say so.
func (b *bench) fails(code int, says string, args ...string) outcome {
	b.t.Helper()
	o := b.run(args...)
	if o.code != code || !strings.Contains(o.stderr, says) {
		b.t.Errorf("sluice %v: exit code %d, want %d; %q does not say %q", args, o.code, code, o.stderr, says)
	}
	return o
}

// file writes a file into the folder and returns its path.
func (b *bench) file(name, text string) string {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

const contexts = `{"id":"c1","topic":"go","text":"A deferred function runs when the surrounding function returns, in last in first out order."}
{"id":"c2","topic":"go","text":"Sending on a closed channel causes a run time panic, receiving from it gives the zero value."}
{"id":"c3","topic":"sea","text":"The herring lives in large schools and feeds on plankton of the northern sea."}
{"id":"c4","topic":"sea","text":"Lighthouses warn ships of rocks and shallow water with a rotating lamp."}
`

const questions = `{"context_id":"c1","text":"When does a deferred function run, in which order?"}
{"context_id":"c1","text":"Does a deferred function run before the surrounding function returns?"}
{"context_id":"c2","text":"What does sending on a closed channel cause, a panic?"}
{"context_id":"c3","text":"Which plankton of the northern sea does the herring feed on?"}
{"context_id":"c4","text":"Why do lighthouses warn ships of rocks?"}
`

// filled returns a bench whose store holds contexts.
func filled(t *testing.T) *bench {
	b := newBench(t)
	b.ok("ingest", "--no-chunk", b.file("contexts.jsonl", contexts))
	return b
}

// calibrated returns one that is calibrated, too.
func calibrated(t *testing.T) *bench {
	b := filled(t)
	b.ok("calibrate", "--queries", b.file("questions.jsonl", questions))
	return b
}
