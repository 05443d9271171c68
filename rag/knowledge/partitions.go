package knowledge

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
	"github.com/sluice-rag/sluice/rag/store"
)

// partitions are the live rows of a snapshot by their domains. A chunk's domain is the one that the store's router was
// trained with for it, else its topic.
type partitions struct {
	router *route.Router // nil without one
	rows   map[string][]int
	rest   []int // of no domain, or of one that the router does not know: a routed search goes by them, too

	mu     sync.Mutex
	unions map[string]*rowset // of domains that were searched, with the rest, by their names
}

// keptUnions is how many unions are kept; they are made again in a few tenths of a millisecond.
const keptUnions = 256

// union returns the rows of domains with the rest, ascending.
func (p *partitions) union(names []string) *rowset {
	key := strings.Join(slices.Sorted(slices.Values(names)), "\x00")
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.unions[key]; u != nil {
		return u
	}
	lists := [][]int{p.rest}
	for _, name := range names {
		lists = append(lists, p.rows[name])
	}
	u := &rowset{rows: slices.Concat(lists...)}
	slices.Sort(u.rows)
	if p.unions == nil || len(p.unions) >= keptUnions {
		p.unions = map[string]*rowset{}
	}
	p.unions[key] = u
	return u
}

// partitions divides the snapshot by the domains of a router, or by topics alone where r is nil.
func (s *Snapshot) partitions(ctx context.Context, r *route.Router) (*partitions, error) {
	if p := s.divided.Load(); p != nil && p.router == r {
		return p, nil
	}
	if err := s.dividing.take(ctx, nil); err != nil {
		return nil, err
	}
	defer s.dividing.give()
	if p := s.divided.Load(); p != nil && p.router == r {
		return p, nil
	}
	topics, err := s.View.Topics(ctx)
	if err != nil {
		return nil, s.base.unlessClosed(err)
	}
	p := &partitions{router: r, rows: map[string][]int{}}
	for i, topic := range topics {
		if s.View.Deleted(i) {
			continue
		}
		if r != nil {
			if label, known := r.ChunkLabel(route.ChunkKey(s.View.IDs[i], s.View.Digests[i])); known {
				topic = label
			}
			if _, ok := slices.BinarySearch(r.Labels, topic); !ok {
				topic = ""
			}
		}
		if topic == "" {
			p.rest = append(p.rest, i)
		} else {
			p.rows[topic] = append(p.rows[topic], i)
		}
	}
	s.divided.Store(p)
	return p, nil
}

// unassigned is the name of the rows without a domain among the copies; no domain has it.
const unassigned = ""

// inDomains narrows the searched contexts to domains: by the index, or with copies of their vectors that lie together.
func (s *Snapshot) inDomains(ctx context.Context, p *partitions, c retrieve.Contexts, names []string) (
	retrieve.Contexts, error,
) {
	u := p.union(names)
	if c.Selected { // both: the filter and the domains
		rows := u.rows
		c.Rows = slices.DeleteFunc(slices.Clone(c.Rows), func(r int) bool {
			_, ok := slices.BinarySearch(rows, r)
			return !ok
		})
		c.Allowed = nil
		return c, nil
	}
	if err := u.narrow(ctx, &c); err != nil || c.Narrowed {
		s.base.copies.forget(names)
		return c, err
	}
	for _, name := range append(slices.Clone(names), unassigned) {
		rows := p.rows[name]
		if name == unassigned {
			rows = p.rest
		}
		if len(rows) > 0 {
			c.Parts = append(c.Parts, retrieve.Part{Rows: rows, Vectors: s.base.partition(s, name, rows)})
		}
	}
	return c, nil
}

// copies are the vectors of partitions, each in memory of its own, for searches without an index. One follows the
// store: where rows have come behind those that it has, they are added.
type copies struct {
	mu   sync.Mutex
	list map[string]*copied
}

type copied struct {
	first int64       // row in the store of row 0 of rows
	view  *store.View // whose rows they are, if it is restricted and numbers them anew; else nil
	rows  []int
	data  []float32
}

// partition returns the vectors of rows of a domain.
func (b *Base) partition(s *Snapshot, name string, rows []int) engine.Vectors {
	v := s.View.Vectors
	var of *store.View
	if s.Store.Restricted() {
		of = s.View
	}
	b.copies.mu.Lock()
	defer b.copies.mu.Unlock()
	k := b.copies.list[name]
	follows := k != nil && k.first == s.View.First && k.view == of
	switch {
	case follows && same(k.rows, rows):
	case follows && len(k.rows) < len(rows) && slices.Equal(k.rows, rows[:len(k.rows)]):
		k = &copied{first: k.first, view: of, rows: k.rows, data: k.data}
		k.take(v, rows)
	default:
		k = &copied{first: s.View.First, view: of, data: make([]float32, 0, len(rows)*v.Dim)}
		k.take(v, rows)
	}
	if b.copies.list == nil {
		b.copies.list = map[string]*copied{}
	}
	b.copies.list[name] = k
	return engine.Vectors{Data: k.data, Rows: len(rows), Dim: v.Dim}
}

// same reports whether two lists of rows are equal; the same list is, without a look at it.
func same(a, b []int) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}

// take copies the vectors of the rows that the copy lacks.
func (k *copied) take(v engine.Vectors, rows []int) {
	stride := max(v.Stride, v.Dim)
	for _, r := range rows[len(k.rows):] {
		k.data = append(k.data, v.Data[r*stride:][:v.Dim]...)
	}
	k.rows = rows
}

func (c *copies) forget(names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		delete(c.list, name)
	}
}

// drop frees the copies.
func (c *copies) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = nil
}
