package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	generating  = 8    // connections
	answer      = 32   // tokens of an answer at most: a round of both servers takes about a minute on two cores
	promptCells = 1280 // of a request: five passages, a question and an answer
)

// talk is a conversation with one question that both servers get.
type talk struct{ prompt string }

// body returns the request, in OpenAI's shape.
func (t talk) body() []byte {
	return fmt.Appendf(nil, `{"model":"default","stream":true,"stream_options":{"include_usage":true},"temperature":0,`+
		`"max_tokens":%d,"messages":[{"role":"user","content":%s}]}`, answer, quoted(t.prompt))
}

// alone returns prompts that share nothing but the words of the task's end.
func (s *session) alone(i int) talk {
	c := s.contexts[i*37%len(s.contexts)].Text
	return talk{c + "\n\n" + s.question(i) + " Answer at length."}
}

// passageBytes is how much of a passage is sent: five fit the context of either server.
const passageBytes = 800

// together returns questions about five passages, which as many requests in a row as there are connections share.
func (s *session) together(i int) talk {
	var b strings.Builder
	for k := range 5 {
		text := s.contexts[(i/generating*5+k)*53%len(s.contexts)].Text
		fmt.Fprintf(&b, "Passage %d: %s\n\n", k+1, strings.ToValidUTF8(text[:min(len(text), passageBytes)], ""))
	}
	return talk{b.String() + "Question: " + s.question(i) + " Answer at length."}
}

// generate measures tokens per second over several connections, of Sluice and llama-server.
func (s *session) generate(ctx context.Context) (err error) {
	dir, err := s.squad(ctx)
	if err != nil {
		return err
	}
	n := fmt.Sprint
	own, err := launchSluice(ctx, s.o.Program, "--store", dir, "--model", s.o.Model, "--threads", n(s.o.Threads),
		"--slots",
		n(generating), "--cache-tokens", n(generating*promptCells), "--context-tokens", n(promptCells),
		"--batch-tokens",
		"512")
	if err != nil {
		return err
	}
	sides := []*process{own}
	defer func() {
		for _, p := range sides {
			err = errors.Join(err, p.close())
		}
	}()
	llama, err := s.llamaServer(ctx, generating, promptCells)
	if err != nil {
		return err
	}
	if llama != nil {
		sides = append(sides, llama)
	}
	requests, rounds := 2*generating, s.o.Rounds
	if s.o.Short {
		requests = generating
	}
	at := 0
	for _, load := range []struct {
		name        string
		connections int
		talk        func(i int) talk
	}{{"one stream", 1, s.alone}, {"nothing shared", generating, s.alone}, {"same passages", generating, s.together}} {
		all := make([]*measured, len(sides))
		for i, p := range sides {
			all[i] = &measured{name: p.name, unit: "tokens/s", connections: load.connections}
		}
		count := requests
		if load.connections == 1 {
			count = max(requests/4, 2)
		}
		for round := range rounds {
			s.log("%s, %s: round %d of %d", generateLoad, load.name, round+1, rounds)
			at += requests // nothing is in a cache from the round before
			for i, p := range sides {
				time.Sleep(20 * time.Millisecond)
				if err := s.talks(ctx, p, load.connections, count, at, load.talk, all[i]); err != nil {
					return err
				}
			}
		}
		s.publish(generateLoad+", "+load.name, all...)
	}
	return nil
}

// talks sends conversations to one server, and counts tokens and the times to the first ones.
func (s *session) talks(ctx context.Context, p *process, connections, n, at int, of func(int) talk,
	to *measured) error {
	var mu sync.Mutex
	var firsts []time.Duration
	tokens := 0
	before, _ := p.used()
	r, err := drive(ctx, connections, n, 0, func(i int) asking {
		begun := time.Now()
		return asking{url: p.url + "/v1/chat/completions", body: of(at + i).body(), fresh: true,
			read: func(body io.Reader) error {
				first, made, err := readStream(body, begun)
				mu.Lock()
				defer mu.Unlock()
				firsts, tokens = append(firsts, first), tokens+made
				return err
			}}
	})
	if err != nil {
		return err
	}
	r.cpu, to.rss = p.used()
	r.cpu -= before
	slices.Sort(firsts)
	r.latencies = firsts
	to.add(r, float64(tokens))
	return nil
}

// readStream reads the events of an answer: the time of the first text, and the tokens that were made.
func readStream(body io.Reader, begun time.Time) (first time.Duration, tokens int, err error) {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var e struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
			Usage *struct {
				CompletionTokens int `json:"completion_tokens"`
			} `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return 0, 0, fmt.Errorf("%w: %.100q: %w", errStatus, data, err)
		}
		if first == 0 && len(e.Choices) > 0 && e.Choices[0].Delta.Content != "" {
			first = time.Since(begun)
		}
		if e.Usage != nil {
			tokens = e.Usage.CompletionTokens
		}
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	if tokens == 0 {
		return 0, 0, fmt.Errorf("%w: a stream without a count of its tokens", errStatus)
	}
	return first, tokens, nil
}
