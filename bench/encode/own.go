package encode

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-rag/sluice/embed"
)

// model is the encoder that all competitors run.
type model struct {
	dir  string
	info embed.Info
	size size
}

// own is one of Sluice's modes.
type own struct {
	Encoder
	precision string
}

// onGPU is the format of float32 on a GPU among the rows.
const onGPU = "f32 cuda"

// openOwn opens Sluice's modes, and reads the texts with the first one's tokenizer. The first mode must be there.
func (s *session) openOwn(ctx context.Context) error {
	for i, p := range s.o.Precisions {
		e, err := s.o.Open(ctx, p, s.o.Threads)
		if err != nil && i > 0 && ctx.Err() == nil {
			s.note("%s %s is left out: %v", Own, p, err)
			continue
		}
		if err != nil {
			return err
		}
		s.own = append(s.own, &own{e, p})
	}
	first := s.own[0]
	s.model = model{dir: first.Info().Dir, info: first.Info()}
	if err := s.model.read(); err != nil {
		return err
	}
	s.report.Model = s.model.info.Name
	if v := s.model.info.Runtime.Library; v != "" {
		s.report.Versions["runtime of "+Own] = v
	}
	var err error
	if s.texts, err = readTexts(s.o, first.CountTokens); err != nil {
		return err
	}
	for _, text := range s.texts.all {
		n, err := first.CountTokens(text)
		if err != nil {
			return err
		}
		s.texts.tokens = append(s.texts.tokens, min(n, s.model.info.MaxTokens))
	}
	for _, o := range s.own {
		for _, mode := range []string{modeBatch, modeOne} {
			s.competitors = append(s.competitors, s.ofOwn(o, mode, o.Info().Runtime.ISA))
		}
	}
	return nil
}

// The modes of a competitor: many texts at once, or one at a time.
const (
	modeBatch = "batch"
	modeOne   = "one"
)

func (s *session) ofOwn(o *own, mode, isa string) *competitor {
	rows := map[int][]float32{}
	return &competitor{
		Row: Row{Impl: Own, ISA: isa, DType: dtypeOf(o.precision, isa), Mode: mode, Threads: s.o.Threads}, own: o,
		key: Own + " " + o.precision,
		run: func(ctx context.Context, batches [][]int) ([]time.Duration, error) {
			var times []time.Duration
			for _, places := range batches {
				texts := make([]string, len(places))
				for i, at := range places {
					texts[i] = s.texts.all[at]
				}
				begin := time.Now()
				e, err := o.Embed(ctx, texts, embed.Document)
				if err != nil {
					return nil, err
				}
				times = append(times, time.Since(begin))
				for i, at := range places {
					rows[at] = e.Row(i)
				}
			}
			return times, nil
		},
		result: func(context.Context) (map[int][]float32, error) { return rows, nil },
	}
}

// dtypeOf returns the data type that a precision multiplies on an instruction set, as the other benchmarks name it.
func dtypeOf(precision, isa string) string {
	switch precision {
	case "int8":
		if isa == "amx-bf16" {
			return "bf16"
		}
		return "i8"
	case embed.DeviceCUDA:
		return onGPU
	}
	return precision
}

// read reads the model's shape.
func (m *model) read() error {
	path := filepath.Join(m.dir, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	var c struct {
		Layers  int `json:"num_hidden_layers"`
		Layers2 int `json:"n_layers"` // DistilBERT uses other names
		Hidden  int `json:"hidden_size"`
		Hidden2 int `json:"dim"`
		Inner   int `json:"intermediate_size"`
		Inner2  int `json:"hidden_dim"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("bench: %s: %w", path, err)
	}
	m.size = size{max(c.Layers, c.Layers2), max(c.Hidden, c.Hidden2), max(c.Inner, c.Inner2)}
	return nil
}
