package knowledge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/store"
)

const millionRows, millionDim = 1_000_000, 384

// given is an encoder that is never asked.
type given struct{ embed.Embedder }

func (given) Info() embed.Info {
	return embed.Info{Encoder: identity.Encoder{Name: "given", Digest: "sha256:g", TokenizerDigest: "sha256:t",
		Dim: millionDim}}
}

// TestMillion measures a store of 10^6 × 384, which it makes in the folder SLUICE_MILLION (4 GB, some minutes) unless
// it is there: SLUICE_MILLION=/tmp/million go test ./rag/knowledge -run TestMillion -v -timeout 30m. It prints, and
// asserts what does not depend on the machine.
func TestMillion(t *testing.T) {
	dir := os.Getenv("SLUICE_MILLION")
	if dir == "" {
		t.Skip("SLUICE_MILLION names no folder")
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	open := func() *knowledge.Base {
		return knowledge.New(knowledge.Config{Dir: dir, Engine: e,
			Logger:  slog.New(slog.NewTextHandler(log, nil)),
			Encoder: func(context.Context) (embed.Embedder, error) { return given{}, nil }})
	}
	m := &million{t: t, e: e, dir: dir, open: open}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		m.make()
	}
	log.Reset()
	for range 3 {
		m.firstDecision()
	}
	if !strings.Contains(log.String(), "index loaded") || strings.Contains(log.String(), "WARN") {
		t.Error(log)
	}
	b := open()
	defer func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}()
	m.groups(b)
	m.churn(b)
	log.Reset()
	before, err := b.Snapshot(t.Context())
	m.check(err)
	defer before.Release()
	_, err = before.Vectors(t.Context())
	m.check(err)
	m.deleteTenth(b)
	after, err := b.Snapshot(t.Context())
	m.check(err)
	defer after.Release()
	m.compare(before, after)
	if strings.Contains(log.String(), "index built") {
		t.Error(log)
	}
}

type million struct {
	t    *testing.T
	e    *engine.Engine
	dir  string
	open func() *knowledge.Base
}

func (m *million) check(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// rows are n vectors around 64 centres, which depend on the numbers of the rows.
func (m *million) rows(first, n int) []float32 {
	centres := rand.New(rand.NewPCG(1, 2))
	centre := make([]float32, 64*millionDim)
	for i := range centre {
		centre[i] = float32(centres.NormFloat64())
	}
	out := make([]float32, 0, n*millionDim)
	for i := first; i < first+n; i++ {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		for _, x := range centre[i%64*millionDim:][:millionDim] {
			out = append(out, x+float32(r.NormFloat64()))
		}
	}
	return out
}

// batch has the rows as chunks of documents of 20.
func (m *million) batch(first, n int) (b store.Batch) {
	b.Vectors = m.rows(first, n)
	for i := first; i < first+n; i++ {
		doc := fmt.Sprint("d", i/20)
		if len(b.Documents) == 0 || b.Documents[len(b.Documents)-1].ID != doc {
			access := []any{"many"}
			if i/20%100 == 7 {
				access = append(access, "few")
			}
			b.Documents = append(b.Documents, &corpus.Document{ID: doc, Source: doc, Digest: doc,
				Meta: corpus.Meta{corpus.AccessKey: access}})
		}
		b.Chunks = append(b.Chunks, corpus.Chunk{ID: fmt.Sprintf("%032x", i), Document: doc, Source: doc,
			Topic: fmt.Sprint("topic ", i%16), Text: fmt.Sprintf("Chunk %d is long enough to be one. ", i)})
	}
	return b
}

func (m *million) make() {
	b := m.open()
	enc := given{}.Info().Encoder
	st, err := b.Writer(m.t.Context(), &enc)
	m.check(err)
	for first := 0; first < millionRows; first += 10_000 {
		_, err := st.Commit(m.t.Context(), m.batch(first, 10_000))
		m.check(err)
	}
	snap, err := b.Snapshot(m.t.Context())
	m.check(err)
	defer snap.Release()
	l, err := snap.View.Live(m.t.Context())
	m.check(err)
	in := gate.Input{Contexts: l.Vectors, ContextIDs: l.IDs, TextDigests: l.TextDigests, Groups: l.Groups,
		Queries: engine.Vectors{Data: m.rows(5, 20), Rows: 20, Dim: millionDim}, Encoder: enc, CorpusDigest: l.Digest,
		Metric: kernels.Cosine, Resamples: -1}
	for i := range 20 {
		in.Owner = append(in.Owner, int32(5+i))
	}
	c, positive, err := gate.Calibrate(m.t.Context(), m.e, in)
	m.check(err)
	m.check(os.MkdirAll(filepath.Join(m.dir, "calibration"), 0o755))
	_, _, err = b.WriteCalibration(m.t.Context(), st, "default", c, positive, false)
	m.check(err)
	m.check(b.KeepIndex(m.t.Context()))
	m.check(b.Close())
}

// firstDecision opens the store and asks the gate about one vector.
func (m *million) firstDecision() {
	q := engine.Vectors{Data: m.rows(77, 1), Rows: 1, Dim: millionDim}
	started := time.Now()
	b := m.open()
	snap, enc, err := b.Searchable(m.t.Context())
	m.check(err)
	viewed := time.Since(started)
	_, err = snap.Vectors(m.t.Context())
	m.check(err)
	loaded := time.Since(started)
	g, err := snap.Gate(m.t.Context(), enc.Info().Encoder)
	m.check(err)
	gated := time.Since(started)
	d, err := snap.Decide(m.t.Context(), g, retrieve.Queries{Vectors: q})
	m.check(err)
	m.t.Logf("open and first decision %.3f s (view %.3f, index %.3f, gate %.3f, decision %.3f): %v",
		time.Since(started).Seconds(), viewed.Seconds(), (loaded - viewed).Seconds(), (gated - loaded).Seconds(),
		(time.Since(started) - gated).Seconds(), d[0].Retrieve)
	snap.Release()
	m.check(b.Close())
}

// compare searches both snapshots in turns.
func (m *million) compare(before, after *knowledge.Snapshot) {
	var times [2][]float64
	for i := range 1000 {
		q := engine.Vectors{Data: m.rows(2*millionRows+i, 1), Rows: 1, Dim: millionDim}
		for k := range 2 {
			which := (i + k) % 2
			started := time.Now()
			_, err := []*knowledge.Snapshot{before, after}[which].Search(m.t.Context(),
				retrieve.Queries{Vectors: q}, overlay.On(retrieve.DefaultOptions(),
					retrieve.Options{K: 10, Mode: retrieve.Dense}))
			m.check(err)
			times[which] = append(times[which], time.Since(started).Seconds()*1000)
		}
	}
	var ratios []float64
	for i := range times[0] {
		ratios = append(ratios, times[1][i]/times[0][i])
	}
	slices.Sort(ratios)
	slices.Sort(times[0])
	slices.Sort(times[1])
	at := len(ratios) / 2
	m.t.Logf("top 10 with %d and %d of %d rows: %.2f and %.2f ms (medians), ratio %.3f (median of the pairs)",
		before.View.Count(), after.View.Count(), after.View.Vectors.Rows, times[0][at], times[1][at], ratios[at])
}

// groups compares decisions over all rows with those of a group that may read one in a hundred.
func (m *million) groups(all *knowledge.Base) {
	few := knowledge.New(knowledge.Config{Dir: m.dir, Engine: m.e, Groups: []string{"few"},
		Encoder: func(context.Context) (embed.Embedder, error) { return given{}, nil }})
	started := time.Now()
	var snaps [2]*knowledge.Snapshot
	var gates [2]*gate.Gate
	for i, b := range []*knowledge.Base{all, few} {
		snap, enc, err := b.Searchable(m.t.Context())
		m.check(err)
		defer snap.Release()
		snaps[i] = snap
		gates[i], err = snap.Gate(m.t.Context(), enc.Info().Encoder)
		m.check(err)
		_, err = snap.Vectors(m.t.Context())
		m.check(err)
		m.t.Logf("%d rows ready after %.2f s", snap.View.Count(), time.Since(started).Seconds())
	}
	if n := snaps[1].View.Count(); n != millionRows/100 {
		m.t.Errorf("%d rows for the group", n)
	}
	var times [2][]float64
	for i := range 500 {
		q := retrieve.Queries{Vectors: engine.Vectors{Data: m.rows(3*millionRows+i, 1), Rows: 1, Dim: millionDim}}
		for k := range 2 {
			which := (i + k) % 2
			started := time.Now()
			_, err := snaps[which].Decide(m.t.Context(), gates[which], q)
			m.check(err)
			times[which] = append(times[which], time.Since(started).Seconds()*1000)
		}
	}
	slices.Sort(times[0])
	slices.Sort(times[1])
	m.t.Logf("a decision over %d and %d rows: %.3f and %.3f ms (medians), %.3f and %.3f (95 of 100)",
		snaps[0].View.Count(), snaps[1].View.Count(), times[0][250], times[1][250], times[0][475], times[1][475])
	m.check(few.Close())
}

// churn appends 100 times and deletes 100 times; each change is followed by a search.
func (m *million) churn(b *knowledge.Base) {
	st, err := b.Writer(m.t.Context(), nil)
	m.check(err)
	started := time.Now()
	for i := range 100 {
		_, err := st.Commit(m.t.Context(), m.batch(millionRows+20*i, 20))
		m.check(err)
		m.once(b, millionRows+20*i, true)
	}
	for i := range 100 {
		_, err := st.DeleteDocuments(m.t.Context(), []string{fmt.Sprint("d", millionRows/20+i)})
		m.check(err)
		m.once(b, millionRows+20*i, false)
	}
	m.t.Logf("100 appends and 100 deletions with a search after each: %.2f s", time.Since(started).Seconds())
}

// once searches for a row, which is there or not.
func (m *million) once(b *knowledge.Base, row int, there bool) {
	m.t.Helper()
	snap, err := b.Snapshot(m.t.Context())
	m.check(err)
	defer snap.Release()
	found, err := snap.Search(m.t.Context(), retrieve.Queries{Vectors: engine.Vectors{Data: m.rows(row, 1), Rows: 1,
		Dim: millionDim}}, overlay.On(retrieve.DefaultOptions(), retrieve.Options{K: 1, Mode: retrieve.Dense}))
	m.check(err)
	if (found[0].Results[0].ID == fmt.Sprintf("%032x", row)) != there {
		m.t.Fatalf("row %d found: %v, want %v", row, !there, there)
	}
}

// deleteTenth deletes each tenth document for good.
func (m *million) deleteTenth(b *knowledge.Base) {
	st, err := b.Writer(m.t.Context(), nil)
	m.check(err)
	var docs []string
	for i := 3; i < millionRows/20; i += 10 {
		docs = append(docs, fmt.Sprint("d", i))
	}
	started := time.Now()
	n, err := st.DeleteDocuments(m.t.Context(), docs)
	if errors.Is(err, store.ErrNotFound) {
		m.t.Log("a tenth was deleted by an earlier run")
		return
	}
	m.check(err)
	deleted := time.Since(started)
	snap, err := b.Snapshot(m.t.Context())
	m.check(err)
	defer snap.Release()
	_, err = snap.Vectors(m.t.Context())
	m.check(err)
	m.t.Logf("%d chunks deleted in %.2f s, the next snapshot took %.3f s", n, deleted.Seconds(),
		(time.Since(started) - deleted).Seconds())
}
