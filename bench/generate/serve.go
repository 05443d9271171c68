package generate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/llm"
)

// request is a line to a worker. Op is open (Capacity), fit (Texts cut to Tokens) or run (Batch).
type request struct {
	Op       string    `json:"op"`
	Capacity *capacity `json:"capacity,omitempty"`
	Texts    []string  `json:"texts,omitempty"`
	Tokens   int       `json:"tokens,omitempty"`
	Batch    *batch    `json:"batch,omitempty"`
}

// reply is the line that comes back: an error, or what was asked for.
type reply struct {
	Error  string       `json:"error,omitempty"`
	Model  *modelInfo   `json:"model,omitempty"`
	Texts  []string     `json:"texts,omitempty"`
	Result *batchResult `json:"result,omitempty"`
}

type modelInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	SHA256      string `json:"sha256"`
	Bytes       int64  `json:"bytes"`
	ISA         string `json:"isa"` // that llama.cpp runs on in the worker
}

// generator has the methods of a model that a worker needs.
type generator interface {
	llm.Generator
	Close() error
}

// opener opens a model; tests have their own.
type opener func(context.Context, string, llm.Options) (generator, error)

func openModel(ctx context.Context, path string, o llm.Options) (generator, error) {
	m, err := llm.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Serve is Sluice's competitor: it answers requests, a line of JSON each, until in ends, which also cancels
// a request that is running. A failed request is answered with its error.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	return serve(ctx, in, out, openModel)
}

func serve(ctx context.Context, in io.Reader, out io.Writer, open opener) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := make(chan []byte), make(chan error, 1)
	go func() { // ends when the other end of in is closed
		defer stop()
		r := bufio.NewReaderSize(in, 1<<16)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed <- err
				}
				return
			}
			select {
			case lines <- line:
			case <-ctx.Done():
				return
			}
		}
	}()
	w := worker{open: open}
	defer w.close()
	encode := json.NewEncoder(out)
	for {
		select {
		case line := <-lines:
			if err := encode.Encode(w.reply(ctx, line)); err != nil {
				return fmt.Errorf("bench: writing a reply: %w", err)
			}
		case <-ctx.Done():
			select {
			case err := <-failed:
				return fmt.Errorf("bench: reading requests: %w", err)
			default:
				return nil
			}
		}
	}
}

// worker holds the model that Serve opened.
type worker struct {
	open  opener
	model generator
}

func (w *worker) close() {
	if w.model != nil {
		_ = w.model.Close() // never fails
	}
}

var errRequest = errors.New("bench: not a request that a worker can answer")

func (w *worker) reply(ctx context.Context, line []byte) reply {
	var q request
	var a reply
	err := json.Unmarshal(line, &q)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %w", errRequest, err)
	case q.Op == "open" && q.Capacity != nil && w.model == nil:
		a.Model, err = w.begin(ctx, *q.Capacity)
	case q.Op == "fit" && w.model != nil:
		a.Texts = make([]string, len(q.Texts))
		for i, text := range q.Texts {
			if a.Texts[i], err = fit(w.model.CountTokens, text, q.Tokens); err != nil {
				break
			}
		}
	case q.Op == "run" && q.Batch != nil && w.model != nil:
		a.Result, err = generateAll(ctx, w.model, *q.Batch)
	default:
		err = fmt.Errorf("%w: %q", errRequest, q.Op)
	}
	if err != nil {
		return reply{Error: err.Error()}
	}
	return a
}

func (w *worker) begin(ctx context.Context, c capacity) (*modelInfo, error) {
	m, err := w.open(ctx, c.Model, llm.Options{
		ContextSize: c.Cells, CacheTokens: c.Slots * c.Cells, Slots: c.Slots, BatchSize: c.Batch, Threads: c.Threads,
		GPULayers: c.GPULayers, GPULibrary: c.GPULibrary, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	w.model = m
	i := m.Info()
	return &modelInfo{Name: i.Name, Description: i.Description, SHA256: i.SHA256, Bytes: i.Bytes, ISA: llm.ISA()}, nil
}

// generateAll sends all prompts of a batch at once.
func generateAll(ctx context.Context, m llm.Generator, b batch) (*batchResult, error) {
	return atOnce(len(b.Prompts), func(i int, begin time.Time) (completion, error) {
		var c completion
		res, err := m.Generate(ctx, llm.Request{Prompt: b.Prompts[i], MaxTokens: b.MaxTokens}, func(string) error {
			if c.First == 0 {
				c.First = time.Since(begin)
			}
			return nil
		})
		c.Latency = time.Since(begin)
		c.Prompt, c.Cached, c.Made = res.PromptTokens, res.CachedTokens, res.CompletionTokens
		c.Stopped, c.Text = res.Finish == llm.FinishStop, res.Text
		c.PromptTime, c.DecodeTime = res.PromptTime, res.DecodeTime
		return c, err
	})
}

// atOnce runs n requests in goroutines that begin together and returns when all have ended.
func atOnce(n int, request func(i int, begin time.Time) (completion, error)) (*batchResult, error) {
	t := &batchResult{Completions: make([]completion, n)}
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	var begin time.Time
	for i := range n {
		all.Go(func() {
			<-start
			if t.Completions[i], errs[i] = request(i, begin); t.Completions[i].First == 0 {
				t.Completions[i].First = t.Completions[i].Latency
			}
		})
	}
	begin = time.Now()
	close(start)
	all.Wait()
	t.Wall = time.Since(begin)
	return t, errors.Join(errs...)
}
