package generate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// single measures one stream: prompts of each length read, texts of each length made.
func (s *session) single(ctx context.Context) (err error) {
	var tests []test
	for _, n := range s.o.PromptTokens {
		tests = append(tests, test{prompt: n})
	}
	for _, n := range s.o.Tokens {
		tests = append(tests, test{generate: n})
	}
	o, err := s.startOwn(ctx, s.capacity(1, slices.Max(slices.Concat(s.o.PromptTokens, s.o.Tokens))+suffixRoom))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	s.report.Model = o.model
	for _, t := range tests {
		if err := s.raceSingle(ctx, o, t); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) raceSingle(ctx context.Context, o *own, t test) error {
	b := newBoard(t.String(), 1)
	s.log("%s: %d rounds", t, s.o.Rounds)
	for round := range s.o.Rounds {
		if err := rest(ctx); err != nil {
			return err
		}
		// The first run of a turn warms up: llama-bench does that, too.
		if _, err := s.ownRate(ctx, o, t, 2*round); err != nil {
			return err
		}
		rate, err := s.ownRate(ctx, o, t, 2*round+1)
		if err != nil {
			return err
		}
		b.add(Own, Rate, rate)
		if !s.takesPart(LlamaBench) {
			continue
		}
		if err := rest(ctx); err != nil {
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

// ownRate is one turn of Sluice's: a prompt that no cache knows, and one token; or a short prompt, and the
// decodes after its first token, as many as llama-bench makes.
func (s *session) ownRate(ctx context.Context, o *own, t test, round int) (float64, error) {
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
	c := got.Done[0]
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
		s.note("%s: the model ended one text or more before its %d tokens, %q after %d", t, t.generate, short(prompt), c.Made)
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
