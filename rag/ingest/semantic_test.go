package ingest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// subjects returns a text of n subjects with five sentences of the same words for each.
func subjects(from, to int) string {
	var text strings.Builder
	for i := from; i < to; i++ {
		noun := strings.Repeat(string(rune('a'+i)), 5)
		text.WriteString(strings.Repeat("The "+noun+" and "+noun+" of "+noun+". ", 5))
	}
	return text.String()
}

// Chunks end where the subject changes; the same file again changes nothing and embeds nothing, and a changed option or
// text cuts it anew.
func TestSemanticChunks(t *testing.T) {
	b := doubles.NewBase(t, nil)
	b.Encoder.Limit = 200
	var ids, again []string
	var last, total int64
	o := ingest.Options{Chunk: "130/0", Chunker: ingest.Semantic,
		Semantic: ingest.SemanticOptions{Percentile: 20, MinTokens: 5},
		OnCommit: func(list []string) { ids = append(ids, list...) },
		Progress: func(p ingest.Progress) {
			done, of := p.Bytes, p.BytesTotal
			if done < last || done > of {
				t.Errorf("progress %d of %d after %d", done, of, last)
			}
			last, total = done, of
		}}
	text := subjects(0, 4)
	r := put(t, b, "a.txt", text, o)
	if r.Chunks != 4 || r.Embedded != 4 {
		t.Errorf("%+v", r)
	}
	if last < total-10 {
		t.Errorf("progress ends at %d of %d", last, total)
	}
	calls := b.Encoder.Calls.Load()
	o.OnCommit = func(list []string) { again = append(again, list...) }
	last = 0
	if r := put(t, b, "a.txt", text, o); r.Known != 4 || r.Embedded != 0 || b.Encoder.Calls.Load() != calls {
		t.Errorf("the same file: %+v, %d calls of the encoder", r, b.Encoder.Calls.Load()-calls)
	}
	if !slices.Equal(ids, again) || last < total-10 {
		t.Errorf("%q, then %q; progress ends at %d of %d", ids, again, last, total)
	}
	o.Progress = nil
	o.Semantic.Percentile = 0.01
	if r := put(t, b, "a.txt", text, o); r.Chunks == 4 {
		t.Errorf("another percentile: %+v", r)
	}
	o.Semantic.Percentile = 20
	if r := put(t, b, "a.txt", subjects(1, 5), o); r.Chunks != 4 || r.Embedded == 0 {
		t.Errorf("another text: %+v", r)
	}
	o.Chunker = ingest.Fixed
	if r := put(t, b, "a.txt", subjects(1, 5), o); r.Chunks == 4 {
		t.Errorf("the fixed chunker: %+v", r)
	}
}

// A long document is cancelled while its sentences are compared, or between its commits; the same command again
// completes it.
func TestSemanticChunksResume(t *testing.T) {
	b := doubles.NewBase(t, nil)
	path := b.File(t, "a.txt", subjects(0, 20))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := ingest.Input{Paths: []string{path}, Options: ingest.Options{Chunk: "60/0", Chunker: ingest.Semantic,
		Semantic: ingest.SemanticOptions{Percentile: 19, MinTokens: 5}, CommitEvery: 4,
		OnCommit: func([]string) { cancel() }}}
	r, err := ingest.Run(ctx, b.Base, in)
	if !errors.Is(err, context.Canceled) || r.Chunks != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	in.OnCommit = nil
	if r, err = ingest.Run(t.Context(), b.Base, in); err != nil || r.Known != 4 || r.Chunks != 20 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSemanticOptions(t *testing.T) {
	b := doubles.NewBase(t, nil)
	in := ingest.Input{Paths: []string{b.File(t, "a.txt", subjects(0, 2))}}
	for _, o := range []ingest.Options{
		{Chunker: "sentences"}, {Chunker: ingest.Semantic, NoChunk: true},
		{Chunker: ingest.Semantic, Semantic: ingest.SemanticOptions{Percentile: 101}},
		{Chunker: ingest.Semantic, Semantic: ingest.SemanticOptions{MinTokens: 200}},
		{Chunker: ingest.Semantic, Semantic: ingest.SemanticOptions{Buffer: 17}},
	} {
		in.Options = o
		if _, err := ingest.Run(t.Context(), b.Base, in); !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
