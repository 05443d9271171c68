package domains

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/corpus/sentence"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/route/learn"
)

// What Options.By may be, besides "meta.KEY".
const (
	ByTopic    = "topic"    // of the documents
	ByFolder   = "folder"   // the first folder of the documents' sources
	ByClusters = "clusters" // of the chunks' vectors
	ByLabels   = "labels"   // the nearest of Options.Labels
	metaPrefix = "meta."
)

// Question is one that a chunk answers.
type Question struct{ Chunk, Text string }

// Description of a domain, for ByLabels.
type Description struct{ Label, Text string }

// Options of Train. The zero value divides by topics.
type Options struct {
	By       string `key:"by" doc:"where a store's domains come from: topic, folder, meta.KEY, clusters or labels"` // "": topic
	Labels   []Description
	Clusters int `key:"clusters" bounds:"0,65535" doc:"clusters that are made, where domains are clusters; 0 takes as many as have the largest mean silhouette"`
	// Questions about chunks, which the router is measured by. Without any, a sentence of each chunk takes the place
	// of one, of 2,000 chunks drawn at random where there are more: the chunks' vectors are the store's, but sentences
	// have to be embedded.
	Questions []Question
	// The zero value of Settings is Defaults.
	Settings route.Settings `key:".route"`
	Sample   int            `key:"sample" bounds:"1,2147483647" doc:"chunks that a store's router is trained on, at most"` // 0 is DefaultSample
	Progress func(stage string, done, total int)
	Warn     func(text string)
}

// DefaultOptions returns the default options; Keep 0 stands for the Keep of Defaults.
func DefaultOptions() Options {
	s := route.Defaults()
	s.Keep = 0
	return Options{By: ByTopic, Settings: s, Sample: DefaultSample}
}

// Defaults are route.Defaults for a store: what is out of scope is left to the gate, so that fewer queries are searched
// for everywhere.
func Defaults() route.Settings {
	s := route.Defaults()
	s.Keep = .98
	return s
}

// DefaultSample is how many chunks a router is trained on at most.
const DefaultSample = 20_000

// sentenceChunks are the chunks of which a sentence takes the place of a question, at most: a fifth of them is
// measured, so that a share of .99 is known within a point.
const sentenceChunks = 2000

// Result is the result of Train.
type Result struct {
	Dir        string         `json:"dir"`
	Chunks     map[string]int `json:"chunks"`     // of each domain
	Unassigned int            `json:"unassigned"` // chunks of no domain: routed searches go by them, too
	Trained    int            `json:"trained"`    // chunks that the router was trained on
	Probes     int            `json:"probes"`     // questions, or sentences, that it was measured by
	Silhouette []Silhouette   `json:"silhouette,omitempty"`
	Router     *route.Router  `json:"-"`
}

// run is one Train.
type run struct {
	Options
	snap   *knowledge.Snapshot
	enc    embed.Embedder
	engine route.Engine
	labels []string // of each row of the view, "" for none and for deleted rows
	texts  map[int]string
	result *Result
}

// Train makes the router of a base's store and puts it in the place of the one before. A store whose chunks are of
// fewer than two domains is route.ErrData; a bad option knowledge.ErrOption or route.ErrOption.
func Train(ctx context.Context, base *knowledge.Base, e route.Engine, o Options) (_ *Result, err error) {
	ctx = cores.AsBatch(ctx)
	o.By = cmp.Or(o.By, ByTopic)
	if o.Settings == (route.Settings{}) {
		o.Settings = Defaults()
	}
	o.Sample = cmp.Or(o.Sample, DefaultSample)
	r := &run{Options: o, engine: e, texts: map[int]string{}, result: &Result{Chunks: map[string]int{}}}
	if r.snap, r.enc, err = base.Searchable(ctx); err != nil {
		return nil, err
	}
	defer r.snap.Release()
	if err := r.divide(ctx); err != nil {
		return nil, err
	}
	router, err := r.train(ctx)
	if err != nil {
		return nil, err
	}
	live, err := r.snap.View.Live(ctx)
	if err != nil {
		return nil, err
	}
	router.SetChunks(r.chunks(router.Labels), live.Digest, o.By)
	r.result.Dir, r.result.Router = knowledge.RouterDir(r.snap.Store), router
	if err := router.Save(r.result.Dir); err != nil {
		return nil, err
	}
	return r.result, errors.Join(base.KeepFiles(ctx), base.KeepIndex(ctx)) // by the new domains
}

// Remove removes the router of a base's store; a missing router is not an error.
func Remove(ctx context.Context, base *knowledge.Base) error {
	st, err := base.Reader(ctx)
	if err != nil {
		return err
	}
	dir := knowledge.RouterDir(st)
	if !route.IsRouter(dir) {
		return nil
	}
	return errors.Join(os.RemoveAll(dir), base.KeepFiles(ctx))
}

// divide finds the domain of each row.
func (r *run) divide(ctx context.Context) (err error) {
	view := r.snap.View
	switch {
	case r.By == ByTopic:
		r.labels, err = view.Topics(ctx)
	case r.By == ByFolder, strings.HasPrefix(r.By, metaPrefix) && r.By != metaPrefix:
		err = r.byDocument(ctx)
	case r.By == ByClusters:
		err = r.cluster(ctx)
	case r.By == ByLabels:
		err = r.describe(ctx)
	default:
		return fmt.Errorf("%w: domains by %q (known: topic, folder, meta.KEY, clusters, labels)", knowledge.ErrOption,
			r.By)
	}
	if err != nil {
		return err
	}
	for _, row := range r.live() {
		if l := r.labels[row]; l != "" {
			r.result.Chunks[l]++
		} else {
			r.result.Unassigned++
		}
	}
	if len(r.result.Chunks) < 2 {
		names := slices.Sorted(maps.Keys(r.result.Chunks))
		return fmt.Errorf("%w: by %s, the chunks of %s are of %d domains (%.100q), %d of none; two are the least. "+
			"Others: "+
			"--by folder, meta.KEY, clusters, or labels", route.ErrData, r.By, r.snap.Store.Dir(), len(names), names,
			r.result.Unassigned)
	}
	return nil
}

// byDocument takes the domains from what is known of the documents.
func (r *run) byDocument(ctx context.Context) error {
	documents, err := r.snap.Store.Documents(ctx)
	if err != nil {
		return err
	}
	of := map[string]string{}
	for _, d := range documents {
		if r.By == ByFolder {
			folder, _, found := strings.Cut(strings.TrimPrefix(d.ID, d.Collection+"/"), "/")
			if found {
				of[d.ID] = folder
			}
			continue
		}
		of[d.ID] = d.Meta.Text(strings.TrimPrefix(r.By, metaPrefix))
	}
	r.labels = make([]string, len(r.snap.View.IDs))
	return r.eachChunk(ctx, r.live(), func(row int, c corpus.Chunk) { r.labels[row] = of[c.Document] })
}

// live returns the rows of chunks that are there.
func (r *run) live() []int {
	var rows []int
	for i := range r.snap.View.IDs {
		if !r.snap.View.Deleted(i) {
			rows = append(rows, i)
		}
	}
	return rows
}

// chunksAtOnce are read together.
const chunksAtOnce = 4096

// eachChunk reads the chunks of rows.
func (r *run) eachChunk(ctx context.Context, rows []int, fn func(row int, c corpus.Chunk)) error {
	for part := range slices.Chunk(rows, chunksAtOnce) {
		ids := make([]string, len(part))
		for i, row := range part {
			ids[i] = r.snap.View.IDs[row]
		}
		chunks, err := r.snap.Chunks(ctx, ids)
		if err != nil {
			return err
		}
		for i, c := range chunks {
			fn(part[i], c)
		}
	}
	return nil
}

// sample draws rows of chunks with a domain, at most so many of all, in their order.
func (r *run) sample(rows []int, most int) []int {
	if len(rows) <= most {
		return rows
	}
	rows = slices.Clone(rows)
	g := rand.New(rand.NewPCG(r.Settings.Seed, 4))
	g.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	rows = rows[:most]
	slices.Sort(rows)
	return rows
}

// train trains the router on chunks and on what is asked about them.
func (r *run) train(ctx context.Context) (*route.Router, error) {
	rows := slices.DeleteFunc(r.live(), func(row int) bool { return r.labels[row] == "" })
	rows = r.sample(rows, r.Sample)
	r.result.Trained = len(rows)
	questions := map[string][]string{}
	for _, q := range r.Questions {
		questions[q.Chunk] = append(questions[q.Chunk], q.Text)
	}
	g := rand.New(rand.NewPCG(r.Settings.Seed, 5))
	speaking := r.sample(rows, sentenceChunks)
	var probes []route.Example
	e := &route.Examples{Source: r.snap.Store.Dir()}
	v := engine.Vectors{Dim: r.snap.View.Vectors.Dim, Rows: len(rows)}
	err := r.eachChunk(ctx, rows, func(row int, c corpus.Chunk) {
		label := []string{r.labels[row]}
		e.List = append(e.List, route.Example{Text: c.EmbedText(), Labels: label, Group: c.ID})
		v.Data = append(v.Data, r.snap.View.Vectors.Row(row)...)
		asked := questions[c.ID]
		if _, speaks := slices.BinarySearch(speaking, row); speaks && len(r.Questions) == 0 {
			asked = []string{drawSentence(c.Text, g)}
		}
		for _, q := range asked {
			if strings.TrimSpace(q) != "" {
				probes = append(probes, route.Example{Text: q, Labels: label, Group: c.ID, Probe: true})
			}
		}
	})
	if err != nil {
		return nil, err
	}
	e.List = append(e.List, probes...)
	if r.result.Probes = len(probes); len(r.Questions) > 0 && len(probes) == 0 {
		return nil, fmt.Errorf("%w: no question is about a chunk of a domain", route.ErrData)
	}
	return route.Train(ctx, route.Input{Examples: e, Settings: r.Settings, Engine: r.engine, Encoder: r.enc, Vectors: v,
		Progress: r.Progress, Warn: r.Warn})
}

// minSentence is how many words a sentence has that takes the place of a question.
const minSentence = 5

// drawSentence draws one of a text's sentences of minSentence words or more; without such sentences it returns the
// first.
func drawSentence(text string, g *rand.Rand) string {
	var all, long []string
	from := 0
	for _, to := range append(sentence.Ends(text), len(text)) {
		s := strings.TrimSpace(text[from:max(from, to)])
		from = max(from, to)
		if s == "" {
			continue
		}
		all = append(all, s)
		if len(learn.Words(s)) >= minSentence {
			long = append(long, s)
		}
	}
	switch {
	case len(long) > 0:
		return long[g.IntN(len(long))]
	case len(all) > 0:
		return all[0]
	}
	return ""
}

// chunks returns all live chunks with the domain that they have.
func (r *run) chunks(labels []string) []route.Chunk {
	var list []route.Chunk
	for _, row := range r.live() {
		key := route.ChunkKey(r.snap.View.IDs[row], [sha256.Size]byte(r.snap.View.Digests[row]))
		c := route.Chunk{Key: key, Label: -1}
		if k, ok := slices.BinarySearch(labels, r.labels[row]); ok {
			c.Label = int32(k)
		}
		list = append(list, c)
	}
	return list
}
