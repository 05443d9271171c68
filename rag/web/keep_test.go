package web

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

// calibrated returns a base with the four contexts of the doubles and their calibration.
func calibrated(t *testing.T) *doubles.Base {
	t.Helper()
	b := doubles.NewBase(t, nil)
	_, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{b.File(t, "c.jsonl", doubles.Contexts)},
		Options: ingest.Options{NoChunk: true}})
	if err == nil {
		_, err = calibrate.Run(t.Context(), b.Base, calibrate.Input{Options: calibrate.Options{
			Queries: strings.NewReader(doubles.Questions), Source: "q.jsonl"}, Model: b.Generator})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const whales = "Whales sing songs under water, and the blue whale is the largest animal of all times."

var now = time.Now().UTC().Truncate(time.Second)

func keep(t *testing.T, b *doubles.Base, pages ...Page) Kept {
	t.Helper()
	k, err := Keep(t.Context(), b.Base, pages, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func retrieved(t *testing.T, b *doubles.Base, question string) []prompt.Passage {
	t.Helper()
	p, err := Retrieve(t.Context(), b.Base, question, overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 4}))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKeep(t *testing.T) {
	b := calibrated(t)
	if p := retrieved(t, b, "whale"); len(p) != 0 {
		t.Fatalf("%d passages before any page", len(p))
	}
	if list, err := List(t.Context(), b.Base); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v before any page", list, err)
	}
	a := Page{URL: "https://a.example/whales", Title: "Whales", Text: whales, Fetched: now}
	old := Page{URL: "https://a.example/old", Title: "Old whales", Text: "An old whale was here.",
		Fetched: now.Add(-2 * time.Hour)}
	snippet := Page{URL: "https://a.example/b", Snippet: "Dolphins are small whales.", Fetched: now}
	empty := Page{URL: "https://a.example/c", Text: " — "}
	if k := keep(t, b, a, old, snippet, empty); k != (Kept{Pages: 3, Chunks: 3, Embedded: 3, Empty: 1}) {
		t.Errorf("%+v", k)
	}
	p := retrieved(t, b, "Which is the largest whale?")
	if len(p) != 2 || p[0].Chunk.Text != whales || p[0].Chunk.Source != a.URL || p[0].Chunk.Topic != Topic {
		t.Fatalf("found %+v", p)
	}
	if want := (&prompt.Web{URL: a.URL, Title: "Whales", Fetched: now}); !cmp.Equal(want, p[0].Web) {
		t.Errorf("provenance %+v, want %+v", p[0].Web, want)
	}
	for _, x := range p {
		if x.Chunk.Document == old.URL {
			t.Error("a page whose time is over was searched")
		}
	}
	// The page again, and another text at another's address: the old one is removed, nothing is embedded twice.
	snippet.Snippet = "Dolphins have names."
	if k := keep(t, b, a, snippet); k != (Kept{Pages: 2, Chunks: 2, Embedded: 1, Expired: 1}) {
		t.Errorf("%+v", k)
	}
	list, err := List(t.Context(), b.Base)
	if err != nil || len(list) != 2 || list[0].Expires.Sub(list[0].Fetched) != time.Hour || list[0].Expired {
		t.Errorf("%+v, %v", list, err)
	}
	if n, err := Remove(t.Context(), b.Base, a.URL); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := Remove(t.Context(), b.Base, a.URL); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if p := retrieved(t, b, "Which is the largest whale?"); len(p) != 1 {
		t.Errorf("%d passages after Remove", len(p))
	}
}

// Pages of the web change nothing that is calibrated: neither the artifact, nor how stale it is, nor a decision, nor
// what a search of the store finds.
func TestPagesDoNotTouchTheGate(t *testing.T) {
	b := calibrated(t)
	questions := []string{"Which plankton does the herring feed on?", "Why do whales sing under water?",
		"largest animal of all times", "a deferred function"}
	before := decisions(t, b, questions)
	digest := digestOf(t, b.Dir)
	var pages []Page
	for i := range 20 {
		pages = append(pages, Page{URL: fmt.Sprintf("https://a.example/%d", i), Fetched: now,
			Text: fmt.Sprintf("%s Number %d. Why do whales sing under water? The largest herring feeds on plankton.",
				whales, i)})
	}
	keep(t, b, pages...)
	if after := decisions(t, b, questions); !cmp.Equal(before, after) {
		t.Errorf("decisions have changed: %s", cmp.Diff(before, after))
	}
	if after := digestOf(t, b.Dir); after != digest {
		t.Error("the store's database has changed")
	}
	show, err := calibrate.Show(t.Context(), b.Base, "")
	if err != nil || show.Stale != 0 || show.Gone != 0 {
		t.Errorf("staleness %+v, %v", show, err)
	}
	if strings.Contains(b.Log.String(), "stale") {
		t.Error(b.Log)
	}
}

func decisions(t *testing.T, b *doubles.Base, questions []string) []gate.Decision {
	t.Helper()
	snap, enc, err := b.Searchable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	g, err := snap.Gate(t.Context(), enc.Info().Encoder)
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Embed(t.Context(), questions, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	d, err := snap.Decide(t.Context(), g, retrieve.Queries{Texts: questions, Vectors: knowledge.Vectors(e)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func digestOf(t *testing.T, dir string) [sha256.Size]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "store", "sluice.db"))
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}

// Headings of a page that was fetched are embedded with its text, as those of a file are.
func TestHeadingsOfPages(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>Rivers</title><h1>Danube</h1><p>It flows east.</p>")
	})
	p, err := fetcher(t, s, Options{}).Fetch(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := doubles.NewBase(t, nil) // a base without a store
	keep(t, b, p)
	if got := retrieved(t, b, "danube"); len(got) != 1 || got[0].Chunk.Heading != "Rivers › Danube" ||
		got[0].Web.Title != "Rivers" {
		t.Errorf("%+v", got)
	}
	if _, err := ingest.Run(t.Context(), b.Base, ingest.Input{Paths: []string{b.File(t, "a.txt", "a text")},
		Options: ingest.Options{Chunk: "60/0"}}); err != nil {
		t.Errorf("no store can be made where pages are kept: %v", err)
	}
}

func TestKeepRefusesAnotherEncoder(t *testing.T) {
	b := doubles.NewBase(t, nil)
	keep(t, b, Page{URL: "https://a.example/", Text: whales, Fetched: now})
	b.Encoder.Name = "others"
	if _, err := Keep(t.Context(), b.Base, nil, time.Hour); !errors.Is(err, store.ErrEncoder) {
		t.Error(err)
	}
	if _, err := Keep(t.Context(), b.Base, nil, -1); !errors.Is(err, ErrOptions) {
		t.Error(err)
	}
}

// Keeping, searching and removing go on at the same time; what is found is always a page that is kept.
func TestTogether(t *testing.T) {
	b := doubles.NewBase(t, nil)
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for i := range 8 {
				p := Page{URL: fmt.Sprintf("https://a.example/%d/%d", g, i%2), Title: "T", Fetched: now,
					Text: fmt.Sprintf("Whale number %d of %d.", i, g)}
				if _, err := Keep(t.Context(), b.Base, []Page{p}, time.Hour); err != nil {
					t.Error(err)
				}
				found, err := Retrieve(t.Context(), b.Base, "whale", overlay.On(retrieve.DefaultOptions(),
					retrieve.Options{K: 9}))
				if err != nil || len(found) == 0 {
					t.Errorf("%d passages: %v", len(found), err)
				}
				for _, x := range found {
					if x.Web.Title != "T" || !strings.HasPrefix(x.Chunk.Text, "Whale number") {
						t.Errorf("%+v", x)
					}
				}
				if i == 5 {
					if _, err := Remove(t.Context(), b.Base, p.URL); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if list, err := List(t.Context(), b.Base); err != nil || len(list) != 6 {
		t.Errorf("%d pages are kept, want 6: %v", len(list), err)
	}
}
