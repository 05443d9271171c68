package generate

import (
	"context"
	"errors"
	"strings"
)

// step is a turn that every entrant takes in each round. Batches of different rounds have nothing in common.
type step struct {
	workload string
	batch    func(ctx context.Context, o *own, round int) (batch, error)
}

// concurrent sends prompts that have nothing in common.
func (s *session) concurrent(ctx context.Context) error {
	prompt, tokens := s.o.PromptTokens[0], s.o.Tokens[0]
	for _, n := range s.o.Concurrency {
		steps := []step{{"concurrent", func(ctx context.Context, o *own, round int) (batch, error) {
			texts := make([]string, n)
			for i := range texts {
				texts[i] = prose(prompt+8, uint64(n), uint64(round), uint64(i))
			}
			texts, err := o.fit(ctx, prompt, texts...)
			return batch{texts, tokens}, err
		}}}
		// Prompts that never come again: a copy of them in memory would cost the server time and serve nobody.
		if err := s.many(ctx, s.capacity(n, prompt+tokens), steps); err != nil {
			return err
		}
	}
	return nil
}

// prefix sends prompts that begin alike: first none of them has been seen, then their beginning has.
func (s *session) prefix(ctx context.Context) error {
	tokens := s.o.Tokens[0]
	for _, n := range s.o.Concurrency {
		share := func(part uint64) func(context.Context, *own, int) (batch, error) {
			return func(ctx context.Context, o *own, round int) (batch, error) {
				prefix, err := o.fit(ctx, s.o.PrefixTokens, prose(s.o.PrefixTokens+8, 2, uint64(n), uint64(round)))
				if err != nil {
					return batch{}, err
				}
				suffixes := make([]string, n)
				for i := range suffixes {
					suffixes[i] = prose(suffixRoom/2+8, 3, uint64(round), part, uint64(i))
				}
				if suffixes, err = o.fit(ctx, suffixRoom/2, suffixes...); err != nil {
					return batch{}, err
				}
				for i, suffix := range suffixes {
					suffixes[i] = strings.Join([]string{prefix[0], suffix}, "\n\n")
				}
				return batch{suffixes, tokens}, nil
			}
		}
		steps := []step{{"prefix-cold", share(0)}, {"prefix-warm", share(1)}}
		c := s.capacity(n, s.o.PrefixTokens+suffixRoom+tokens)
		c.HostRAM = true
		if err := s.many(ctx, c, steps); err != nil {
			return err
		}
	}
	return nil
}

// many lets Sluice and llama-server answer a request in each slot at once, in processes that live for one race.
func (s *session) many(ctx context.Context, c capacity, steps []step) (err error) {
	n := c.Slots
	o, err := s.startOwn(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	s.report.Model = o.model
	entrants := []entrant{o}
	if s.takesPart(LlamaServer) {
		v, err := s.startServer(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.skip(LlamaServer, err)
		default:
			defer v.close() // ends it, whatever it says to that
			s.report.Versions[LlamaServer] = s.serverVersion(ctx)
			entrants = append(entrants, v)
		}
	}
	boards := make([]*board, len(steps))
	for i, p := range steps {
		boards[i] = newBoard(p.workload, n)
		s.log("%s, %d at once: %d rounds", p.workload, n, s.o.Rounds)
	}
	for round := range s.o.Rounds + 1 { // the first one warms up
		for i, p := range steps {
			b := boards[i]
			if round == 0 {
				b = newBoard(p.workload, n)
			}
			if entrants, err = s.round(ctx, o, entrants, p, round, b); err != nil {
				return err
			}
		}
	}
	for _, b := range boards {
		s.publish(b)
	}
	return nil
}

// round gives each entrant a turn and returns those that are still there. Only Sluice's failure ends the race.
func (s *session) round(ctx context.Context, o *own, entrants []entrant, p step, round int, b *board) (alive []entrant, err error) {
	ask, err := p.batch(ctx, o, round)
	if err != nil {
		return nil, err
	}
	var ours turn
	for _, e := range entrants {
		if err := rest(ctx); err != nil {
			return nil, err
		}
		got, err := e.run(ctx, ask)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if e.name() == Own {
				return nil, err
			}
			s.note("%s, %d at once: %s is out: %v", b.workload, b.concurrency, e.name(), err)
			continue
		}
		alive = append(alive, e)
		if e.name() == Own {
			ours = got
		} else {
			b.compare(e.name(), ours, got)
		}
		s.score(b, e, got)
	}
	return alive, nil
}

func (s *session) score(b *board, e entrant, t turn) {
	b.add(e.name(), Rate, t.rate())
	b.add(e.name(), FirstToken, t.milliseconds(firstToken)...)
	b.add(e.name(), Latency, t.milliseconds(latency)...)
	b.add(e.name(), Prompt, float64(t.sum(func(c completion) int { return c.Prompt })))
	b.add(e.name(), Reused, float64(t.sum(func(c completion) int { return c.Cached })))
	memory, err := resident(e.process())
	if err != nil {
		s.note("no memory of %s: %v", e.name(), err)
		return
	}
	b.add(e.name(), Resident, float64(memory)/(1<<20))
}
