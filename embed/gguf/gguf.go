// Package gguf embeds texts by a model in a GGUF file, which llama.cpp computes: encoders as BERT, and decoders that
// were trained to give vectors (Qwen3-Embedding).
//
// Pooling, the longest text and the tokenizer are the file's. A model.yaml beside it (package embed describes it) goes
// before, and has the prefixes of queries and documents, which files do not have.
package gguf

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/filehash"
	"github.com/sluice-rag/sluice/internal/regular"
	"github.com/sluice-rag/sluice/llm"
)

// Options of Open. The zero value is a sensible default.
type Options struct {
	Name        string                // of the model in Info; "": what model.yaml calls it, else the file
	BatchTokens int                   // tokens computed together; 0: 512, or a longer text alone
	Progress    func(done, total int) // texts; called from one goroutine at a time; may be nil
	Cores       *cores.Budget         // the process's CPU budget; nil: every core
}

// Encoder implements embed.Embedder. Close it after use. It is safe for concurrent use.
type Encoder struct {
	model    *llm.Encoder
	set      *embed.ModelSettings
	info     embed.Info
	closing  int // special tokens at the end of a text
	progress func(done, total int)

	mu    sync.Mutex // guards stats, and serialises progress
	stats embed.Stats
}

var _ embed.Embedder = (*Encoder)(nil)

// begins reports whether a file begins as GGUF files do; those of Ollama are named after their digests.
func begins(path string) bool {
	f, err := regular.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == "GGUF"
}

// Find returns the GGUF file that a path is, or the only one in the folder that it is; ok is false where there is
// none, or model.safetensors or an ONNX graph beside it.
func Find(path string) (file string, ok bool) {
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return path, err == nil && (strings.EqualFold(filepath.Ext(path), ".gguf") || begins(path))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		switch {
		case e.Name() == "model.safetensors" || e.Name() == "model.onnx":
			return "", false
		case strings.EqualFold(filepath.Ext(e.Name()), ".gguf") && file == "":
			file = e.Name()
		}
	}
	return filepath.Join(path, file), file != ""
}

// Open loads the encoder in a file. It fails as llm.OpenEncoder does, and with embed.ErrModel for its model.yaml.
func Open(ctx context.Context, file string, o Options) (*Encoder, error) {
	set, err := embed.ReadGGUFSettings(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	lo := llm.EncoderOptions{Pooling: string(set.Pooling), MaxTokens: set.MaxTokens, Cores: o.Cores}
	if o.BatchTokens > 0 && set.MaxTokens > 0 {
		lo.BatchTokens = max(o.BatchTokens, set.MaxTokens)
	}
	model, err := llm.OpenEncoder(ctx, file, lo)
	if err != nil {
		return nil, err
	}
	set.Name = cmp.Or(o.Name, set.Name)
	e := &Encoder{model: model, set: set, progress: o.Progress}
	if err := e.describe(ctx, file); err != nil {
		_ = model.Close() // cannot fail
		return nil, err
	}
	return e, nil
}

// describe fills in what the model says.
func (e *Encoder) describe(ctx context.Context, file string) error {
	empty, err := e.model.Tokenize("")
	if err != nil {
		return err
	}
	word, err := e.model.Tokenize("a")
	if err != nil {
		return err
	}
	for e.closing < min(len(empty), len(word)) && empty[len(empty)-1-e.closing] == word[len(word)-1-e.closing] {
		e.closing++
	}
	o, m := e.model.Options(), e.model.Info()
	if o.MaxTokens <= len(empty) {
		return fmt.Errorf("%s: %w: max_tokens is %d, the special tokens alone are %d", file, embed.ErrModel,
			o.MaxTokens, len(empty))
	}
	e.set.Pooling, e.set.MaxTokens = onnx.Pooling(o.Pooling), o.MaxTokens
	sum, err := filehash.Sum(ctx, file)
	if err != nil {
		return err
	}
	e.info = embed.Info{Dir: filepath.Dir(file), MaxTokens: o.MaxTokens, Architecture: m.Architecture,
		Languages: strings.Join(e.set.Languages, " "), Normalised: e.set.Normalise,
		Runtime: embed.Runtime{Library: "llama.cpp " + llm.NativeDigest(), Provider: "cpu", ISA: llm.ISA(),
			Precision: "gguf"}}
	tokenizer := "sha256:" + sum // it is in the file
	digest, err := embed.Digest(ctx, []string{file}, tokenizer, "gguf "+m.Architecture, e.set, "")
	e.info.Encoder = identity.Encoder{Name: cmp.Or(e.set.Name, m.Name), Dim: e.model.Dim(), Digest: digest,
		TokenizerDigest: tokenizer}
	return err
}

// Info implements embed.Embedder.
func (e *Encoder) Info() embed.Info { return e.info }

// Stats counts what it has computed.
func (e *Encoder) Stats() embed.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// Close waits for the calls under way and frees the model; later calls return llm.ErrClosed.
func (e *Encoder) Close() error { return e.model.Close() }

// CountTokens implements embed.Embedder.
func (e *Encoder) CountTokens(text string) (int, error) {
	text, _ = embed.Repair(text)
	ids, err := e.model.Tokenize(e.set.DocumentPrefix + text)
	return len(ids), err
}

// Embed implements embed.Embedder. A cancelled ctx ends it.
func (e *Encoder) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	prefix := e.set.DocumentPrefix
	if role == embed.Query {
		prefix = e.set.QueryPrefix
	}
	out := &embed.Embeddings{Data: make([]float32, len(texts)*e.info.Dim), Dim: e.info.Dim,
		Tokens: make([]int, len(texts))}
	all := make([][]int32, len(texts))
	order := make([]int, len(texts)) // by length, so that the texts of a batch are alike
	for i, text := range texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, repaired := embed.Repair(text)
		ids, err := e.model.Tokenize(prefix + text)
		if err != nil {
			return nil, err
		}
		if limit := e.info.MaxTokens; len(ids) > limit {
			ids = append(ids[:limit-e.closing], ids[len(ids)-e.closing:]...)
			out.Truncated++
		}
		if repaired {
			out.Repaired++
		}
		all[i], order[i], out.Tokens[i] = ids, i, len(ids)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(all[b]) - len(all[a]) })
	e.mu.Lock()
	e.stats.Calls++
	e.mu.Unlock()
	for done := 0; done < len(order); {
		n := e.fits(all, order[done:])
		if err := e.embed(ctx, all, order[done:done+n], out); err != nil {
			return nil, err
		}
		done += n
		e.report(done, len(order))
	}
	return out, nil
}

// fits returns how many of the texts go into one batch.
func (e *Encoder) fits(all [][]int32, order []int) int {
	n, tokens := 0, 0
	for n < len(order) && n < llm.EncoderTexts && tokens+len(all[order[n]]) <= e.model.Options().BatchTokens {
		tokens += len(all[order[n]])
		n++
	}
	return n
}

// embed computes the vectors of a batch.
func (e *Encoder) embed(ctx context.Context, all [][]int32, batch []int, out *embed.Embeddings) error {
	dim := out.Dim
	rows := make([]float32, len(batch)*dim)
	ids, tokens := make([][]int32, len(batch)), 0
	for i, text := range batch {
		ids[i] = all[text]
		tokens += len(ids[i])
	}
	if err := e.model.Encode(ctx, ids, rows); err != nil {
		return err
	}
	for i, text := range batch {
		row := rows[i*dim : (i+1)*dim]
		if e.set.Normalise {
			embed.Normalise(row)
		}
		copy(out.Row(text), row)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stats.Batches++
	e.stats.Texts += int64(len(batch))
	e.stats.Tokens += int64(tokens)
	return nil
}

func (e *Encoder) report(done, total int) {
	if e.progress != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.progress(done, total)
	}
}
