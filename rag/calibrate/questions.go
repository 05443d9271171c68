package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/knowledge"
	"github.com/sluice-rag/sluice/rag/pairs"
	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/rag/pseudo"
	"github.com/sluice-rag/sluice/rag/store"
)

// run is one call of Run.
type run struct {
	Input
	base       *knowledge.Base
	snap       *knowledge.Snapshot
	live       *store.Live // of snap
	enc        embed.Embedder
	dir        string // of artifacts and journals
	queries    []pseudo.Query
	provenance gate.Provenance
	report     *pseudo.Report
	names      [][32]byte // digests of the questions that vectors keeps
	vectors    *questionVectors
	counted    pairs.Report
	draw       *draw // finds the size of the sample; nil where it is given
}

func (c *run) progress(stage string, done, total int64) {
	if c.Progress != nil {
		c.Progress(stage, done, total)
	}
}

func (c *run) questions(ctx context.Context) error {
	if c.draw == nil || c.Queries == nil {
		c.provenance = gate.Provenance{PerContext: c.PerContext, Seed: c.Seed, Rejected: map[string]int{}}
	}
	if c.Queries == nil {
		return c.produce(ctx)
	}
	if c.draw != nil { // they were read in the first round
		return nil
	}
	if err := c.read(); err != nil || c.Sample != 0 || !c.Precise {
		return err
	}
	about := make(map[string]bool, len(c.queries))
	for _, q := range c.queries {
		about[q.ContextID] = true
	}
	c.draw = newDraw(c.live.TextDigests, func(row int) bool { return about[c.live.IDs[row]] }, c.Options)
	return nil
}

// read takes the pseudo-queries from the file.
func (c *run) read() (err error) {
	digest := sha256.New()
	bad := 0
	onBad := func(line int, err error) {
		bad++
		if c.OnBad != nil {
			c.OnBad(line, err)
		}
	}
	c.queries, err = pseudo.Read(io.TeeReader(c.Queries, digest),
		pseudo.ReadOptions{Strict: c.Strict, OnBad: onBad, PerContext: c.PerContext})
	if err != nil {
		return fmt.Errorf("%s: %w", c.Source, err)
	}
	c.provenance.Kind, c.provenance.Source = "file", c.Source
	c.provenance.SHA256 = hex.EncodeToString(digest.Sum(nil))
	if bad > 0 {
		c.provenance.Rejected["bad_line"] = bad
	}
	return nil
}

// prompter returns how questions are asked for: by the template "questions" where the user has replaced it or the
// model is a server's, which often takes messages only; else in the way that small models do best.
func (c *run) prompter(gen llm.Generator) (pseudo.Prompter, error) {
	library, err := prompt.Open(c.Templates)
	if err != nil {
		return nil, err
	}
	if _, isRemote := gen.(*remote.Generator); isRemote || library.Replaced("questions") {
		return pseudo.Chat{Library: library}, nil
	}
	return pseudo.OneShot{}, nil
}

// produce has the language model write questions, or extracts them from the contexts where its scorecard says that
// extracted ones are more like people's.
func (c *run) produce(ctx context.Context) error {
	if how := c.Options.Questions; how == "" || how == "auto" {
		asks, err := c.asks(ctx)
		switch {
		case err != nil:
			return err
		case asks:
			c.Options.Questions = Written
		case c.Strict:
			return fmt.Errorf("%w: by its scorecard, the language model writes questions that are less like "+
				"people's than extracted ones", ErrQuestions)
		default:
			c.Options.Questions = Extracted
		}
	}
	return c.write(ctx)
}

// asks reports whether the language model is to write questions.
func (c *run) asks(ctx context.Context) (bool, error) {
	if c.Card == nil {
		return true, nil
	}
	card, err := c.Card(ctx)
	if err != nil {
		return false, err
	}
	chunks, err := c.snap.Chunks(ctx, c.live.IDs[:min(len(c.live.IDs), languageOf)])
	if err != nil {
		return false, err
	}
	var texts []string
	for _, chunk := range chunks {
		texts = append(texts, chunk.Text)
	}
	code, err := c.language(ctx, texts)
	return card.Asks(code), err
}

// languageOf is the number of contexts whose texts tell the base's language, where the documents do not say it.
const languageOf = 8

// took keeps the questions that were made and where they come from.
func (c *run) took(queries []pseudo.Query, report pseudo.Report, chunks int, err error) error {
	if c.draw != nil {
		c.draw.n = report.Contexts
	}
	if err != nil {
		return err
	}
	c.queries, c.report = queries, &report
	if c.provenance.Kind, c.provenance.Sample = "generated", c.Sample; report.Extracted {
		c.provenance.Kind = Extracted
	}
	if c.draw != nil {
		c.provenance.Sample = report.Contexts
	}
	if c.provenance.Sample >= chunks {
		c.provenance.Sample = 0
	}
	for reason, n := range report.Rejected {
		c.provenance.Rejected[string(reason)] = n
	}
	return nil
}

// write makes the questions: the language model writes them, or they are extracted from the contexts' words.
func (c *run) write(ctx context.Context) error {
	chunks, err := c.snap.Chunks(ctx, c.live.IDs)
	if err != nil {
		return err
	}
	contexts := pseudo.Contexts{Vectors: c.live.Vectors, Chunks: chunks}
	o := pseudo.Options{PerContext: c.PerContext, Sample: c.Sample, Seed: c.Seed, Metric: c.snap.Metric(),
		Progress: func(done, total int) { c.progress("pseudo-queries", int64(done), int64(total)) }}
	if c.Options.Questions == Extracted {
		if err := c.sample(llm.Info{}, chunks, &o); err != nil {
			return err
		}
		queries, report, err := pseudo.Extract(ctx, c.base.Engine(), contexts, o)
		return c.took(queries, report, len(chunks), err)
	}
	gen, err := c.Model(ctx)
	if err != nil {
		return err
	}
	if o.Prompter, err = c.prompter(gen); err != nil {
		return err
	}
	o.Parallel, o.RankLimit = c.Parallel, c.RankLimit
	o.Journal = c.kept("journal", gen.Info(), fmt.Sprintf(" %d %d", c.PerContext, c.Seed))
	if err := inherit(o.Journal); err != nil {
		return err
	}
	if err := c.sample(gen.Info(), chunks, &o); err != nil {
		return err
	}
	queries, report, err := pseudo.Generate(ctx, gen, c.enc, c.base.Engine(), contexts, o)
	c.provenance.Model, c.provenance.ModelSHA256 = gen.Info().Name, gen.Info().SHA256
	return c.took(queries, report, len(chunks), err)
}

// sample sets which contexts are asked about.
func (c *run) sample(model llm.Info, chunks []corpus.Chunk, o *pseudo.Options) error {
	if a := c.follows; a != nil && (model.SHA256 != a.Queries.ModelSHA256 || model.SHA256 == "" &&
		model.Name != a.Queries.Model) {
		if c.Few {
			return fmt.Errorf("%w: they were written by %s, and the model in use is %s", ErrQuestions, a.Queries.Model,
				model.Name)
		}
		c.follows = nil // another model writes all questions anew
	}
	if c.Sample == 0 && c.draw == nil {
		c.draw = newDraw(c.live.TextDigests, func(int) bool { return true }, c.Options)
	}
	if c.draw != nil {
		o.Rows, o.More = c.draw.rows(), c.draw.more
		return nil
	}
	o.Rows = c.rows(chunks, o.Journal)
	return nil
}

// inherit begins a journal with the longest one of another calibration that has asked the same model in the same way:
// one that was derived from it has written no questions of its own.
func inherit(journal string) error {
	if _, err := os.Stat(journal); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, name := filepath.Split(journal)
	suffix := name[len(name)-journalSuffix:]
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	longest, size := "", int64(0)
	for _, e := range entries {
		if i, err := e.Info(); strings.HasSuffix(e.Name(), suffix) && err == nil && i.Size() > size {
			longest, size = e.Name(), i.Size()
		}
	}
	if longest == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(dir, longest))
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.Replace(journal, func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	})
}

// journalSuffix is how long the part of a journal's name is that does not depend on the calibration's.
const journalSuffix = len(".01234567.journal.jsonl")

// kept returns the path of the file that keeps the calibration's results of a kind. Its name contains a digest of the
// model and the options that the content depends on.
func (c *run) kept(kind string, model llm.Info, options string) string {
	identity := model.SHA256
	if identity == "" { // a server does not tell
		identity = model.Path + "#" + model.Name
	}
	sum := sha256.Sum256([]byte(identity + options))
	return filepath.Join(c.dir, fmt.Sprintf("%s.%x.%s.jsonl", c.Name, sum[:4], kind))
}
