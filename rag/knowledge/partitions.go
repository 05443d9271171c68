package knowledge

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/retrieve"
	"github.com/sluice-rag/sluice/rag/route"
)

// partitions are the live rows of a snapshot by their domains. A chunk's domain is the one that the store's router was
// trained with for it, else its topic.
type partitions struct {
	router *route.Router // nil without one
	rows   map[string][]int
	rest   []int // of no domain, or of one that the router does not know: a routed search goes by them, too

	mu     sync.Mutex
	unions map[string][]int // of several domains that were searched together, by their names
}

// keptUnions is how many unions are kept; they are made again in a few tenths of a millisecond.
const keptUnions = 256

// union are the rows of domains with the rest, ascending; lists are theirs.
func (p *partitions) union(names []string, lists [][]int) []int {
	if len(lists) == 0 {
		return nil
	}
	if len(lists) == 1 {
		return lists[0]
	}
	sorted := slices.Sorted(slices.Values(names))
	key := strings.Join(sorted, "\x00")
	p.mu.Lock()
	defer p.mu.Unlock()
	rows, ok := p.unions[key]
	if ok {
		return rows
	}
	rows = slices.Concat(lists...)
	slices.Sort(rows)
	if p.unions == nil || len(p.unions) >= keptUnions {
		p.unions = map[string][]int{}
	}
	p.unions[key] = rows
	return rows
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

// contexts narrows the searched contexts to domains, with copies of their vectors that lie together.
func (s *Snapshot) inDomains(p *partitions, c retrieve.Contexts, names []string) retrieve.Contexts {
	var lists [][]int
	whole := !c.Selected
	for _, name := range append(slices.Clone(names), unassigned) {
		rows := p.rows[name]
		if name == unassigned {
			rows = p.rest
		}
		if len(rows) == 0 {
			continue
		}
		lists = append(lists, rows)
		if whole {
			c.Parts = append(c.Parts, retrieve.Part{Rows: rows,
				Vectors: s.base.partition(s, name, rows)})
		}
	}
	rows := p.union(names, lists)
	if !whole { // both: the filter and the domains
		var both []int
		for _, r := range c.Rows {
			if _, ok := slices.BinarySearch(rows, r); ok {
				both = append(both, r)
			}
		}
		rows, c.Parts = both, nil
	}
	c.Rows, c.Selected = rows, true
	return c
}

// copies are the vectors of partitions, each in memory of its own. One follows the store: where rows have come behind
// those that it has, they are added. One that is searched often gets an index, like a snapshot's vectors.
type copies struct {
	mu   sync.Mutex
	list map[string]*copied
}

type copied struct {
	first    int64 // row in the store of row 0 of rows
	rows     []int
	data     []float32
	searches int
	set      *engine.Set // nil before there is one; whoever has its Vectors may go on with them when it is replaced
}

// A partition of a store that is large enough for an index gets one from so many rows on: fewer are read as fast.
const partitionIndexRows = 1024

// partitionClusters is how many times fewer clusters the index of a partition has than one of a whole store (√rows):
// its rows are alike, and few clusters are visited sooner (docs/adr/0023-routing.md).
const partitionClusters = 4

// partition are the vectors of rows of a domain.
func (b *Base) partition(s *Snapshot, name string, rows []int) engine.Vectors {
	v := s.View.Vectors
	b.copies.mu.Lock()
	defer b.copies.mu.Unlock()
	k := b.copies.list[name]
	switch {
	case k != nil && k.first == s.View.First && same(k.rows, rows):
	case k != nil && k.first == s.View.First && len(k.rows) < len(rows) && slices.Equal(k.rows, rows[:len(k.rows)]):
		k = &copied{first: k.first, rows: k.rows, data: k.data}
		k.take(v, rows)
	default:
		k = &copied{first: s.View.First, data: make([]float32, 0, len(rows)*v.Dim)}
		k.take(v, rows)
	}
	if b.copies.list == nil {
		b.copies.list = map[string]*copied{}
	}
	b.copies.list[name] = k
	if k.searches++; k.searches == b.cfg.IndexSearches && len(rows) >= partitionIndexRows &&
		v.Rows >= b.cfg.IndexRows {
		b.indexPartition(k, s.Metric(), v.Dim)
	}
	if k.set != nil {
		return k.set.Vectors()
	}
	return engine.Vectors{Data: k.data, Rows: len(rows), Dim: v.Dim}
}

// same tells whether two lists of rows are equal; the same list is, without a look at it.
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

// indexPartition prepares a copy in the background.
func (b *Base) indexPartition(k *copied, metric kernels.Metric, dim int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	v := engine.Vectors{Data: k.data, Rows: len(k.rows), Dim: dim}
	b.builders.Go(func() {
		set, err := b.cfg.Engine.Prepare(b.stopping, v, metric, engine.SetOptions{
			Clusters: max(1, int(math.Sqrt(float64(v.Rows)))/partitionClusters)})
		if err != nil {
			if b.stopping.Err() == nil {
				b.log.Warn("no index of a domain: each search reads all its vectors", "error", err)
			}
			return
		}
		b.copies.mu.Lock()
		defer b.copies.mu.Unlock()
		k.set = set
	})
}

// drop frees the copies.
func (c *copies) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.list {
		if k.set != nil {
			k.set.Close()
		}
	}
	c.list = nil
}
