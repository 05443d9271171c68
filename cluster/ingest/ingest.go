// Package ingest makes a base of documents with many workers: the rows that 'sluice ingest' gives.
//
//	JSON lines → blocks of lines → documents → chunks → vectors, words → segments → manifest
//
// A task puts its lines into a store of its own, by package rag/ingest, and writes the store's rows as a segment.
package ingest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/cluster/worker"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/knowledge"
)

// ErrJob is wrapped by errors about documents that do not make a base.
var ErrJob = errors.New("ingest: job")

// Job is what every task reads first.
type Job struct {
	Encoder    string         `json:"encoder"` // as worker.Process.Encoder takes it
	Metric     kernels.Metric `json:"metric"`
	Collection string         `json:"collection"` // before the ids of documents
	File       string         `json:"file"`       // name of the lines' file, whose words an index has
	Chunk      string         `json:"chunk"`      // rag/ingest.Options
	NoChunk    bool           `json:"no_chunk"`
	Language   string         `json:"language"`
	Lines      []string       `json:"lines"` // objects of JSON lines, one for each task
}

// Made is what tasks give.
type Made struct {
	Segments []Segment `json:"segments"`
}

// Segment is a segment whose groups are numbered by itself.
type Segment struct {
	Task    int64            `json:"task"`
	Encoder identity.Encoder `json:"encoder"`
	Topics  string           `json:"topics"` // object: []string, the topic of each row
	base.Segment
}

// Begin divides JSON lines into blocks of about some bytes, and writes the job.
func Begin(ctx context.Context, s *objects.Store, lines io.Reader, j Job, bytesOf int) (job string, err error) {
	if j.Collection == "" || j.File != filepath.Base(j.File) || j.File == "." || bytesOf < 1 {
		return "", fmt.Errorf("%w: collection %q, file name %q, blocks of %d bytes: all are needed", ErrJob,
			j.Collection, j.File, bytesOf)
	}
	r := bufio.NewReaderSize(lines, 1<<20)
	var block bytes.Buffer
	put := func() error {
		if len(bytes.TrimSpace(block.Bytes())) == 0 {
			return nil
		}
		name, err := s.Put(ctx, "lines", block.Bytes())
		j.Lines = append(j.Lines, name)
		block.Reset()
		return err
	}
	for {
		line, failed := r.ReadBytes('\n')
		block.Write(line)
		if failed != nil && failed != io.EOF {
			return "", failed
		}
		if block.Len() >= bytesOf || failed == io.EOF {
			if err := put(); err != nil {
				return "", err
			}
		}
		if failed == io.EOF {
			break
		}
	}
	if len(j.Lines) == 0 {
		return "", fmt.Errorf("%w: no lines", ErrJob)
	}
	return s.PutJSON(ctx, "job", j)
}

// Segments is the step that makes segments.
type Segments struct{ job Job }

// OpenSegments opens the step of a job.
func OpenSegments(ctx context.Context, s *objects.Store, job string) (*Segments, error) {
	g := &Segments{}
	return g, s.GetJSON(ctx, job, &g.job)
}

// Tasks returns the number of blocks of lines.
func (g *Segments) Tasks() int64 { return int64(len(g.job.Lines)) }

// Do makes the segment of a block.
func (g *Segments) Do(ctx context.Context, s *objects.Store, task int64) (name string, err error) {
	if task < 0 || task >= g.Tasks() {
		return "", fmt.Errorf("%w: task %d of %d", ErrJob, task, g.Tasks())
	}
	lines, err := s.Get(ctx, g.job.Lines[task])
	if err != nil {
		return "", err
	}
	process, end, err := worker.Turn(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	dir, err := os.MkdirTemp("", "sluice-ingest-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, g.job.File)
	if err := os.WriteFile(file, lines, 0o600); err != nil {
		return "", err
	}
	b := knowledge.New(knowledge.Config{Dir: filepath.Join(dir, "store"), Engine: process.Engine, Metric: g.job.Metric,
		Encoder: func(ctx context.Context) (embed.Embedder, error) { return process.Encoder(ctx, g.job.Encoder) }})
	defer func() { err = errors.Join(err, b.Close()) }()
	o := ingest.DefaultOptions()
	o.Collection, o.NoChunk, o.Language, o.Strict = g.job.Collection, g.job.NoChunk, g.job.Language, true
	o.Chunk = cmp.Or(g.job.Chunk, o.Chunk)
	var made Made
	switch _, err := ingest.Run(ctx, b, ingest.Input{Paths: []string{file}, Options: o}); {
	case errors.Is(err, corpus.ErrNoDocument):
	case err != nil:
		return "", err
	default:
		segment, err := written(ctx, s, b)
		if err != nil {
			return "", err
		}
		segment.Task = task
		made.Segments = append(made.Segments, segment)
	}
	return s.PutJSON(ctx, "made", made)
}

// written writes the rows of a store as a segment.
func written(ctx context.Context, s *objects.Store, b *knowledge.Base) (g Segment, err error) {
	snap, enc, err := b.Searchable(ctx)
	if err != nil {
		return g, err
	}
	defer snap.Release()
	live, err := snap.View.Live(ctx)
	if err != nil {
		return g, err
	}
	x, err := snap.Postings(ctx)
	if err != nil {
		return g, err
	}
	topics, err := snap.View.Topics(ctx)
	if err != nil {
		return g, err
	}
	rows, of := make([]int, len(live.Rows)), make([]string, len(live.Rows))
	for i, row := range live.Rows {
		rows[i] = int(row - snap.View.First)
		of[i] = topics[rows[i]]
	}
	g.Encoder = enc.Info().Encoder
	if g.Topics, err = s.PutJSON(ctx, "topics", of); err != nil {
		return g, err
	}
	g.Segment, err = base.Write(ctx, s, 0, base.Contexts{Vectors: live.Vectors, Words: x.Pick(rows),
		About: base.About{IDs: live.IDs, Digests: live.TextDigests, Groups: live.Groups}})
	return g, err
}

// Sum lists the segments in the order of their lines.
func (g *Segments) Sum(ctx context.Context, s *objects.Store, names []string) (string, error) {
	var sum Made
	for _, name := range names {
		var m Made
		if err := s.GetJSON(ctx, name, &m); err != nil {
			return "", err
		}
		sum.Segments = append(sum.Segments, m.Segments...)
	}
	slices.SortFunc(sum.Segments, func(a, b Segment) int { return cmp.Compare(a.Task, b.Task) })
	for i, x := range sum.Segments[min(1, len(sum.Segments)):] {
		if x.Task == sum.Segments[i].Task {
			return "", fmt.Errorf("%w: block %d is there twice", ErrJob, x.Task)
		}
	}
	return s.PutJSON(ctx, "made", sum)
}

// Finish numbers contexts and groups of the segments, as a store of all lines does, and writes the manifest.
func Finish(ctx context.Context, s *objects.Store, sum string, metric kernels.Metric) (of string, err error) {
	var made Made
	if err := s.GetJSON(ctx, sum, &made); err != nil {
		return "", err
	}
	if len(made.Segments) == 0 {
		return "", fmt.Errorf("%w: no line has a document", ErrJob)
	}
	m := base.Manifest{Encoder: made.Segments[0].Encoder, Metric: metric, Dim: made.Segments[0].Encoder.Dim}
	n := numbering{number: map[string]int32{}, seen: map[string]bool{}}
	digest := sha256.New()
	for _, x := range made.Segments {
		if !x.Encoder.Same(m.Encoder) {
			return "", fmt.Errorf("%w: workers have two encoders, %s and %s", ErrJob, m.Encoder.Name, x.Encoder.Name)
		}
		var about base.About
		var topics []string
		if err := errors.Join(s.GetJSON(ctx, x.About, &about), s.GetJSON(ctx, x.Topics, &topics)); err != nil {
			return "", err
		}
		if err := n.add(x.Task, &about, topics); err != nil {
			return "", err
		}
		for i, id := range about.IDs {
			text, err := hex.DecodeString(about.Digests[i])
			if err != nil {
				return "", fmt.Errorf("%w: the digest of %s: %w", ErrJob, id, err)
			}
			digest.Write(append(append(binary.AppendUvarint(nil, uint64(len(id))), id...), text...))
		}
		x.First, m.Contexts = m.Contexts, m.Contexts+int64(x.Rows)
		if x.Segment.About, err = s.PutJSON(ctx, "about", about); err != nil {
			return "", err
		}
		m.Segments = append(m.Segments, x.Segment)
	}
	m.Groups, m.Topics = len(n.number), 2*n.topics > int(m.Contexts)
	m.Digest = "sha256:" + hex.EncodeToString(digest.Sum(nil))
	if err := m.Check(); err != nil {
		return "", err
	}
	return s.PutJSON(ctx, "base", m)
}

// numbering numbers groups by their first contexts: topics by their names, documents without one by themselves.
type numbering struct {
	number map[string]int32
	seen   map[string]bool // ids
	topics int             // contexts with one
}

func (n *numbering) add(task int64, about *base.About, topics []string) error {
	if len(topics) != len(about.IDs) || len(about.Groups) != len(about.IDs) || len(about.Digests) != len(about.IDs) {
		return fmt.Errorf("%w: %d ids, %d topics, %d groups", ErrJob, len(about.IDs), len(topics), len(about.Groups))
	}
	for i, id := range about.IDs {
		if n.seen[id] {
			return fmt.Errorf("%w: two lines have a document of the id %q", ErrJob, id)
		}
		n.seen[id] = true
		key := "topic " + topics[i]
		if topics[i] == "" {
			key = fmt.Sprintf("document %d %d", task, about.Groups[i])
		} else {
			n.topics++
		}
		number, ok := n.number[key]
		if !ok {
			number = int32(len(n.number))
			n.number[key] = number
		}
		about.Groups[i] = number
	}
	return nil
}
