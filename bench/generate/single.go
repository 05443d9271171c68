package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// single measures one stream: reading prompts of each length, generating texts of each length.
func (s *session) single(ctx context.Context) (err error) {
	var tests []test
	for _, n := range s.o.PromptTokens {
		tests = append(tests, test{prompt: n})
	}
	for _, n := range s.o.Tokens {
		tests = append(tests, test{generate: n})
	}
	c := s.capacity(1, slices.Max(slices.Concat(s.o.PromptTokens, s.o.Tokens))+suffixRoom)
	o, err := s.startWorker(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	own := []*client{o}
	g, err := s.startGPU(ctx, c)
	if err != nil {
		return err
	}
	if g != nil {
		defer func() { err = errors.Join(err, g.close()) }()
		own = append(own, g)
	}
	s.report.Model = o.model
	for _, t := range tests {
		if err := s.runSingle(ctx, own, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) runSingle(ctx context.Context, own []*client, t test) error {
	b := newMeasurements(t.String(), 1)
	s.log("%s: %d rounds", t, s.o.Rounds)
	for round := range s.o.Rounds {
		for _, o := range own {
			if err := pause(ctx); err != nil {
				return err
			}
			// The first run of a round warms up, as llama-bench does.
			if _, err := s.ownRate(ctx, o, t, 2*round); err != nil {
				return err
			}
			rate, err := s.ownRate(ctx, o, t, 2*round+1)
			if err != nil {
				return err
			}
			b.add(o.name(), Rate, rate)
		}
		if !s.takesPart(LlamaBench) {
			continue
		}
		if err := pause(ctx); err != nil {
			return err
		}
		m, err := s.llamaBench(ctx, t)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			s.skip(LlamaBench, err)
			continue
		}
		s.report.Versions[LlamaBench] = m.Commit
		b.add(LlamaBench, Rate, m.Rates[0])
	}
	s.publish(b)
	return nil
}

// ownRate measures Sluice once: a prompt that is in no cache, and one token; or a short prompt, and the
// decodes after its first token, as many as llama-bench runs.
func (s *session) ownRate(ctx context.Context, o *client, t test, round int) (float64, error) {
	prompt, tokens := prose(8, uint64(round), 1), t.generate+1
	if t.prompt > 0 {
		fitted, err := o.fit(ctx, t.prompt, prose(t.prompt+8, uint64(round), uint64(t.prompt)))
		if err != nil {
			return 0, err
		}
		prompt, tokens = fitted[0], 1
	}
	got, err := o.run(ctx, batch{Prompts: []string{prompt}, MaxTokens: tokens})
	if err != nil {
		return 0, err
	}
	c := got.Completions[0]
	if t.prompt > 0 {
		if c.PromptTime <= 0 {
			return 0, fmt.Errorf("bench: %s: the model read a prompt of %d tokens in no time", t, c.Prompt)
		}
		return float64(c.Prompt-c.Cached) / c.PromptTime.Seconds(), nil
	}
	decodes := c.Made - 1
	if c.Stopped {
		decodes++ // of the token that ended it
	}
	if decodes < t.generate {
		s.note("%s: the model ended one text or more before its %d tokens, %q after %d", t, t.generate, short(prompt),
			c.Made)
	}
	if decodes < 1 || c.DecodeTime <= 0 {
		return 0, fmt.Errorf("bench: %s: the model ended its text at once, after %q", t, prompt)
	}
	return float64(decodes) / c.DecodeTime.Seconds(), nil
}

func short(text string) string {
	words := strings.Fields(text)
	return strings.Join(words[:min(4, len(words))], " ")
}
