package statistics

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"math"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/ref"
)

func short(digest [sha256.Size]byte) string { return fmt.Sprintf("%x", digest[:8]) }

// accept checks that counts that came as bytes can be of this plan, and places their runs.
func (b *bounded) accept(t *counts, w *wanted) error {
	if len(t.below) != len(w.brackets) || len(t.bins) != w.bins {
		return fmt.Errorf("%d brackets and %d bins, want %d and %d", len(t.below), len(t.bins), len(w.brackets), w.bins)
	}
	has := make(map[int32]bool, len(t.tasks))
	for _, task := range t.tasks {
		if task < 0 || int(task) >= b.tasks || has[task] {
			return fmt.Errorf("task %d of %d, or twice", task, b.tasks)
		}
		has[task] = true
	}
	for i, r := range t.kept {
		if !has[r.task] {
			return fmt.Errorf("pairs of task %d, which is not in it", r.task)
		}
		t.kept[i].row, t.kept[i].lane = b.run(r.task, 0).row, b.run(r.task, 0).lane
		row0, row1, lane0, lane1 := b.block(int(r.task))
		rows, lanes := min(row1*device.Panel, b.rowCount)-row0*device.Panel,
			min(lane1*device.Panel, b.laneCount)-lane0*device.Panel
		for _, e := range r.entries {
			if int(e.At>>16) >= rows || int(e.At&0xffff) >= lanes || e.Value != e.Value {
				return fmt.Errorf("pair %d, %d of %d×%d in task %d", e.At>>16, e.At&0xffff, rows, lanes, r.task)
			}
		}
	}
	for _, list := range [][]ref.Pair{t.best[bestOther], t.best[bestAll], {t.lowest, t.highest}} {
		for _, p := range list {
			none := p == noPair
			if !none &&
				(p.Query < 0 || int(p.Query) >= b.laneCount || p.Context < 0 || int(p.Context) >= b.rowCount ||
					p.Score != p.Score) {
				return fmt.Errorf("pair %d, %d of %d×%d with score %v", p.Query, p.Context, b.laneCount, b.rowCount,
					p.Score)
			}
		}
	}
	return nil
}

// digest is sha256 over the input and the plan.
func (j *job) digest(ctx context.Context) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	var buffer []byte
	add := func(values ...uint64) {
		buffer = put(buffer[:0], values...)
		h.Write(buffer)
	}
	in, n := j.in, &j.in.Negatives
	h.Write([]byte("sluice distribution 2 " + j.r.Describe().Kernel))
	add(uint64(j.c.N), uint64(j.q.N), uint64(j.c.Dim), uint64(in.Metric), uint64(n.Kind), uint64(n.PerQuery), n.Seed,
		uint64(in.Bins), bit(in.Interval))
	for _, p := range in.Quantiles {
		add(math.Float64bits(p))
	}
	if b := j.bounded; b != nil {
		add(uint64(b.dtype), uint64(b.rowStep), uint64(b.laneStep), math.Float64bits(b.epsilon),
			pack(b.first.low, b.first.high), uint64(len(b.first.brackets)))
		for _, r := range b.first.brackets {
			add(pack(r.low, r.high))
		}
	}
	for _, o := range []*device.Operand{j.c, j.q} {
		if err := hashRows(ctx, h, o); err != nil {
			return sum, err
		}
	}
	for _, list := range [][]int32{in.Owner, in.Group} {
		add(uint64(len(list)))
		err := workers.Over(ctx, len(list), func(from, to int) {
			for _, x := range list[from:to] {
				add(uint64(x))
			}
		})
		if err != nil {
			return sum, err
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
		buffer = put(buffer[:0], o.Row(i)...)
		h.Write(buffer)
	}
	return nil
}
