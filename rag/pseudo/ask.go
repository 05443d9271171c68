package pseudo

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/llm"
	"github.com/sluice-rag/sluice/rag/corpus"
)

// ask returns the model's answers about the contexts in rows, from the journal where it has them; about fewer, the
// first ones, where Options.More ends it.
func ask(
	ctx context.Context, gen llm.Generator, chunks []corpus.Chunk, rows []int, o Options, report *Report,
) (answers [][]answer, err error) {
	info := gen.Info()
	j, err := openJournal(o.Journal,
		settings{journalVersion, info.Name, info.SHA256, o.PerContext, o.MaxTokens, o.Seed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.close()) }()

	answers = make([][]answer, len(rows))
	asked := len(rows)
	var mu sync.Mutex // of report, done, and Progress
	done := 0
	finished := func(i int, e entry, calls, resumed int) {
		mu.Lock()
		defer mu.Unlock()
		answers[i] = e.Raw
		report.Calls += calls
		report.Resumed += resumed
		if done++; o.Progress != nil {
			o.Progress(done, len(rows))
		}
	}
	group, running := errgroup.WithContext(ctx) // running also ends with the first error, and with Wait
	group.SetLimit(o.Parallel)
	for i, row := range rows {
		if running.Err() != nil {
			break
		}
		chunk := chunks[row]
		requests, cut, err := fit(gen, chunk.Text, o)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pseudo: asking about context %s: %w", chunk.ID, err), group.Wait())
		}
		if cut {
			report.Truncated++
		}
		text, err := digestOf(requests)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		for k := range requests {
			requests[k].Seed = seed(o.Seed, chunk.ID, k)
		}
		digest, err := digestOf(requests)
		if err != nil {
			return nil, errors.Join(err, group.Wait())
		}
		if e, ok := j.find(chunk.ID, digest, text); ok {
			finished(i, e, 0, 1)
			continue
		}
		if o.More != nil && !o.More() {
			asked = i
			break
		}
		group.Go(func() (err error) {
			defer panics.Into(&err)
			e, err := askAbout(running, gen, requests)
			if err != nil {
				return fmt.Errorf("pseudo: asking about context %s: %w", chunk.ID, err)
			}
			e.Context, e.Digest, e.Text = chunk.ID, digest, text
			if err := j.add(e); err != nil {
				return err
			}
			finished(i, e, len(requests), 0)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return answers[:asked], ctx.Err()
}

// askAbout makes the requests about one context.
func askAbout(ctx context.Context, gen llm.Generator, requests []Request) (e entry, err error) {
	for _, r := range requests {
		r.Priority = llm.Batch
		result, err := gen.Generate(ctx, r.Request, nil)
		if err != nil {
			return e, err
		}
		for _, q := range parse(r.Prefix + result.Text) {
			e.Raw = append(e.Raw, answer{Text: q})
		}
		ended := result.Finish == llm.FinishStop
		if n := len(e.Raw); n > 0 && !ended && !strings.HasSuffix(e.Raw[n-1].Text, "?") {
			e.Raw[n-1].Cut = true
		}
	}
	return e, nil
}

// fit makes the requests about a passage, shortened by words until prompt and answer fit into the model's
// context; cut says that it was.
func fit(gen llm.Generator, passage string, o Options) (requests []Request, cut bool, err error) {
	for {
		if requests, err = o.Prompter.Requests(passage, o.PerContext); err != nil {
			return nil, cut, err
		}
		longest := 0
		for i := range requests {
			requests[i].MaxTokens = o.MaxTokens * max(requests[i].Questions, 1)
			tokens, err := gen.CountTokens(requests[i].text())
			if err != nil {
				return nil, cut, err
			}
			const turn = 16 // what a chat template adds to a message, at most
			longest = max(longest, tokens+turn*len(requests[i].Messages)+requests[i].MaxTokens)
		}
		over := longest - gen.ContextSize()
		if over <= 0 {
			return requests, cut, nil
		}
		w := strings.Fields(passage)
		if len(w) == 0 {
			return nil, cut,
				fmt.Errorf("the prompt alone needs %d tokens, the model's context has %d", longest, gen.ContextSize())
		}
		cut = true
		passage = strings.Join(w[:len(w)-min(len(w), over/2+1)], " ")
	}
}

// seed returns a context's own seed, so that its answers do not depend on what was asked before.
func seed(base uint64, context string, request int) int64 {
	h := fnv.New64a()
	_ = binary.Write(h, binary.LittleEndian, []uint64{base, uint64(request)})
	_, _ = h.Write([]byte(context))
	return int64(h.Sum64() % (math.MaxUint32 - 1))
}

// digestOf identifies what the model is asked: text, prompt, and settings of sampling.
func digestOf(requests []Request) (string, error) {
	text, err := json.Marshal(requests)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
