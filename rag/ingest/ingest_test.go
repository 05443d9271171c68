package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// put writes a file and ingests it.
func put(t *testing.T, b *doubles.Base, name, text string, o ingest.Options) ingest.Result {
	t.Helper()
	r, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{b.File(t, name, text)}, Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What is embedded is the heading with the text: a chunk is found by words of its heading alone, and a
// changed heading makes it another vector.
func TestHeadingsAreEmbedded(t *testing.T) {
	b := doubles.NewBase(t, nil)
	o := ingest.Options{Chunk: "60/0"}
	danube := "# Danube\n\n" + strings.Repeat("It rises in the hills and feeds two mills before the sea. ", 4)
	cargo := "\n\n" + strings.Repeat("Cargo ships carry grain and ore on it all the year round. ", 4) + "\n"
	put(t, b, "a.md", danube+"\n\n# Elbe"+cargo, o)
	best := func(query string) (string, float64) {
		snap, _, err := b.Searchable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer snap.Release()
		e, err := b.Embed(t.Context(), []string{query}, embed.Query)
		if err != nil {
			t.Fatal(err)
		}
		r, err := snap.Search(t.Context(), retrieve.Queries{Vectors: knowledge.Vectors(e)},
			overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1, Mode: retrieve.Dense}))
		if err != nil {
			t.Fatal(err)
		}
		c, err := snap.Chunks(t.Context(), []string{r[0].Results[0].ID})
		if err != nil {
			t.Fatal(err)
		}
		return c[0].Heading, r[0].Results[0].Score
	}
	if heading, score := best("elbe"); heading != "Elbe" || score <= 0 {
		t.Errorf("%q with %v", heading, score)
	}
	r := put(t, b, "a.md", danube+"\n\n# Rhine"+cargo, o)
	if r.Embedded != 1 || r.Known != 1 {
		t.Errorf("a changed heading: %+v", r)
	}
	if heading, score := best("rhine"); heading != "Rhine" || score <= 0 {
		t.Errorf("%q with %v", heading, score)
	}
}

// A document with more chunks than a commit takes goes in several commits; what of it is gone the next time is
// deleted, although no single commit lists all of its chunks.
func TestLongDocumentsTakeSeveralCommits(t *testing.T) {
	b := doubles.NewBase(t, nil)
	document := func(from, to int) string {
		var text strings.Builder
		for i := from; i < to; i++ {
			part := fmt.Sprintf("Part %c tells of ships and harbours. ", 'a'+rune(i))
			fmt.Fprintf(&text, "# Heading\n\n%s\n\n", strings.Repeat(part, 7))
		}
		return text.String()
	}
	var commits [][]string
	var last, total int64
	o := ingest.Options{Chunk: "60/0", CommitEvery: 3,
		OnCommit: func(ids []string) { commits = append(commits, ids) },
		Progress: func(p ingest.Progress) {
			done, of := p.Bytes, p.BytesTotal
			if done < last || done > of {
				t.Errorf("progress %d of %d after %d", done, of, last)
			}
			last, total = done, of
		}}
	r := put(t, b, "a.md", document(0, 8), o)
	if r.Chunks != 8 || r.Documents != 1 || r.Commits != 3 || len(commits) != 3 || len(commits[2]) != 2 {
		t.Errorf("%+v, commits of %v", r, commits)
	}
	if last < total-5 || last > total { // the last chunk ends before the last white space
		t.Errorf("progress ends at %d of %d", last, total)
	}
	last = 0
	if r := put(t, b, "a.md", document(1, 8), o); r.Embedded != 0 || r.Known != 7 {
		t.Errorf("without its first part: %+v", r)
	}
	snap, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	if n := snap.View.Count(); n != 7 {
		t.Errorf("%d chunks are live, want 7", n)
	}
}

func TestNothingToIngest(t *testing.T) {
	b := doubles.NewBase(t, nil)
	in := ingest.Input{Paths: []string{b.File(t, "empty.txt", " \n")}}
	if _, err := ingest.Run(t.Context(), b.Base, in); !errors.Is(err, corpus.ErrNoDocument) {
		t.Errorf("%v", err)
	}
	for _, chunk := range []string{"10", "10/10", "0/0", "a/b"} {
		in.Chunk = chunk
		if _, err := ingest.Run(t.Context(), b.Base, in); !errors.Is(err, knowledge.ErrOption) {
			t.Errorf("%q: %v", chunk, err)
		}
	}
}

// A paragraph of any length reports its progress from its first chunks on, and ends when it is asked to; what was
// committed of it stays.
func TestBigParagraphIsCancelled(t *testing.T) {
	b := doubles.NewBase(t, nil)
	path := b.File(t, "line.txt", strings.Repeat("the pump opens its second valve when pressure falls ", 1<<17))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var first, total int64
	r, err := ingest.Run(ctx, b.Base, ingest.Input{Paths: []string{path}, Options: ingest.Options{
		Chunk: "60/2", CommitEvery: 4,
		Progress: func(p ingest.Progress) {
			done, of := p.Bytes, p.BytesTotal
			if done > 0 { // 0 is said before a source is read
				first, total = done, of
				cancel()
			}
		},
	}})
	if !errors.Is(err, context.Canceled) || r.Chunks > 4 || first == 0 || first > total/100 {
		t.Errorf("%d chunks, first progress at %d of %d, %v", r.Chunks, first, total, err)
	}
}

// Documents in languages that the encoder was not trained for are said, unless they are so few that the guess may be
// wrong; a language that a source names is not guessed.
func TestLanguagesAreSaid(t *testing.T) {
	const german = "Der Wärter kümmert sich jeden Abend um die Lampe des Turms, damit die Schiffe den Hafen finden."
	const english = "The keeper looks after the lamp of the tower every evening, and the ships find the harbour."
	for _, c := range []struct {
		english int
		text    string
		warns   bool
	}{
		{1, german, true}, {250, german, false}, {1, `x","language":"de`, true},
		{1, german + `","language":"en`, false},
	} {
		b := doubles.NewBase(t, nil)
		b.Encoder.Languages = "en"
		var lines strings.Builder
		for i := range c.english {
			fmt.Fprintf(&lines, "{\"id\":\"e%d\",\"text\":%q}\n", i, english)
		}
		fmt.Fprintf(&lines, "{\"id\":\"g\",\"text\":\"%s\"}\n", c.text)
		r := put(t, b, "d.jsonl", lines.String(), ingest.Options{NoChunk: true})
		if said := strings.Contains(b.Log.String(), "documents in German (1)"); said != c.warns {
			t.Errorf("%d English ones and %.20q: %v, %s", c.english, c.text, r.Foreign, b.Log)
		}
	}
}
