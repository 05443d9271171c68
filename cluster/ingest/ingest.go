// Package ingest makes a base of documents with many workers: the rows that 'sluice ingest' gives.
//
//	JSON lines, or the files of a folder → blocks → documents → chunks → vectors, words → segments → manifest
//
// A task puts its block into a store of its own, by package rag/ingest, and writes the store's rows as a segment.
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
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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
	Collection string         `json:"collection"` // rag/ingest.Options
	File       string         `json:"file"`       // name of the lines' file, whose words an index has
	Chunk      string         `json:"chunk"`      // rag/ingest.Options
	NoChunk    bool           `json:"no_chunk"`
	Language   string         `json:"language"`
	Lines      []string       `json:"lines"`  // objects of JSON lines, one for each task
	Folder     string         `json:"folder"` // name of the folder of Files
	Files      [][]File       `json:"files"`  // instead of Lines: files of a folder, for each task
}

// File is a file of a folder.
type File struct {
	Name   string `json:"name"` // relative to the folder, with slashes
	Object string `json:"object"`
}

// Made is what tasks give.
type Made struct {
	Segments []Segment `json:"segments"`
	Skipped  []Skipped `json:"skipped"`
}

// Skipped is a file, or a part of one, that was not read.
type Skipped struct {
	Task int64  `json:"task"`
	Name string `json:"name"` // relative to the folder
	Why  string `json:"why"`
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

// BeginFolder divides the files below a folder, or the objects of a bucket that an address names (objects.Open), into
// blocks of about some bytes, uploads them, and writes the job. skip is told of each file that is left out here, as
// 'sluice ingest' would leave it out.
func BeginFolder(ctx context.Context, s *objects.Store, folder string, j Job, bytesOf int, skip func(corpus.Skipped)) (
	job string, err error) {
	if strings.Contains(folder, "://") {
		dir, err := os.MkdirTemp("", "sluice-folder-*")
		if err != nil {
			return "", err
		}
		defer os.RemoveAll(dir)
		name, err := folderOf(folder)
		if err != nil {
			return "", err
		}
		if err := objects.Fetch(ctx, folder, filepath.Join(dir, name)); err != nil {
			return "", err
		}
		folder = filepath.Join(dir, name)
		tell := skip
		skip = func(k corpus.Skipped) { // the copy is gone when somebody reads its name
			if name, err := filepath.Rel(folder, k.Source); err == nil {
				k.Source = name
			}
			tell(k)
		}
	}
	info, err := os.Stat(folder)
	if err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	if j.Folder = filepath.Base(folder); !info.IsDir() || bytesOf < 1 || !filepath.IsLocal(j.Folder) {
		return "", fmt.Errorf("%w: %s, blocks of %d bytes: a folder with a name is wanted", ErrJob, folder, bytesOf)
	}
	o := ingest.DefaultOptions()
	files, err := corpus.List(ctx, []string{folder}, corpus.LoadOptions{FileOptions: o.Files, OnSkip: skip})
	if err != nil {
		return "", err
	}
	var block []File
	size := 0
	for _, f := range files {
		if f.Info.Size() > o.MaxFileBytes {
			skip(corpus.Skipped{Source: f.Path, Err: fmt.Errorf("%w: %d bytes, at most %d", corpus.ErrTooLarge,
				f.Info.Size(), o.MaxFileBytes)})
			continue
		}
		data, err := os.ReadFile(f.Path)
		if err != nil {
			skip(corpus.Skipped{Source: f.Path, Err: err})
			continue
		}
		name, err := s.Put(ctx, "files", data)
		if err != nil {
			return "", err
		}
		block = append(block, File{f.Name, name})
		if size += len(data); size >= bytesOf {
			j.Files, block, size = append(j.Files, block), nil, 0
		}
	}
	if len(block) > 0 {
		j.Files = append(j.Files, block)
	}
	if len(j.Files) == 0 {
		return "", fmt.Errorf("%w: no files below %s", ErrJob, folder)
	}
	return s.PutJSON(ctx, "job", j)
}

// folderOf names the folder of the objects at an address: the last part of their prefix, or the bucket.
func folderOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrJob, err)
	}
	name := path.Base(cmp.Or(strings.Trim(u.Query().Get("prefix"), "/"), strings.Trim(u.Path, "/"), u.Host))
	if !filepath.IsLocal(name) || name == "." {
		return "", fmt.Errorf("%w: %s names no folder", ErrJob, address)
	}
	return name, nil
}

// Segments is the step that makes segments.
type Segments struct{ job Job }

// OpenSegments opens the step of a job.
func OpenSegments(ctx context.Context, s *objects.Store, job string) (*Segments, error) {
	g := &Segments{}
	return g, s.GetJSON(ctx, job, &g.job)
}

// Tasks returns the number of blocks.
func (g *Segments) Tasks() int64 { return int64(len(g.job.Lines) + len(g.job.Files)) }

// fetch writes a block below a folder, and returns the path to ingest.
func (g *Segments) fetch(ctx context.Context, s *objects.Store, task int64, dir string) (place string, err error) {
	files, place := []File{{g.job.File, ""}}, filepath.Join(dir, g.job.File)
	if g.job.Files == nil {
		files[0].Object = g.job.Lines[task]
	} else {
		files, dir = g.job.Files[task], filepath.Join(dir, g.job.Folder)
		place = dir
	}
	for _, f := range files {
		data, err := s.Get(ctx, f.Object)
		if err != nil {
			return "", err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return "", fmt.Errorf("%w: a file %q", ErrJob, f.Name)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, data, 0o600)); err != nil {
			return "", err
		}
	}
	return place, nil
}

// Do makes the segment of a block.
func (g *Segments) Do(ctx context.Context, s *objects.Store, task int64) (name string, err error) {
	if task < 0 || task >= g.Tasks() {
		return "", fmt.Errorf("%w: task %d of %d", ErrJob, task, g.Tasks())
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
	place, err := g.fetch(ctx, s, task, filepath.Join(dir, "files"))
	if err != nil {
		return "", err
	}
	b := knowledge.New(knowledge.Config{Dir: filepath.Join(dir, "store"), Engine: process.Engine, Metric: g.job.Metric,
		Encoder: func(ctx context.Context) (embed.Embedder, error) { return process.Encoder(ctx, g.job.Encoder) }})
	defer func() { err = errors.Join(err, b.Close()) }()
	o := ingest.DefaultOptions()
	o.Collection, o.NoChunk, o.Language, o.Strict = g.job.Collection, g.job.NoChunk, g.job.Language, true
	o.Chunk = cmp.Or(g.job.Chunk, o.Chunk)
	var made Made
	if g.job.Files != nil {
		o.Strict, o.Files.Hidden, o.Files.NoIgnore = false, true, true // BeginFolder has left out what is ignored
		o.OnSkip = func(k corpus.Skipped) {
			name, err := filepath.Rel(place, k.Source)
			if err != nil {
				name = k.Source
			}
			why := strings.ReplaceAll(fmt.Sprint(k.Err), place+string(filepath.Separator), "")
			made.Skipped = append(made.Skipped, Skipped{task, filepath.ToSlash(name), why})
		}
	}
	switch _, err := ingest.Run(ctx, b, ingest.Input{Paths: []string{place}, Options: o}); {
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
		sum.Segments, sum.Skipped = append(sum.Segments, m.Segments...), append(sum.Skipped, m.Skipped...)
	}
	slices.SortStableFunc(sum.Skipped, func(a, b Skipped) int { return cmp.Compare(a.Task, b.Task) })
	slices.SortFunc(sum.Segments, func(a, b Segment) int { return cmp.Compare(a.Task, b.Task) })
	for i, x := range sum.Segments[min(1, len(sum.Segments)):] {
		if x.Task == sum.Segments[i].Task {
			return "", fmt.Errorf("%w: block %d is there twice", ErrJob, x.Task)
		}
	}
	return s.PutJSON(ctx, "made", sum)
}

// Finish numbers contexts and groups of the segments of a job, as a store of them all does, and writes the manifest. It
// returns what the workers have skipped.
func Finish(ctx context.Context, s *objects.Store, job, sum string) (of string, skipped []Skipped, err error) {
	var j Job
	var made Made
	if err := errors.Join(s.GetJSON(ctx, job, &j), s.GetJSON(ctx, sum, &made)); err != nil {
		return "", nil, err
	}
	of, err = made.base(ctx, s, j.Metric)
	return of, made.Skipped, err
}

func (made *Made) base(ctx context.Context, s *objects.Store, metric kernels.Metric) (of string, err error) {
	if len(made.Segments) == 0 {
		return "", fmt.Errorf("%w: there is no document", ErrJob)
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
			return fmt.Errorf("%w: two documents have the id %q", ErrJob, id)
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
