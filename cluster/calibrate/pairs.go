package calibrate

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/sluice-rag/sluice/cluster/base"
	"github.com/sluice-rag/sluice/cluster/objects"
	"github.com/sluice-rag/sluice/cluster/worker"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/postings"
)

// Pairs is the step that counts the pairs of blocks: a segment of contexts × some questions. Each task gives the
// partials of all that a calibration counts (Pairs.measures), one behind the other.
type Pairs struct{ o *opened }

// OpenPairs opens the step of a job.
func OpenPairs(ctx context.Context, s *objects.Store, job string) (*Pairs, error) {
	o, err := open(ctx, s, job)
	if err != nil {
		return nil, err
	}
	if o.Pairs == nil || o.Pairs.Step < 1 {
		return nil, fmt.Errorf("%w: %s counts no pairs", ErrJob, job)
	}
	return &Pairs{o}, nil
}

// columns returns how many blocks a segment has.
func (p *Pairs) columns() int64 { return int64((p.o.questions.Rows-1)/p.o.Pairs.Step + 1) }

// Tasks returns the number of blocks.
func (p *Pairs) Tasks() int64 { return int64(len(p.o.manifest.Segments)) * p.columns() }

// Do counts a block. A block that was counted before is not counted again.
func (p *Pairs) Do(ctx context.Context, s *objects.Store, task int64) (name string, err error) {
	if task < 0 || task >= p.Tasks() {
		return "", fmt.Errorf("%w: task %d of %d", ErrJob, task, p.Tasks())
	}
	process, end, err := worker.Turn(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	b, err := p.block(ctx, s, process.Engine, task)
	if err != nil {
		return "", err
	}
	var list []*engine.Partial
	for _, m := range p.measures() {
		x, err := b.count(ctx, s, m)
		if err != nil {
			return "", err
		}
		list = append(list, x)
	}
	return put(ctx, s, list)
}

// Sum adds up the partials of blocks.
func (p *Pairs) Sum(ctx context.Context, s *objects.Store, names []string) (string, error) {
	var sum []*engine.Partial
	for _, name := range names {
		list, err := p.read(ctx, s, name)
		if err != nil {
			return "", err
		}
		if sum == nil {
			sum = list
			continue
		}
		for i := range sum {
			if sum[i], err = sum[i].Plus(list[i]); err != nil {
				return "", err
			}
		}
	}
	return put(ctx, s, sum)
}

// put writes partials as an object, one behind the other, each after its length.
func put(ctx context.Context, s *objects.Store, list []*engine.Partial) (string, error) {
	var out []byte
	for _, x := range list {
		data, err := x.MarshalBinary()
		if err != nil {
			return "", err
		}
		out = append(binary.LittleEndian.AppendUint64(out, uint64(len(data))), data...)
	}
	return s.Put(ctx, "parts", out)
}

// read reads what put has written.
func (p *Pairs) read(ctx context.Context, s *objects.Store, name string) (list []*engine.Partial, err error) {
	data, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	for len(data) >= 8 {
		n := binary.LittleEndian.Uint64(data)
		if data = data[8:]; n > uint64(len(data)) {
			break
		}
		x := new(engine.Partial)
		if err := x.UnmarshalBinary(data[:n]); err != nil {
			return nil, err
		}
		list, data = append(list, x), data[n:]
	}
	if want := len(p.measures()); len(data) > 0 || len(list) != want {
		return nil, fmt.Errorf("%w: %s has %d partials, expected %d", ErrJob, name, len(list), want)
	}
	return list, nil
}

// measure is a set of questions at a weight of the words.
type measure struct {
	of     string // all, rated or general
	weight float64
}

// The sets of questions.
const (
	ofAll     = "all"
	ofRated   = "rated"
	ofGeneral = "general"
)

// measures lists what is counted: all pseudo-queries by their similarity, and at each weight the rated ones and the
// general ones.
func (p *Pairs) measures() (list []measure) {
	j := p.o.Pairs
	list = append(list, measure{of: ofAll})
	if j.Again {
		return list
	}
	for _, w := range j.Weights {
		list = append(list, measure{of: ofRated, weight: w})
		if len(p.o.questions.GeneralTexts) > 0 {
			list = append(list, measure{of: ofGeneral, weight: w})
		}
	}
	if len(j.Weights) == 0 && len(p.o.questions.GeneralTexts) > 0 {
		list = append(list, measure{of: ofGeneral})
	}
	return list
}

// block is what a worker has read for a task.
type block struct {
	p        *Pairs
	e        *engine.Engine
	task     int64
	segment  base.Segment
	first    bool    // the segment's first block, which counts the rated and the general questions
	lanes    [2]int  // pseudo-queries
	contexts []int64 // numbers of the contexts: of the segment, and then of the owners that are not in it
	row      map[int64]int32
	vectors  engine.Vectors
	groups   []int32
	parts    []int32
	all      engine.Vectors // the block's pseudo-queries
	rated    engine.Vectors // rated questions
	general  engine.Vectors
	words    *postings.Index // of the segment's contexts
	owners   *postings.Index // of the owners
	ownerRow []int           // of each context behind those of the segment
}

func (p *Pairs) block(ctx context.Context, s *objects.Store, e *engine.Engine, task int64) (b *block, err error) {
	o, q, dim := p.o, &p.o.questions, p.o.manifest.Dim
	g, column := o.manifest.Segments[task/p.columns()], int(task%p.columns())
	b = &block{p: p, e: e, task: task, segment: g, first: column == 0, row: map[int64]int32{},
		lanes: [2]int{column * o.Pairs.Step, min((column+1)*o.Pairs.Step, q.Rows)}}
	if b.vectors, err = base.Vectors(ctx, s, g.Vectors, g.Rows, dim); err != nil {
		return nil, err
	}
	lanes := make([]int, b.lanes[1]-b.lanes[0])
	for i := range lanes {
		lanes[i] = b.lanes[0] + i
	}
	if b.all, err = q.Vectors.Rows(ctx, s, q.Rows, dim, lanes); err != nil {
		return nil, err
	}
	asked := lanes
	if rates := b.first && !o.Pairs.Again; rates {
		if b.rated, err = q.Vectors.Rows(ctx, s, q.Rows, dim, o.Pairs.Rated); err != nil {
			return nil, err
		}
		if n := len(q.GeneralTexts); n > 0 {
			if b.general, err = base.Vectors(ctx, s, q.General, n, dim); err != nil {
				return nil, err
			}
		}
		asked = append(asked, o.Pairs.Rated...)
	}
	if err = b.groupsOf(ctx, s); err != nil {
		return nil, err
	}
	for i := range g.Rows {
		b.contexts = append(b.contexts, g.First+int64(i))
	}
	if err = b.addOwners(ctx, s, asked); err != nil {
		return nil, err
	}
	for i, c := range b.contexts {
		b.row[c] = int32(i)
	}
	if len(o.Pairs.Weights) == 0 || o.Pairs.Again || !b.first {
		return b, nil
	}
	if b.words, err = base.Words(ctx, s, g.Words); err != nil {
		return nil, err
	}
	if b.owners, err = base.Words(ctx, s, o.Pairs.Words); err != nil {
		return nil, err
	}
	b.words, b.owners = b.words.Among(o.Pairs.Statistics), b.owners.Among(o.Pairs.Statistics)
	return b, nil
}

// groupsOf reads the groups of the segment's contexts, and finds their parts.
func (b *block) groupsOf(ctx context.Context, s *objects.Store) error {
	o, j := b.p.o, b.p.o.Pairs
	if o.manifest.Groups > 0 {
		var about base.About
		if err := s.GetJSON(ctx, b.segment.About, &about); err != nil {
			return err
		}
		b.groups = about.Groups
	}
	if j.Again || j.OwnerParts == nil {
		return nil
	}
	switch {
	case o.manifest.Topics && b.groups != nil:
		b.parts = slices.Clone(b.groups)
	case j.PartOf != "":
		var all []int32
		if err := s.GetJSON(ctx, j.PartOf, &all); err != nil {
			return err
		}
		if int64(len(all)) != o.manifest.Contexts {
			return fmt.Errorf("%w: parts of %d contexts of %d", ErrJob, len(all), o.manifest.Contexts)
		}
		b.parts = slices.Clone(all[b.segment.First:][:b.segment.Rows])
	default:
		centres, err := base.Vectors(ctx, s, j.Centres, j.Parts, o.manifest.Dim)
		if err != nil {
			return err
		}
		b.parts, err = gate.PartsOf(ctx, b.e, b.vectors, centres)
		return err
	}
	return nil
}

// addOwners appends the own contexts of the questions that the block asks, but for those in the segment. General
// questions have the first owner for theirs.
func (b *block) addOwners(ctx context.Context, s *objects.Store, asked []int) error {
	o, j := b.p.o, b.p.o.Pairs
	wanted := map[int64]bool{o.Owners[0]: true}
	for _, i := range asked {
		wanted[int64(o.questions.Owner[i])] = true
	}
	for i, c := range o.Owners {
		if !wanted[c] || c >= b.segment.First && c < b.segment.First+int64(b.segment.Rows) {
			continue
		}
		b.contexts, b.ownerRow = append(b.contexts, c), append(b.ownerRow, i)
		if b.groups != nil {
			b.groups = append(b.groups, j.OwnerGroup[i])
		}
		if b.parts != nil {
			b.parts = append(b.parts, j.OwnerParts[i])
		}
	}
	own, err := o.OwnerVectors.Rows(ctx, s, len(o.Owners), o.manifest.Dim, b.ownerRow)
	b.vectors.Data = append(b.vectors.Data, own.Data...)
	b.vectors.Rows += own.Rows
	return err
}

// count counts a measure. Only the first block of a segment counts the rated and the general questions; the partials of
// the others are empty.
func (b *block) count(ctx context.Context, s *objects.Store, m measure) (*engine.Partial, error) {
	o, j, q := b.p.o, b.p.o.Pairs, &b.p.o.questions
	in := engine.DistributionInput{Contexts: b.vectors, Metric: o.manifest.Metric, Group: b.groups,
		ContextIDs: make([]uint64, len(b.contexts)), Queries: engine.Vectors{Dim: b.vectors.Dim}}
	for i, c := range b.contexts {
		in.ContextIDs[i] = uint64(c)
	}
	ask := func(number int, owner int64) {
		in.QueryIDs, in.Owner = append(in.QueryIDs, uint64(number)), append(in.Owner, b.row[owner])
	}
	share := engine.Block{Contexts: [2]int{0, b.segment.Rows}}
	if m.of == ofAll {
		negatives, err := gate.ParseNegatives(q.Options.negatives(), q.Options.Seed)
		if err != nil {
			return nil, err
		}
		in.Negatives, in.Queries = negatives, b.all
		for i := b.lanes[0]; i < b.lanes[1]; i++ {
			ask(i, int64(q.Owner[i]))
		}
		share.Queries[1] = in.Queries.Rows
		return b.countAll(ctx, s, in, share)
	}
	brackets, all, texts := nothing(o.manifest.Metric, m.weight), 0, []string(nil)
	switch m.of {
	case ofRated:
		all, in.Group, in.Queries = len(j.Rated), b.parts, b.rated
		for n, i := range j.Rated {
			ask(n, int64(q.Owner[i]))
			texts = append(texts, q.text(i))
		}
	case ofGeneral:
		all, in.Group, in.Queries, texts = len(q.GeneralTexts), nil, b.general, q.GeneralTexts
		for i := range all {
			ask(i, o.Owners[0])
		}
	}
	if !b.first {
		in.Queries, in.QueryIDs, in.Owner, texts = engine.Vectors{Dim: b.vectors.Dim}, nil, nil, nil
	}
	if m.weight > 0 {
		var err error
		if in.Bias, err = b.bias(texts, m.weight); err != nil {
			return nil, err
		}
	}
	share.Queries[1] = in.Queries.Rows
	return b.e.PartialDistribution(ctx, in, o.whole(&o.manifest, all), &brackets, share)
}

// countAll counts all pairs of a block. Pairs within the brackets are kept aside as an object, from which a further
// pass takes those within closer ones.
func (b *block) countAll(ctx context.Context, s *objects.Store, in engine.DistributionInput, share engine.Block) (
	*engine.Partial, error) {
	o, j := b.p.o, b.p.o.Pairs
	whole, part := o.whole(&o.manifest, o.questions.Rows), new(engine.Part)
	kept := func(job string) string { return path.Join("done/kept", path.Base(job), strconv.FormatInt(b.task, 10)) }
	switch {
	case j.From != "":
		var first Job
		if err := s.GetJSON(ctx, j.From, &first); err != nil {
			return nil, err
		}
		name, err := s.Recorded(ctx, kept(j.From))
		if err != nil {
			return nil, err
		}
		data, err := s.Get(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := part.UnmarshalShared(data); err != nil {
			return nil, err
		}
		return b.e.PartialOfPart(ctx, in, whole, &first.Pairs.Brackets, &j.Brackets, part)
	case j.Brackets.Cells == 0:
		return b.e.PartialDistribution(ctx, in, whole, &j.Brackets, share)
	}
	part, err := b.e.DistributionPart(ctx, in, &j.Brackets, share)
	if err != nil {
		return nil, err
	}
	data, err := part.MarshalBinary()
	if err != nil {
		return nil, err
	}
	name, err := s.Put(ctx, "kept", data)
	if err != nil {
		return nil, err
	}
	if err := s.Record(ctx, kept(o.name), name); err != nil {
		return nil, err
	}
	return b.e.PartialOfPart(ctx, in, whole, &j.Brackets, &j.Brackets, part)
}

// bias adds the cover of texts' words.
func (b *block) bias(texts []string, weight float64) (
	func(ctx context.Context, queries, contexts []int32, out []float32) error, error) {
	here, there := make([]*postings.Biases, len(texts)), make([]*postings.Biases, len(texts))
	for i, text := range texts {
		q, err := b.words.Query(text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		own, err := b.owners.Query(text, postings.Scoring{Kind: postings.Cover})
		if err != nil {
			return nil, err
		}
		here[i], there[i] = q.Biases(weight), own.Biases(weight)
	}
	rows := b.segment.Rows
	return func(_ context.Context, queries, contexts []int32, out []float32) error {
		for i, q := range queries {
			to := out[i*len(contexts):][:len(contexts)]
			for k := 0; k < len(contexts); {
				c, n := int(contexts[k]), 1
				if c >= rows {
					to[k] = there[q].At(b.ownerRow[c-rows])
					k++
					continue
				}
				for k+n < len(contexts) && int(contexts[k+n]) == c+n && c+n < rows {
					n++
				}
				if err := here[q].Read(kernels.RowBlock{First: c, Len: n}, to[k:k+n]); err != nil {
					return err
				}
				k += n
			}
		}
		return nil
	}, nil
}

// nothing returns brackets that keep no pair: the maxima are all that is asked for.
func nothing(m kernels.Metric, weight float64) engine.Brackets {
	b := engine.Brackets{Metric: m, Biased: weight > 0, Ends: [2]float64{-1e15, 1e15}}
	if m.Ascending() && !b.Biased {
		b.Ends[0] = 0
	}
	return b
}

func (q *Questions) text(i int) string {
	if q.Texts == nil {
		return ""
	}
	return q.Texts[i]
}

func (o *Options) negatives() string { return cmp.Or(o.Negatives, gate.DefaultNegatives) }
