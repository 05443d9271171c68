package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/eval/dataset"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/calibrate"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/ingest"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
)

// session is an open store with the models of the cells that share it.
type session struct {
	*sluice.Sluice
	key, gate string // what is open; the policy in force
	router    *route.Router
	// references are the statistics of the calibration's questions, ascending, by gate and statistic.
	references map[string][]float64
}

// session opens what a cell needs, or returns what is open already.
func (r *run) session(ctx context.Context, c Cell, d *data) (*session, error) {
	key := c.store() + " " + c.Generator.Model
	if r.open != nil && r.open.key == key {
		return r.open, nil
	}
	if err := r.closeSession(); err != nil {
		return nil, err
	}
	cfg := r.Config
	cfg.Store = filepath.Join(r.work, "store-"+c.store())
	cfg.Encoder, cfg.Precision = cmp.Or(c.Encoder.Name, cfg.Encoder), cmp.Or(c.Encoder.Precision, cfg.Precision)
	if c.Generator.Model != "" {
		model, err := r.model(c.Generator.Model)
		if err != nil {
			return nil, err
		}
		cfg.Model = model
	}
	cfg.Metric = kernels.Cosine
	s, err := sluice.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.open = &session{Sluice: s, key: key, references: map[string][]float64{}}
	return r.open, r.ingest(ctx, c, d)
}

func (r *run) closeSession() error {
	if r.open == nil {
		return nil
	}
	s := r.open
	r.open = nil
	return s.Close()
}

// ingest puts the base into the store; what is there stays.
func (r *run) ingest(ctx context.Context, c Cell, d *data) error {
	paths := d.files
	if len(paths) == 0 {
		path, err := r.writeBase(c, d)
		if err != nil {
			return fmt.Errorf("experiment: %w", err)
		}
		paths = []string{path}
	}
	o := ingest.Options{Strict: true, NoChunk: c.Chunker == "none" || c.Chunker == "" && len(d.files) == 0}
	if !o.NoChunk {
		size, semantic := strings.CutPrefix(c.Chunker, "semantic")
		if o.Chunk = strings.TrimSpace(size); semantic {
			o.Chunker = "semantic"
		}
	}
	in, err := r.open.Ingest(ctx, paths, o)
	if err != nil {
		return fmt.Errorf("experiment: %w", err)
	}
	enc, err := r.open.Models().Encoder(ctx)
	if err != nil {
		return err
	}
	if enc.Window > 0 {
		r.note(fmt.Sprintf("%s: %s reads %d tokens of a text in windows of at most %d; the text's vector is the mean of "+
			"theirs", c.Part, enc.Name, enc.MaxTokens, enc.Window))
	}
	if in.Truncated > 0 {
		r.note(fmt.Sprintf("%s: the encoder did not read %d of %d chunks to their end", c.Part, in.Truncated,
			in.Chunks))
	}
	return nil
}

// writeBase writes the contexts of a set for ingest, and returns the file or folder.
func (r *run) writeBase(c Cell, d *data) (path string, err error) {
	dir := filepath.Join(r.work, "base-"+digest([]any{c.Base, c.Data}))
	if err := durable.MkdirAll(dir); err != nil {
		return "", err
	}
	if c.Base.Documents {
		return dir, writeDocuments(dir, d.base)
	}
	path = filepath.Join(dir, dataset.ContextsFile)
	return path, dataset.WriteLines(path, d.base)
}

// writeDocuments makes a Markdown file of each topic: a title, then its contexts as paragraphs.
func writeDocuments(dir string, base []dataset.Context) error {
	var topics []string
	texts := map[string]*strings.Builder{}
	for _, c := range base {
		if texts[c.Topic] == nil {
			topics = append(topics, c.Topic)
			texts[c.Topic] = &strings.Builder{}
			fmt.Fprintf(texts[c.Topic], "# %s\n", strings.ReplaceAll(c.Topic, "_", " "))
		}
		fmt.Fprintf(texts[c.Topic], "\n%s\n", c.Text)
	}
	for i, t := range topics {
		name := filepath.Join(dir, fmt.Sprintf("%03d.md", i))
		if err := os.WriteFile(name, []byte(texts[t].String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// calibrated reports whether a cell needs a calibration.
func (c Cell) calibrated() bool { return c.System.Gate == "calibrated" || c.asksQuestions() }

// asksQuestions reports whether the search goes by the calibration's questions.
func (c Cell) asksQuestions() bool {
	return cmp.Or(retrieve.Mode(c.System.Mode), c.Retriever.named().Mode) == retrieve.PseudoQuery
}

// calibrate puts the policy of a cell in force.
func (r *run) calibrate(ctx context.Context, s *session, c Cell, d *data) (*calibrate.Result, error) {
	name := "eval-" + digest([]any{c.System.Policy, c.System.Score, c.System.Threshold, c.asksQuestions()})
	if s.gate == name && c.Kind != Distribution {
		return nil, nil
	}
	var lines strings.Builder
	e := json.NewEncoder(&lines)
	for _, q := range d.pseudo {
		if err := e.Encode(map[string]string{"context_id": q.ContextID, "text": q.Text}); err != nil {
			return nil, err
		}
	}
	if len(d.pseudo) == 0 {
		return nil, fmt.Errorf("%w: part %s: the data has no answerable question for a calibration", ErrMissing, c.Part)
	}
	second := ""
	if c.Kind == Gates || c.Kind == Distribution { // which retrieve nothing
		second = gate.NoSecond
	}
	cal, err := s.Calibrate(ctx, calibrate.Options{Name: name, Use: true, Policy: c.System.Policy, Second: second,
		Score: c.System.Score, Threshold: c.System.Threshold, KeepQuestions: c.asksQuestions(),
		PerContext: c.Base.Pseudo, Queries: strings.NewReader(lines.String()),
		Source: "first questions of each context", Seed: r.File.Seed})
	if err != nil {
		return nil, fmt.Errorf("experiment: part %s: %w", c.Part, err)
	}
	s.gate = name
	return cal, nil
}

// model returns the name or path of a generator. NAME:TYPE is NAME with its weights requantised, in a file of the run's
// folder; with Config.Generator, nothing is done.
func (r *run) model(name string) (string, error) {
	i := strings.LastIndexByte(name, ':')
	if i < 0 || strings.Contains(name[i:], "/") || r.Config.Generator != nil {
		return name, nil
	}
	name, kind := name[:i], name[i+1:]
	from, err := models.LocateGGUF(name)
	if err != nil {
		return "", err
	}
	to := filepath.Join(r.work, strings.TrimSuffix(filepath.Base(from), ".gguf")+"."+kind+".gguf")
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := llm.Requantise(from, to, kind); err != nil {
		return "", fmt.Errorf("experiment: %s as %s: %w", name, kind, err)
	}
	return to, nil
}
