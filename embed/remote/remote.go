package remote

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/llm/remote"
)

// Options say which server and model embed.
type Options struct {
	// Server is how the server is asked. Its Model must be named; ContextSize is where texts are cut, in tokens, 0 is
	// DefaultTokens; TokenEstimate is the mean number of bytes of a token, by which they are counted, 0 is 3.
	// Extensions are not used.
	Server   remote.Options
	Workers  int                   // requests at the same time; 0 is 4
	Progress func(done, total int) // texts; called from one goroutine at a time; may be nil
}

// DefaultTokens is where texts are cut unless Options say otherwise: about what the common models read.
const DefaultTokens = 8192

const (
	defaultWorkers  = 4
	defaultEstimate = 3
	batchTexts      = 64        // of one request
	batchBytes      = 128 << 10 // of one request, unless one text has more
	maxDim          = 1 << 16
)

// Encoder implements embed.Embedder over a server. Close it after use.
type Encoder struct {
	server   *remote.Generator
	model    string
	info     embed.Info
	estimate float64
	workers  int

	reporting sync.Mutex // serialises progress
	progress  func(done, total int)
}

var _ embed.Embedder = (*Encoder)(nil)

// Open checks the options and has the server embed one word, whose vector has the number of dimensions. Errors:
// llm.ErrOptions; *remote.APIError, such as a wrong key; those of the network and of the answer.
func Open(ctx context.Context, o Options) (*Encoder, error) {
	if o.Server.Model == "" {
		return nil, fmt.Errorf("remote: %w: the encoder's model is not named: https://HOST/v1#MODEL", llm.ErrOptions)
	}
	o.Server.ContextSize = cmp.Or(o.Server.ContextSize, DefaultTokens)
	e := &Encoder{model: o.Server.Model, estimate: o.Server.TokenEstimate, workers: o.Workers, progress: o.Progress}
	e.estimate = cmp.Or(e.estimate, defaultEstimate)
	if e.workers < 1 {
		e.workers = defaultWorkers
	}
	o.Server.Extensions = remote.NoExtensions
	var err error
	if e.server, err = remote.Open(ctx, o.Server); err != nil { // asks nothing: model and context size are given
		return nil, err
	}
	rows, err := e.ask(ctx, []string{"sluice"})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.info = embed.Info{Dir: e.server.Endpoint(), MaxTokens: o.Server.ContextSize, Architecture: "remote"}
	e.info.Encoder = identity.Encoder{Name: e.server.Endpoint() + "#" + e.model, Dim: len(rows[0]),
		Digest: digest("encoder", e.server.Endpoint(), e.model, len(rows[0]), o.Server.ContextSize,
			e.estimate),
		TokenizerDigest: digest("tokenizer", e.server.Endpoint(), e.model)}
	return e, nil
}

// digest covers what is known of a server's model.
func digest(of ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "remote %q", of))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Close ends the requests under way and closes the connections.
func (e *Encoder) Close() error { return e.server.Close() }

// Info identifies the encoder. Dir is the base URL that texts are sent to.
func (e *Encoder) Info() embed.Info { return e.info }

// Notice says in one line where text goes, for those who run the program.
func (e *Encoder) Notice() string {
	if e.server.Local() {
		return fmt.Sprintf("documents and questions go to another process to be embedded: %s, model %s",
			e.server.Endpoint(), e.model)
	}
	return fmt.Sprintf("text leaves this machine: documents and questions go to %s to be embedded, model %s",
		e.server.Endpoint(), e.model)
}

// CountTokens estimates: the protocol has no way to ask.
func (e *Encoder) CountTokens(text string) (int, error) {
	return int(math.Ceil(float64(len(text)) / e.estimate)), nil
}

// Embed sends the texts in requests of up to 64, several at the same time. Errors beside the context's:
// llm.ErrClosed, llm.ErrPromptTooLong where the server says so, *remote.APIError, remote.ErrResponse and the other
// errors of llm/remote.
func (e *Encoder) Embed(ctx context.Context, texts []string, _ embed.Role) (*embed.Embeddings, error) {
	out := &embed.Embeddings{Dim: e.info.Dim, Data: make([]float32, len(texts)*e.info.Dim),
		Tokens: make([]int, len(texts))}
	sent := make([]string, len(texts))
	for i, text := range texts {
		var cut, repaired bool
		sent[i], cut, repaired = e.fit(text)
		if cut {
			out.Truncated++
		}
		if repaired {
			out.Repaired++
		}
		out.Tokens[i], _ = e.CountTokens(sent[i]) // an estimate does not fail
	}
	var done atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(e.workers)
	for next := 0; next < len(sent); {
		from, to := next, batchEnd(sent, next)
		next = to
		g.Go(func() (err error) {
			defer panics.Into(&err)
			rows, err := e.ask(ctx, sent[from:to])
			if err != nil {
				return err
			}
			for i, row := range rows {
				copy(out.Row(from+i), row)
			}
			e.report(int(done.Add(int64(to-from))), len(texts))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// batchEnd returns the end of the request that begins with text from.
func batchEnd(texts []string, from int) int {
	to, bytes := from, 0
	for to < len(texts) && to-from < batchTexts && (to == from || bytes+len(texts[to]) <= batchBytes) {
		bytes += len(texts[to])
		to++
	}
	return to
}

// fit returns a text as it can be sent: valid UTF-8 without NUL, of at most MaxTokens, and not empty, which servers
// refuse.
func (e *Encoder) fit(text string) (fitting string, cut, repaired bool) {
	fitting = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
	repaired = fitting != text
	if most := int(float64(e.info.MaxTokens) * e.estimate); len(fitting) > most {
		for most > 0 && !utf8.RuneStart(fitting[most]) {
			most--
		}
		fitting, cut = fitting[:most], true
	}
	fitting = cmp.Or(fitting, " ")
	return fitting, cut, repaired
}

func (e *Encoder) report(done, total int) {
	e.reporting.Lock()
	defer e.reporting.Unlock()
	if e.progress != nil {
		e.progress(done, total)
	}
}

// ask has the server embed texts, and checks what it sends: a vector of finite numbers for each, of one length.
func (e *Encoder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	var got struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	in := map[string]any{"model": e.model, "input": texts, "encoding_format": "float"}
	if err := e.server.Post(ctx, "embeddings", in, &got); err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("remote: %w: %s: %s", remote.ErrResponse, e.server.Endpoint(), fmt.Sprintf(format, args...))
	}
	if len(got.Data) != len(texts) {
		return nil, bad("%d vectors for %d texts", len(got.Data), len(texts))
	}
	dim := cmp.Or(e.info.Dim, len(got.Data[0].Embedding))
	rows := make([][]float32, len(texts))
	for _, d := range got.Data {
		switch {
		case d.Index < 0 || d.Index >= len(rows) || rows[d.Index] != nil:
			return nil, bad("the vector of text %d comes twice or was not asked for", d.Index)
		case len(d.Embedding) != dim || dim == 0 || dim > maxDim:
			return nil, bad("a vector of %d components, %d expected", len(d.Embedding), dim)
		}
		row, ok := unit(d.Embedding)
		if !ok {
			return nil, bad("the vector of text %d is zero, or has components that are not numbers", d.Index)
		}
		rows[d.Index] = row
	}
	return rows, nil
}

// unit returns a vector with length 1; ok is false where it has none.
func unit(v []float64) (out []float32, ok bool) {
	var sum float64
	for _, x := range v {
		sum += x * x
	}
	norm := math.Sqrt(sum)
	if !(norm > 0) || math.IsInf(norm, 0) {
		return nil, false
	}
	out = make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x / norm)
	}
	return out, true
}
