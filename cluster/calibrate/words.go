package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Counted is what the step Words finds in segments.
type Counted struct {
	Rows   int64          `json:"rows"`
	Terms  map[string]int `json:"terms"` // document frequencies
	Owners []OwnerWords   `json:"owners"`
}

// OwnerWords is the index of the owners in a segment.
type OwnerWords struct {
	First int64  `json:"first"` // context of the segment
	Rows  int    `json:"rows"`
	Words string `json:"words"`
}

// Words is the step that counts the document frequencies of the questions' terms.
type Words struct{ o *opened }

// OpenWords opens the step of a job.
func OpenWords(ctx context.Context, s *objects.Store, job string) (*Words, error) {
	o, err := open(ctx, s, job)
	if err != nil {
		return nil, err
	}
	return &Words{o}, nil
}

// Tasks returns the number of tasks: one for each segment.
func (w *Words) Tasks() int64 { return int64(len(w.o.manifest.Segments)) }

// Do counts a segment.
func (w *Words) Do(ctx context.Context, s *objects.Store, task int64) (string, error) {
	if task < 0 || task >= w.Tasks() {
		return "", fmt.Errorf("%w: task %d of %d", ErrJob, task, w.Tasks())
	}
	g := w.o.manifest.Segments[task]
	x, err := base.Words(ctx, s, g.Words)
	if err != nil {
		return "", err
	}
	c := Counted{Rows: int64(g.Rows), Terms: x.Statistics(w.o.Terms).Terms}
	var rows []int
	for _, o := range w.o.Owners {
		if o >= g.First && o < g.First+int64(g.Rows) {
			rows = append(rows, int(o-g.First))
		}
	}
	if len(rows) > 0 {
		o := OwnerWords{First: g.First, Rows: len(rows)}
		if o.Words, err = base.PutWords(ctx, s, x.Pick(rows)); err != nil {
			return "", err
		}
		c.Owners = append(c.Owners, o)
	}
	return s.PutJSON(ctx, "counted", c)
}

// Sum adds up what tasks have counted.
func (w *Words) Sum(ctx context.Context, s *objects.Store, names []string) (string, error) {
	sum := Counted{Terms: map[string]int{}}
	for _, name := range names {
		var c Counted
		if err := s.GetJSON(ctx, name, &c); err != nil {
			return "", err
		}
		sum.Rows += c.Rows
		for term, n := range c.Terms {
			sum.Terms[term] += n
		}
		sum.Owners = append(sum.Owners, c.Owners...)
	}
	slices.SortFunc(sum.Owners, func(a, b OwnerWords) int { return cmp.Compare(a.First, b.First) })
	for i, o := range sum.Owners[min(1, len(sum.Owners)):] {
		if o.First == sum.Owners[i].First {
			return "", fmt.Errorf("%w: the words from context %d on are counted twice", ErrJob, o.First)
		}
	}
	return s.PutJSON(ctx, "counted", sum)
}

// joined returns the index of all owners.
func (c *Counted) joined(ctx context.Context, s *objects.Store, owners int) (*postings.Index, error) {
	var list []*postings.Index
	rows := 0
	for _, o := range c.Owners {
		x, err := base.Words(ctx, s, o.Words)
		if err != nil {
			return nil, err
		}
		if list, rows = append(list, x), rows+o.Rows; x.Rows() != o.Rows {
			return nil, fmt.Errorf("%w: %s has %d rows, expected %d", ErrJob, o.Words, x.Rows(), o.Rows)
		}
	}
	if rows != owners {
		return nil, fmt.Errorf("%w: words of %d own contexts, expected %d", ErrJob, rows, owners)
	}
	return postings.Join(list...), nil
}
