package doubles

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// Contexts are the four contexts of a small library in two topics, as JSON lines.
const Contexts = `{"id":"defer","topic":"go","text":"A deferred function runs when the surrounding function returns, in last in first out order."}
{"id":"close","topic":"go","text":"Sending on a closed channel causes a run time panic, receiving from it gives the zero value."}
{"id":"herring","topic":"sea","text":"The herring lives in large schools and feeds on plankton of the northern sea."}
{"id":"lights","topic":"sea","text":"Lighthouses warn ships of rocks and shallow water with a rotating lamp."}
`

// Questions has one pseudo-query for each of Contexts, as JSON lines.
const Questions = `{"context_id":"defer","text":"When does a deferred function run, in which order?"}
{"context_id":"close","text":"What does sending on a closed channel cause, a panic?"}
{"context_id":"herring","text":"Which plankton of the northern sea does the herring feed on?"}
{"context_id":"lights","text":"Why do lighthouses warn ships of rocks?"}
`

// Base is a knowledge base in a folder of the test, with the doubles that it uses and what it logs.
type Base struct {
	*knowledge.Base
	Dir     string
	Engine  *engine.Engine
	Encoder *Encoder
	Model   *Model
	Log     *strings.Builder
}

// NewBase returns an empty base that is closed at the test's end; change may be nil.
func NewBase(t testing.TB, change func(*knowledge.Config)) *Base {
	t.Helper()
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &Base{
		Dir: t.TempDir(), Engine: e, Log: &strings.Builder{},
		Encoder: NewEncoder(), Model: NewModel("An answer [2]."),
	}
	cfg := knowledge.Config{
		Dir: filepath.Join(b.Dir, "store"), Engine: e,
		Encoder: func(context.Context) (embed.Embedder, error) { return b.Encoder, nil },
		Logger:  slog.New(slog.NewTextHandler(b.Log, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	b.Base = knowledge.New(cfg)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// Generator returns the language model, as pipelines call it.
func (b *Base) Generator(context.Context) (llm.Generator, error) { return b.Model, nil }

// File writes a file into the folder and returns its path.
func (b *Base) File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(b.Dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
