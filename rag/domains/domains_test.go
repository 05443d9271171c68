package domains

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels/cpu"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
)

// put ingests texts of three topics, mixed, from a number on.
func put(t *testing.T, b *doubles.Base, from, n int) {
	t.Helper()
	words := map[string][]string{"bread": strings.Fields("dough oven crust flour yeast knead bake rye"),
		"light": strings.Fields("lamp beam lens keeper tower fog signal night"),
		"music": strings.Fields("fugue violin choir organ tune voice chord score")}
	var lines strings.Builder
	for i := from; i < from+n; i++ {
		topic := []string{"bread", "light", "music"}[i%3]
		w := words[topic]
		fmt.Fprintf(&lines, `{"id":"c%d","topic":%q,"text":"%s %s %s of the %s with %s"}`+"\n", i, topic, w[i%8],
			w[(i/3)%8], w[(i/7)%8], w[(i/5)%8], w[(i/11)%8])
	}
	path := filepath.Join(b.Dir, fmt.Sprintf("texts%d.jsonl", from))
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	in := ingest.Input{Paths: []string{path}, Options: ingest.Options{NoChunk: true}}
	if _, err := ingest.Run(t.Context(), b.Base, in); err != nil {
		t.Fatal(err)
	}
}

// found are the results of a search in some domains, and the same by a filter, which reads the vectors as they lie.
func found(t *testing.T, b *doubles.Base, mode retrieve.Mode, text string, domains ...string) (routed,
	filtered retrieve.List) {
	t.Helper()
	snap, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	e, err := b.Embed(t.Context(), []string{text}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	q := retrieve.Queries{Texts: []string{text}, Vectors: knowledge.Vectors(e)}
	var where []string
	for _, d := range domains {
		where = append(where, "topic="+d)
	}
	f, err := retrieve.ParseFilter(where)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := snap.Search(t.Context(), q, overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{K: 7, Mode: mode, Route: domains}))
	c, errC := snap.Search(t.Context(), q, overlay.On(retrieve.DefaultOptions(),
		retrieve.Options{K: 7, Mode: mode, Where: f,
			Route: []string{knowledge.RouteOff}}))
	if err := errors.Join(errA, errC); err != nil {
		t.Fatal(err)
	}
	return a[0], c[0]
}

// TestPartitionsAreWhatAFilterLeaves compares both while rows come and go, before and after a partition has an index.
func TestPartitionsAreWhatAFilterLeaves(t *testing.T) {
	b := doubles.NewBase(t, func(c *knowledge.Config) { c.IndexRows, c.IndexSearches = 1, 2 })
	check := func() {
		t.Helper()
		for _, mode := range []retrieve.Mode{retrieve.Dense, retrieve.BM25, retrieve.Auto} {
			for _, domains := range [][]string{{"light"}, {"music", "bread"}, {"light"}} {
				routed, filtered := found(t, b, mode, "the lamp of the organ and the dough", domains...)
				if diff := cmp.Diff(filtered.Results, routed.Results); diff != "" {
					t.Errorf("%s in %v: %s", mode, domains, diff)
				}
				if routed.Taken.Route == nil || !slices.Equal(routed.Taken.Route.Searched, domains) {
					t.Errorf("the trace says %+v", routed.Taken.Route)
				}
			}
		}
	}
	put(t, b, 0, 60)
	check()
	put(t, b, 60, 33)
	check()
	st, err := b.Writer(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.DeleteDocuments(t.Context(), []string{"c4", "c61", "c7"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Changed(nil); err != nil {
		t.Fatal(err)
	}
	check()
	put(t, b, 93, 9)
	check()
}

// everything returns the results of a search of all chunks, those of a topic alone.
func everything(t *testing.T, b *doubles.Base, mode retrieve.Mode, text, topic string) (results []retrieve.Result) {
	t.Helper()
	snap, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	e, err := b.Embed(t.Context(), []string{text}, embed.Query)
	if err != nil {
		t.Fatal(err)
	}
	topics, err := snap.View.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := snap.Search(t.Context(), retrieve.Queries{Texts: []string{text}, Vectors: knowledge.Vectors(e)},
		overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: len(topics), Mode: mode,
			Route: []string{knowledge.RouteOff}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range lists[0].Results {
		if topics[r.Row] == topic {
			results = append(results, r)
		}
	}
	return results
}

// TestPartitionsWithAnIndex searches domains that are large enough for the index, before and after it is built in the
// background, and after rows were added and deleted. The results must equal those of a search of the whole base from
// which the rows of other domains are dropped.
func TestPartitionsWithAnIndex(t *testing.T) {
	b := doubles.NewBase(t, func(c *knowledge.Config) { c.IndexRows, c.IndexSearches = 1, 2 })
	check := func(when string) {
		t.Helper()
		for _, mode := range []retrieve.Mode{retrieve.Dense, retrieve.BM25, retrieve.Auto} {
			const text = "the lamp of the organ and the dough"
			routed, filtered := found(t, b, mode, text, "light")
			want := everything(t, b, mode, text, "light")[:7]
			ranked := cmpopts.IgnoreFields(retrieve.Result{}, "Copies") // known of what is ranked, which is more here
			if diff := cmp.Diff(want, routed.Results, ranked); diff != "" {
				t.Errorf("%s, %s, routed: %s", when, mode, diff)
			}
			if diff := cmp.Diff(want, filtered.Results, ranked); diff != "" {
				t.Errorf("%s, %s, by a filter: %s", when, mode, diff)
			}
		}
	}
	put(t, b, 0, 3*1100)
	check("no index")
	for range 500 {
		if strings.Contains(b.Log.String(), "index built") {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	check("index")
	if err := b.KeepIndex(t.Context()); err != nil { // the words are put in its order, too
		t.Fatal(err)
	}
	check("kept")
	put(t, b, 3*1100, 30)
	check("more rows")
	st, err := b.Writer(t.Context(), nil)
	if err == nil {
		_, err = st.DeleteDocuments(t.Context(), []string{"c1", "c2", "c3301", "c1000"})
	}
	if err := errors.Join(err, b.Changed(nil)); err != nil {
		t.Fatal(err)
	}
	check("fewer rows")
	if n := strings.Count(b.Log.String(), "index built"); n != 1 {
		t.Errorf("the index was built %d times", n)
	}
}

// TestTheIndexFollowsARouter: an index that was made for other domains than a router's is made anew, once.
func TestTheIndexFollowsARouter(t *testing.T) {
	if k, err := cpu.Open(""); err != nil || k.ISA() == cpu.Go {
		t.Skipf("SKIP: without C kernels an index has no blocks: %v", err)
	}
	b := doubles.NewBase(t, func(c *knowledge.Config) { c.IndexRows, c.IndexSearches = 1, 1<<30 })
	put(t, b, 0, 3*1100)
	keep := func(built int) {
		t.Helper()
		if err := b.KeepIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.Log.String(), "index built"); n != built {
			t.Fatalf("the index was built %d times, wanted %d", n, built)
		}
	}
	keep(1)
	r, err := Train(t.Context(), b.Base, b.Engine, Options{Sample: 300})
	if err != nil {
		t.Fatal(err)
	}
	keep(1) // the router's domains are the topics
	snap, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Release()
	var chunks []route.Chunk
	for i, id := range snap.View.IDs {
		chunks = append(chunks, route.Chunk{Key: route.ChunkKey(id, snap.View.Digests[i]), Label: int32(i / 3 % 3)})
	}
	r.Router.SetChunks(chunks, r.Router.Data.Corpus, "something else")
	if err := r.Router.Save(r.Dir); err != nil {
		t.Fatal(err)
	}
	keep(2)
	keep(2)
}

func TestARouterFollowsItsStore(t *testing.T) {
	b := doubles.NewBase(t, nil)
	put(t, b, 0, 90)
	r, err := Train(t.Context(), b.Base, b.Engine, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"bread": 30, "light": 30, "music": 30}, r.Chunks); diff != "" || r.Probes != 90 {
		t.Error(diff, r.Probes)
	}
	snap, err := b.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read, err := b.Router(snap.Store)
	if err != nil || read == nil {
		t.Fatal(err)
	}
	if s := snap.RouterStaleness(read); s.String() != "" {
		t.Errorf("a new router is stale: %s", s)
	}
	snap.Release()
	put(t, b, 90, 10)
	if snap, err = b.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := snap.RouterStaleness(read); s.New != 10 || s.Share != .1 {
		t.Errorf("%+v", s)
	}
	snap.Release()
	// a router of another encoder is refused
	b.Encoder.Name = "another"
	about := filepath.Join(r.Dir, route.AboutFile)
	text, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), r.Router.Encoder.Digest, "sha256:00", 1)
	if err := os.WriteFile(about, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := b.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Router(st); !errors.Is(err, route.ErrEncoder) {
		t.Errorf("%v", err)
	}
}

// The chunks' vectors are the store's: only sentences that stand for questions are embedded, and of a large store few.
func TestTrainEmbedsFewTexts(t *testing.T) {
	b := doubles.NewBase(t, nil)
	put(t, b, 0, sentenceChunks+600)
	texts := 0
	b.Encoder.After = func(list []string) { texts += len(list) }
	r, err := Train(t.Context(), b.Base, b.Engine, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if texts != sentenceChunks || r.Probes != texts || r.Trained != sentenceChunks+600 {
		t.Errorf("%d texts embedded, %d probes, %d chunks", texts, r.Probes, r.Trained)
	}
}

func TestFewerThanTwoDomainsAreRefused(t *testing.T) {
	b := doubles.NewBase(t, nil)
	put(t, b, 0, 1)
	for by, want := range map[string]error{ByTopic: route.ErrData, ByFolder: route.ErrData, "meta.x": route.ErrData,
		"moon": knowledge.ErrOption, ByLabels: knowledge.ErrOption} {
		if _, err := Train(t.Context(), b.Base, b.Engine, Options{By: by}); !errors.Is(err, want) {
			t.Errorf("%s: %v", by, err)
		}
	}
}
