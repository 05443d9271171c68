package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/embed"
)

// side is a server with the request that it gets for the i-th question.
type side struct {
	*process
	path string
	body func(i int) string
}

func (x *side) asking(i int) asking { return asking{url: x.url + x.path, body: []byte(x.body(i))} }

func reading(into any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(into) }
}

// decided has the fields of a decision that both servers return.
type decided struct {
	Lists []struct {
		Decision struct {
			Retrieve bool    `json:"retrieve"`
			Cutoff   float64 `json:"cutoff"`
		} `json:"decision"`
		Results []struct {
			ID any `json:"id"`
		} `json:"results"`
	} `json:"lists"`
	Decision struct {
		Retrieve bool `json:"retrieve"`
	} `json:"decision"`
	Results []struct {
		ID any `json:"id"`
	} `json:"results"`
	Milliseconds map[string]float64 `json:"milliseconds"`
}

// pair starts Sluice's server over a store, and the peer with the same contexts and cut-off.
func (s *session) pair(ctx context.Context, dir, contexts, vectors string, query func(i int) string) (own, other *side,
	closing func() error, err error) {
	p, err := launchSluice(ctx, s.o.Program, "--store", dir, "--threads", fmt.Sprint(s.o.Threads))
	if err != nil {
		return nil, nil, nil, err
	}
	own = &side{p, "/v1/retrieve",
		func(i int) string { return `{"gate":"auto","mode":"dense","k":5,` + query(i) + `}` }}
	closing = p.close
	var first decided
	if err := ask(ctx, own.url+own.path, own.body(0), &first); err != nil {
		return nil, nil, nil, errors.Join(err, p.close())
	}
	f, err := s.fastAPI(ctx, contexts, vectors, first.Lists[0].Decision.Cutoff)
	if err != nil {
		return nil, nil, nil, errors.Join(err, p.close())
	}
	if f != nil {
		other = &side{f, "/retrieve", func(i int) string { return `{"k":5,` + query(i) + `}` }}
		closing = func() error { return errors.Join(p.close(), f.close()) }
		err = s.agree(ctx, own, other)
	}
	if err != nil {
		err = errors.Join(err, closing())
	}
	return own, other, closing, err
}

// agree notes how often both decide the same, and find the same best context.
func (s *session) agree(ctx context.Context, own, other *side) error {
	const n = 200
	decisions, found, open := 0, 0, 0
	for i := range n {
		var a, b decided
		if err := errors.Join(ask(ctx, own.url+own.path, own.body(i), &a),
			ask(ctx, other.url+other.path, other.body(i), &b)); err != nil {
			return err
		}
		l := a.Lists[0]
		if l.Decision.Retrieve != b.Decision.Retrieve {
			continue
		}
		if decisions++; !b.Decision.Retrieve {
			continue
		}
		open++
		best := b.Results[0].ID
		if place, numbered := best.(float64); numbered { // of vectors without texts
			best = rowID(s.contexts, int(place)).ID
		}
		if l.Results[0].ID == best {
			found++
		}
	}
	s.note("%s and %s decide the same for %d of %d questions, and find the same best context for %d of %d", Own,
		FastAPI,
		decisions, n, found, open)
	if decisions < n*98/100 || found < open*98/100 {
		return fmt.Errorf("%w: %s does something else than Sluice", ErrPeer, FastAPI)
	}
	return nil
}

// turns has both sides answer for a while, in turns, and publishes.
func (s *session) turns(ctx context.Context, workload, unit string, connections int, sides []*side) error {
	all := make([]*measured, len(sides))
	for i, x := range sides {
		all[i] = &measured{name: x.name, unit: unit, connections: connections, times: map[string][]float64{}}
	}
	at := 0
	for round := -1; round < s.o.Rounds; round++ { // the first one warms up
		within := s.o.within()
		if round < 0 {
			within = min(within, time.Second)
		}
		for i, x := range sides {
			time.Sleep(20 * time.Millisecond)
			before, _ := x.used()
			var mu sync.Mutex
			r, err := drive(ctx, connections, 0, within, func(k int) asking {
				a := x.asking(at + k)
				if workload == gateLoad && round >= 0 {
					a.read = timesOf(&mu, all[i].times)
				}
				return a
			})
			if err != nil {
				return err
			}
			cpu, rss := x.used()
			if r.cpu = cpu - before; round >= 0 {
				all[i].add(r, 0)
				all[i].rss = rss
			}
		}
		at += 10_007
	}
	s.publish(workload, all...)
	return nil
}

// timesOf records the server's times of a query's steps.
func timesOf(mu *sync.Mutex, to map[string][]float64) func(io.Reader) error {
	return func(r io.Reader) error {
		var d decided
		if err := json.NewDecoder(r).Decode(&d); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		to["embed"] = append(to["embed"], d.Milliseconds["embed"])
		if t, ok := d.Milliseconds["gate"]; ok {
			to["decision"] = append(to["decision"], t)
		} else {
			to["decision"] = append(to["decision"], d.Milliseconds["retrieve"]) // the peer does both in one step
		}
		return nil
	}
}

func sidesOf(own, other *side) []*side {
	if other == nil {
		return []*side{own}
	}
	return []*side{own, other}
}

func (s *session) question(i int) string { return s.questions[i%len(s.questions)] }

// gate measures what the gate adds to a query, on one connection.
func (s *session) gate(ctx context.Context) error { return s.squadLookup(ctx, gateLoad, []int{1}) }

func (s *session) lookup(ctx context.Context) error {
	return s.squadLookup(ctx, lookupLoad, s.o.Connections)
}

func (s *session) squadLookup(ctx context.Context, workload string, connections []int) (err error) {
	dir, err := s.squad(ctx)
	if err != nil {
		return err
	}
	own, other, closing, err := s.pair(ctx, dir, contextsFile(s.o.Data), filepath.Join(dir, "peer.npy"),
		func(i int) string { return `"query":` + quoted(s.question(i)) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	if workload == gateLoad {
		own.path = "/v1/gate" // the gate alone; the peer's decision is its search
		own.body = func(i int) string { return `{"query":` + quoted(s.question(i)) + `}` }
	}
	for _, n := range connections {
		if err := s.turns(ctx, workload, "queries/s", n, sidesOf(own, other)); err != nil {
			return err
		}
	}
	return nil
}

// vectors are lookups over many contexts, with the questions' vectors given.
func (s *session) vectors(ctx context.Context) (err error) {
	dir, err := s.many(ctx, s.o.Rows)
	if err != nil {
		return err
	}
	n := min(512, len(s.questions))
	v, err := s.encoder.Embed(ctx, s.questions[:n], embed.Query)
	if err != nil {
		return err
	}
	bodies := make([]string, n)
	for i := range bodies {
		row, err := json.Marshal(v.Row(i))
		if err != nil {
			return err
		}
		bodies[i] = `"vectors":[` + string(row) + `]`
	}
	own, other, closing, err := s.pair(ctx, dir, "", filepath.Join(dir, "vectors.npy"),
		func(i int) string { return bodies[i%n] })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	for _, c := range s.o.Connections {
		if err := s.turns(ctx, fmt.Sprintf("%s of %d", vectorsLoad, s.o.Rows), "queries/s", c,
			sidesOf(own, other)); err !=
			nil {
			return err
		}
	}
	return nil
}

// embeddings measures texts over HTTP at 32 connections, one and 16 in a request, and one call in-process.
func (s *session) embeddings(ctx context.Context) (err error) {
	dir, err := s.squad(ctx)
	if err != nil {
		return err
	}
	p, err := launchSluice(ctx, s.o.Program, "--store", dir, "--threads", fmt.Sprint(s.o.Threads))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	for _, each := range []int{1, 16} {
		const connections = 32
		over := &measured{name: Own, unit: "texts/s", connections: connections}
		beside := &measured{name: inProcess, unit: "texts/s", connections: 1}
		// about as many texts as the time is for
		texts := max(int(s.o.Seconds*400)/(connections*each), 1) * connections * each
		for round := -1; round < s.o.Rounds; round++ {
			first := (round + 1) * texts
			before, _ := p.used()
			r, err := drive(ctx, connections, texts/each, 0, func(i int) asking {
				list := make([]string, each)
				for k := range list {
					list[k] = s.question(first + i*each + k)
				}
				raw, _ := json.Marshal(list) // of strings
				return asking{url: p.url + "/v1/embeddings", body: fmt.Appendf(nil,
					`{"model":%s,"encoding_format":"base64","input":%s}`, quoted(s.encoder.Info().Name), raw)}
			})
			if err != nil {
				return err
			}
			var rss int64
			r.cpu, rss = p.used()
			r.cpu -= before
			q, err := s.encodeAll(ctx, first, texts)
			if err != nil {
				return err
			}
			if round >= 0 {
				over.add(r, float64(texts))
				beside.add(q, float64(texts))
				over.rss = rss
			}
		}
		s.publish(fmt.Sprintf("%s, %d a request", embeddingsLoad, each), over, beside)
	}
	return nil
}

// encodeAll embeds questions in one call, in this process.
func (s *session) encodeAll(ctx context.Context, first, n int) (*result, error) {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = s.question(first + i)
	}
	before, begun := ownTime(), time.Now()
	if _, err := s.encoder.Embed(ctx, texts, embed.Document); err != nil {
		return nil, err
	}
	wall := time.Since(begun)
	return &result{wall: wall, cpu: ownTime() - before, latencies: []time.Duration{wall}}, nil
}

// ownTime returns the CPU time of this process.
func ownTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return time.Duration(math.NaN())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
