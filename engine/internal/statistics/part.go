package statistics

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"math"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// Part is a share of the pairs of one distribution, counted. Parts are made by ComputePart, in one
// process or in many, travel as bytes, and are put together by Merge.
type Part struct {
	index, of int
	digest    [sha256.Size]byte // of the input and the plan
	tally     *tally
}

// ComputePart counts share index (from 0) of `of` shares of the pairs. The input must be the whole
// one for every share. Inputs that are too small for shares give parts that hold nothing.
func ComputePart(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, index, of int) (*Part, error) {
	if of < 1 || index < 0 || index >= of {
		return nil, fmt.Errorf("engine: %w: part %d of %d", kernels.ErrArgument, index, of)
	}
	j, err := newJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	p := &Part{index: index, of: of, tally: newTally(&look{})}
	if p.digest, err = j.digest(ctx); err != nil || j.bounded == nil {
		return p, err
	}
	err = j.logged(ctx, fmt.Sprintf("part %d of %d", index, of), func() error {
		n := j.bounded.tasks
		p.tally = newTally(&j.bounded.look)
		return j.sweep(ctx, &j.bounded.look, firstPass, j.bounded.allTasks()[index*n/of:(index+1)*n/of], p.tally)
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Merge computes what Compute does, from parts that cover all pairs; the same input and
// the same kernels give the same bits. Parts of another input or plan, or that overlap or leave a gap, are
// ErrPart. Only D+, rechecks and a histogram are computed here.
func Merge(ctx context.Context, r *device.Resources, t Tuning, in distribution.Input, parts ...*Part) (*distribution.Result, error) {
	in.Checkpoint = ""
	j, err := newJob(ctx, r, t, in)
	if err != nil {
		return nil, err
	}
	digest, err := j.digest(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if p == nil || p.tally == nil || p.digest != digest {
			return nil, fmt.Errorf("engine: %w: part of digest %s, the input and plan here have %s", distribution.ErrPart, p.name(), short(digest))
		}
	}
	if j.bounded == nil {
		err = j.run(ctx)
	} else {
		all := newTally(&j.bounded.look)
		for _, p := range parts {
			if err := j.bounded.accept(p.tally, &j.bounded.look); err != nil {
				return nil, fmt.Errorf("engine: %w: part %d of %d: %w", distribution.ErrPart, p.index, p.of, err)
			}
			if err := all.merge(p.tally); err != nil {
				return nil, fmt.Errorf("engine: %w: part %d of %d: %w", distribution.ErrPart, p.index, p.of, err)
			}
		}
		if err := covered(all.tasks, j.bounded.tasks); err != nil {
			return nil, err
		}
		err = j.finishBounded(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	j.progress.End()
	return j.out, nil
}

func (p *Part) name() string {
	if p == nil {
		return "of no part"
	}
	return short(p.digest)
}

func short(digest [sha256.Size]byte) string { return fmt.Sprintf("%x", digest[:8]) }

// covered checks that each task is there once.
func covered(tasks []int32, n int) error {
	seen := make([]bool, n)
	for _, t := range tasks {
		if seen[t] {
			return fmt.Errorf("engine: %w: task %d of %d is in two parts", distribution.ErrPart, t, n)
		}
		seen[t] = true
	}
	if len(tasks) < n {
		return fmt.Errorf("engine: %w: the parts hold %d tasks of %d", distribution.ErrPart, len(tasks), n)
	}
	return nil
}

// accept checks that a tally that came as bytes can be one of this plan's.
func (b *bounded) accept(t *tally, l *look) error {
	if len(t.below) != len(l.brackets) || len(t.bins) != l.bins {
		return fmt.Errorf("%d brackets and %d bins, want %d and %d", len(t.below), len(t.bins), len(l.brackets), l.bins)
	}
	has := make(map[int32]bool, len(t.tasks))
	for _, task := range t.tasks {
		if task < 0 || int(task) >= b.tasks || has[task] {
			return fmt.Errorf("task %d of %d, or twice", task, b.tasks)
		}
		has[task] = true
	}
	for _, r := range t.kept {
		if !has[r.task] {
			return fmt.Errorf("pairs of task %d, which is not in it", r.task)
		}
		row0, _, lane0, _ := b.block(int(r.task))
		rows, lanes := b.rows.Len()-row0*device.Panel, b.lanes.Len()-lane0*device.Panel
		rows, lanes = min(rows, b.rowStep*device.Panel), min(lanes, b.laneStep*device.Panel)
		for _, e := range r.entries {
			if int(e.At>>16) >= rows || int(e.At&0xffff) >= lanes || e.Value != e.Value {
				return fmt.Errorf("pair %d, %d of %d×%d in task %d", e.At>>16, e.At&0xffff, rows, lanes, r.task)
			}
		}
	}
	for _, list := range [][]leader{t.other, t.all} {
		for _, l := range list {
			if l.row < 0 || int(l.row) >= b.rows.Len() || l.lane < 0 || int(l.lane) >= b.lanes.Len() || l.value != l.value {
				return fmt.Errorf("candidate %d, %d of %d×%d", l.row, l.lane, b.rows.Len(), b.lanes.Len())
			}
		}
	}
	return nil
}

// digest is sha256 over the input and the plan.
func (j *job) digest(ctx context.Context) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	var buffer []byte
	put := func(values ...uint64) {
		buffer = buffer[:0]
		for _, v := range values {
			buffer = binary.LittleEndian.AppendUint64(buffer, v)
		}
		h.Write(buffer)
	}
	in, n := j.in, &j.in.Negatives
	h.Write([]byte("sluice distribution 1 " + j.r.Describe().Kernel))
	put(uint64(j.c.N), uint64(j.q.N), uint64(j.c.Dim), uint64(in.Metric), uint64(n.Kind), uint64(n.PerQuery), n.Seed, uint64(in.Bins), bit(in.Interval))
	for _, p := range in.Quantiles {
		put(math.Float64bits(p))
	}
	if b := j.bounded; b != nil {
		put(uint64(b.dtype), uint64(b.rowStep), uint64(b.laneStep), math.Float64bits(b.epsilon), pack(b.look.low, b.look.high), uint64(len(b.look.brackets)))
		for _, r := range b.look.brackets {
			put(pack(r.low, r.high))
		}
	}
	for _, o := range []*device.Operand{j.c, j.q} {
		if err := hashRows(ctx, h, o); err != nil {
			return sum, err
		}
	}
	for _, list := range [][]int32{in.Owner, in.Group} {
		put(uint64(len(list)))
		for _, x := range list {
			put(uint64(x))
		}
	}
	h.Sum(sum[:0])
	return sum, nil
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func pack(a, b float32) uint64 {
	return uint64(math.Float32bits(a))<<32 | uint64(math.Float32bits(b))
}

func hashRows(ctx context.Context, h hash.Hash, o *device.Operand) error {
	var buffer []byte
	for i := range o.N {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		buffer = buffer[:0]
		for _, x := range o.Row(i) {
			buffer = binary.LittleEndian.AppendUint32(buffer, math.Float32bits(x))
		}
		h.Write(buffer)
	}
	return nil
}

const (
	partMagic = "SLCPART\x02"
	// partHeader: magic, index, of, digest.
	partHeader = len(partMagic) + 8 + sha256.Size
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MarshalBinary implements encoding.BinaryMarshaler: magic with a version, the share, the digest, the
// counts, all little-endian, and a CRC-32C.
func (p *Part) MarshalBinary() ([]byte, error) {
	if p.tally == nil {
		return nil, fmt.Errorf("engine: %w: an empty part", distribution.ErrPart)
	}
	out := append([]byte(nil), partMagic...)
	out = binary.LittleEndian.AppendUint32(out, uint32(p.index))
	out = binary.LittleEndian.AppendUint32(out, uint32(p.of))
	out = append(out, p.digest[:]...)
	out = p.tally.encode(out)
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli)), nil
}

// UnmarshalBinary is the inverse of MarshalBinary; anything else is ErrPart.
func (p *Part) UnmarshalBinary(data []byte) error {
	if len(data) < partHeader+4 || string(data[:len(partMagic)]) != partMagic {
		return fmt.Errorf("engine: %w: %d bytes that are no part of this version", distribution.ErrPart, len(data))
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return fmt.Errorf("engine: %w: checksum %08x, want %08x", distribution.ErrPart, got, sum)
	}
	t, err := decodeTally(body[partHeader:])
	if err != nil {
		return fmt.Errorf("engine: %w: %w", distribution.ErrPart, err)
	}
	p.index = int(binary.LittleEndian.Uint32(body[len(partMagic):]))
	p.of = int(binary.LittleEndian.Uint32(body[len(partMagic)+4:]))
	copy(p.digest[:], body[len(partMagic)+8:])
	p.tally = t
	return nil
}
