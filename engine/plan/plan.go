// Package plan divides a calibration among workers, and says beforehand what that costs:
//
//	contexts × questions, rates → blocks → parts → merge tree → passes → hours, bytes, memory
//
// It is arithmetic: nothing is read or computed. Input: Input. Output: *Plan, whose Simulate plays it with workers that
// differ in speed and fail.
package plan

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrInput is wrapped by errors about what a plan is asked for.
var ErrInput = errors.New("plan")

// Rates are what a worker does in a second.
type Rates struct {
	Products float64 `json:"products"` // multiply-adds of pairs that are counted by bounds
	Scores   float64 `json:"scores"`   // multiply-adds of canonical scores, which pairs with words have
	Words    float64 `json:"words"`    // bytes of text whose words are counted
	Transfer float64 `json:"transfer"` // bytes from and to the object storage
	From     string  `json:"from"`     // where the numbers are from
}

// Input of New. Zero values of the sizes take the defaults.
type Input struct {
	Contexts  int64 `json:"contexts"`
	Questions int64 `json:"questions"`
	Dim       int   `json:"dim"`
	Workers   int   `json:"workers"`
	Rates     Rates `json:"rates"`

	Block     time.Duration `json:"-"`          // how long a worker works on a block; 0: DefaultBlock
	Memory    int64         `json:"memory"`     // bytes that a worker may take; 0: DefaultMemory
	TextBytes int64         `json:"text_bytes"` // of a context; 0: DefaultTextBytes
	Exact     bool          `json:"exact"`      // exact quantiles of D−, by a further pass
}

// The defaults, and what a calibration does whatever its size.
const (
	DefaultBlock     = time.Minute
	DefaultMemory    = 4 << 30
	DefaultTextBytes = 600
	DefaultDim       = 384

	FanIn     = 16      // parts that one step of the merge tree adds up
	Bins      = 1 << 16 // cells of the histogram of D−
	Aside     = 8 << 30 // bytes of pairs around quantiles that all blocks keep for a further pass, at most
	Weights   = 5       // of the words, 0 among them, that a calibration compares
	ratePairs = 1e8     // pairs that are scored with words, unless that leaves fewer questions than
	rateLeast = 1000

	maxNumber    = 1 << 50
	queryBytes   = 56     // of a Partial, for each question
	wordsPerText = .15    // bytes of word statistics for each byte of text
	keptShare    = 1.5e-4 // of the pairs, for each quantile: as near as the bounds of their counting are wide
	quantiles    = 5
	packed       = 1.5 // bytes of packed rows for each byte of vectors
)

// Range is the numbers [From, To).
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Block is a share of the pairs.
type Block struct {
	Contexts  Range `json:"contexts"`
	Questions Range `json:"questions"`
}

// Pass is one reading of all contexts.
type Pass struct {
	Name    string  `json:"name"`
	Pairs   float64 `json:"pairs"`   // that are counted, those with words once for each weight
	Seconds float64 `json:"seconds"` // of one worker for all blocks
	Read    float64 `json:"read"`    // bytes from the storage
	Written float64 `json:"written"` // bytes to the storage
}

// Plan is what New found.
type Plan struct {
	Input
	Blocks       int64   `json:"blocks"`
	PerBlock     Block   `json:"per_block"` // the first one; the last ones may be smaller
	Rated        int64   `json:"rated"`     // questions that are scored with words
	Passes       []Pass  `json:"passes"`
	PartBytes    int64   `json:"part_bytes"`
	Levels       int     `json:"levels"`      // of the merge tree
	MergeBytes   float64 `json:"merge_bytes"` // that it reads and writes
	MemoryBytes  int64   `json:"worker_memory"`
	MachineHours float64 `json:"machine_hours"`
	Hours        float64 `json:"hours"` // with all workers busy, without failures

	rows, lanes int64 // of a block
}

// New makes a plan. What it is given out of range is ErrInput.
func New(in Input) (*Plan, error) {
	if in.Block == 0 {
		in.Block = DefaultBlock
	}
	if in.Memory == 0 {
		in.Memory = DefaultMemory
	}
	if in.TextBytes == 0 {
		in.TextBytes = DefaultTextBytes
	}
	if in.Dim == 0 {
		in.Dim = DefaultDim
	}
	if in.Workers == 0 {
		in.Workers = 1
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	p := &Plan{Input: in}
	p.Rated = min(in.Questions, max(int64(ratePairs)/in.Contexts, rateLeast))
	if err := p.cut(); err != nil {
		return nil, err
	}
	p.count()
	return p, nil
}

func (in *Input) check() error {
	for name, n := range map[string]int64{"contexts": in.Contexts, "questions": in.Questions, "memory": in.Memory,
		"text bytes": in.TextBytes, "dimension": int64(in.Dim), "workers": int64(in.Workers)} {
		if n < 1 || n > maxNumber {
			return fmt.Errorf("%w: %d %s; at least 1, at most 2^50", ErrInput, n, name)
		}
	}
	if in.Dim > 1<<16 || in.Workers > 1<<20 {
		return fmt.Errorf("%w: dimension %d, %d workers; at most 65536 and 1048576", ErrInput, in.Dim, in.Workers)
	}
	for name, r := range map[string]float64{"products": in.Rates.Products, "scores": in.Rates.Scores,
		"words": in.Rates.Words, "transfer": in.Rates.Transfer} {
		if !(r > 0 && r < math.MaxFloat32) {
			return fmt.Errorf("%w: a rate of %v %s a second; it is a positive number", ErrInput, r, name)
		}
	}
	if in.Block < time.Second || in.Block > 24*time.Hour {
		return fmt.Errorf("%w: blocks of %v; at least a second, at most a day", ErrInput, in.Block)
	}
	return nil
}

// vector returns the bytes of a vector.
func (in *Input) vector() int64 { return 4 * int64(in.Dim) }

// memoryOf returns what a worker takes for a block: the rows, the own contexts of the questions, and what is packed.
func (in *Input) memoryOf(rows, lanes int64) int64 {
	return int64((1+packed)*float64(rows+lanes)*float64(in.vector())) + lanes*(in.vector()+3*queryBytes) + 24*rows +
		16*Bins
}

// cut chooses the blocks: as many contexts as take the time of a block with all questions and fit into the memory;
// where the questions alone do not fit, these are divided, too.
func (p *Plan) cut() error {
	p.lanes = p.Questions
	for p.lanes > 1 && p.memoryOf(1, p.lanes) > p.Memory/2 {
		p.lanes = (p.lanes + 1) / 2
	}
	rows := p.Block.Seconds() * p.Rates.Products / (float64(p.Dim) * float64(p.lanes))
	least := min(p.Contexts, 1<<10) // so that reading the questions does not take longer than counting
	p.rows = min(p.Contexts, max(least, int64(min(rows, maxNumber))))
	for p.rows > 1 && p.memoryOf(p.rows, p.lanes) > p.Memory {
		p.rows = (p.rows + 1) / 2
	}
	if need := p.memoryOf(p.rows, p.lanes); need > p.Memory {
		return fmt.Errorf("%w: a worker needs at least %d bytes of memory, and may take %d", ErrInput, need, p.Memory)
	}
	p.Blocks = ceil(p.Contexts, p.rows) * ceil(p.Questions, p.lanes)
	p.PerBlock = p.Of(0)
	p.MemoryBytes = p.memoryOf(p.rows, p.lanes)
	return nil
}

func ceil(a, b int64) int64 { return (a + b - 1) / b }

// Of returns a block; blocks of the same contexts follow each other.
func (p *Plan) Of(i int64) Block {
	columns := ceil(p.Questions, p.lanes)
	part := func(i, size, all int64) Range { return Range{i * size, min((i+1)*size, all)} }
	return Block{part(i/columns, p.rows, p.Contexts), part(i%columns, p.lanes, p.Questions)}
}

// count adds up the passes.
func (p *Plan) count() {
	n, m, d := float64(p.Contexts), float64(p.Questions), float64(p.Dim)
	vector, blocks := float64(p.vector()), float64(p.Blocks)
	p.PartBytes = queryBytes*(p.lanes+Weights*min(p.Rated, p.lanes)) + 8*Bins
	texts := n * float64(p.TextBytes)
	words := Pass{Name: "words", Seconds: texts / p.Rates.Words, Read: texts * wordsPerText, Written: blocks * 1e5}
	columns := float64(ceil(p.Questions, p.lanes))
	questions := blocks * 2 * float64(p.lanes) * vector // with their own contexts
	rated := n * float64(p.Rated) * Weights
	pairs := Pass{Name: "pairs", Pairs: n*m + rated, Seconds: n*m*d/p.Rates.Products + rated*d/p.Rates.Scores,
		Read: n*vector*columns + questions + texts*wordsPerText, Written: blocks * float64(p.PartBytes)}
	p.Passes = []Pass{words, pairs}
	if p.Exact {
		kept := keptShare * quantiles * n * m
		last := Pass{Name: "quantiles", Seconds: kept * d / p.Rates.Scores, Read: n*vector*columns + questions,
			Written: blocks*float64(p.PartBytes) + 8*kept}
		if aside := 8 * asideShare(n*m) * n * m; aside <= Aside {
			p.Passes[1].Written += aside
			last.Read += aside
		} else {
			last.Pairs = n * m
			last.Seconds += n * m * d / p.Rates.Products
		}
		p.Passes = append(p.Passes, last)
	}
	for i := range p.Passes {
		x := &p.Passes[i]
		x.Seconds += (x.Read + x.Written) / p.Rates.Transfer
	}
	for left := p.Blocks; left > 1; left = ceil(left, FanIn) {
		p.Levels++
		p.MergeBytes += float64(left+ceil(left, FanIn)) * float64(p.PartBytes)
	}
	seconds := p.MergeBytes / p.Rates.Transfer
	for _, x := range p.Passes {
		seconds += x.Seconds
	}
	p.MachineHours = seconds / 3600
	p.Hours = p.MachineHours / float64(min(int64(p.Workers), p.Blocks))
}

// asideShare returns how many of so many pairs blocks keep aside: the quantiles' brackets, from a sample of about
// 2.5·pairs^⅔, are 3.5 standard deviations of its ranks wide to each side.
func asideShare(pairs float64) float64 {
	return .002 + 12.6/math.Sqrt(min(2.5*math.Pow(pairs, 2./3), 1<<25))
}

// Bytes returns all bytes that go to and from the storage.
func (p *Plan) Bytes() float64 {
	sum := p.MergeBytes
	for _, x := range p.Passes {
		sum += x.Read + x.Written
	}
	return sum
}
