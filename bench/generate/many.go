package generate

import (
	"context"
	"errors"
	"strings"
)

// step is work that every competitor does once a round. Batches of different rounds have nothing in common.
type step struct {
	workload string
	batch    func(ctx context.Context, o *client, round int) (batch, error)
}

// concurrent sends prompts that have nothing in common.
func (s *session) concurrent(ctx context.Context) error {
	prompt, tokens := s.o.PromptTokens[0], s.o.Tokens[0]
	for _, n := range s.o.Concurrency {
		steps := []step{{"concurrent", func(ctx context.Context, o *client, round int) (batch, error) {
			texts := make([]string, n)
			for i := range texts {
				texts[i] = prose(prompt+8, uint64(n), uint64(round), uint64(i))
			}
			texts, err := o.fit(ctx, prompt, texts...)
			return batch{texts, tokens}, err
		}}}
		// No prompt is sent twice: copies of them in host memory would only cost the server time.
		if err := s.many(ctx, s.capacity(n, prompt+tokens), steps); err != nil {
			return err
		}
	}
	return nil
}

// prefix sends prompts that share a prefix: first it is in no cache, then it is in all of them.
func (s *session) prefix(ctx context.Context) error {
	tokens := s.o.Tokens[0]
	for _, n := range s.o.Concurrency {
		share := func(part uint64) func(context.Context, *client, int) (batch, error) {
			return func(ctx context.Context, o *client, round int) (batch, error) {
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

// many sends a request for each slot at once to Sluice and to llama-server, whose processes run for one call.
func (s *session) many(ctx context.Context, c capacity, steps []step) (err error) {
	n := c.Slots
	o, err := s.startWorker(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	s.report.Model = o.model
	competitors := []competitor{o}
	g, err := s.startGPU(ctx, c)
	if err != nil {
		return err
	}
	if g != nil {
		defer func() { err = errors.Join(err, g.close()) }()
		competitors = append(competitors, g)
	}
	if s.takesPart(LlamaServer) {
		v, err := s.startServer(ctx, c)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.skip(LlamaServer, err)
		default:
			defer v.close() // ends it even if that request failed
			s.report.Versions[LlamaServer] = s.serverVersion(ctx)
			competitors = append(competitors, v)
		}
	}
	all := make([]*measurements, len(steps))
	for i, p := range steps {
		all[i] = newMeasurements(p.workload, n)
		s.log("%s, %d at once: %d rounds", p.workload, n, s.o.Rounds)
	}
	for round := range s.o.Rounds + 1 { // the first one warms up
		for i, p := range steps {
			b := all[i]
			if round == 0 {
				b = newMeasurements(p.workload, n)
			}
			if competitors, err = s.round(ctx, o, competitors, p, round, b); err != nil {
				return err
			}
		}
	}
	for _, b := range all {
		s.publish(b)
	}
	return nil
}

// round runs one batch on each competitor and returns those that succeeded. Only Sluice's failure is an error.
func (s *session) round(ctx context.Context, o *client, competitors []competitor, p step, round int,
	b *measurements) (running []competitor, err error) {
	ask, err := p.batch(ctx, o, round)
	if err != nil {
		return nil, err
	}
	var ours batchResult
	for _, c := range competitors {
		if err := pause(ctx); err != nil {
			return nil, err
		}
		got, err := c.run(ctx, ask)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if c.name() == Own {
				return nil, err
			}
			s.note("%s, %d at once: %s left out: %v", b.workload, b.concurrency, c.name(), err)
			continue
		}
		running = append(running, c)
		if c.name() == Own {
			ours = got
		} else {
			b.compare(c.name(), ours, got)
		}
		s.record(b, c, got)
	}
	return running, nil
}

// record adds what one batch showed of a competitor.
func (s *session) record(m *measurements, c competitor, r batchResult) {
	m.add(c.name(), Rate, r.rate())
	m.add(c.name(), FirstToken, r.milliseconds(firstToken)...)
	m.add(c.name(), Latency, r.milliseconds(latency)...)
	m.add(c.name(), Prompt, float64(r.sum(func(c completion) int { return c.Prompt })))
	m.add(c.name(), Reused, float64(r.sum(func(c completion) int { return c.Cached })))
	memory, err := resident(c.process())
	if err != nil {
		s.note("the memory of %s is not known: %v", c.name(), err)
		return
	}
	m.add(c.name(), Resident, float64(memory)/(1<<20))
}
