package statistics

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels/ref"
)

// checkpoint is an append-only file: magic with a version and the digest of input and plan, then records
// of length, CRC-32C, the number of a pass and the counts of some of its tasks. A record that is torn, and
// what follows it, never happened.
type checkpoint struct {
	path    string
	file    *os.File
	records map[int][]*counts // of passes that were under way when the file was opened
	err     error             // of an append; what came after it in the file would not be read
}

const checkpointMagic = "SLCCKPT\x03"

// openCheckpoint opens or makes the file. One that belongs to something else is ErrCheckpoint.
func openCheckpoint(ctx context.Context, path string, digest [sha256.Size]byte) (*checkpoint, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("engine: checkpoint: %w", err)
	}
	c := &checkpoint{path: path, file: file, records: make(map[int][]*counts)}
	if err := c.load(ctx, digest); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

func (c *checkpoint) load(ctx context.Context, digest [sha256.Size]byte) error {
	data, err := io.ReadAll(untilDone{ctx, c.file})
	if err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	header := append([]byte(checkpointMagic), digest[:]...)
	if len(data) < len(header) && string(data) == string(header[:len(data)]) { // new, or torn at once
		if _, err := c.file.WriteAt(header, 0); err != nil {
			return fmt.Errorf("engine: checkpoint: %w", err)
		}
		_, err := c.file.Seek(int64(len(header)), io.SeekStart)
		return err
	}
	if len(data) < len(header) || string(data[:len(checkpointMagic)]) != checkpointMagic {
		return fmt.Errorf("engine: %w: %s is no checkpoint of this version", distribution.ErrCheckpoint, c.path)
	}
	if found := [sha256.Size]byte(data[len(checkpointMagic):]); found != digest {
		return fmt.Errorf("engine: %w: %s belongs to input %x, this is %x; remove it, or name another",
			distribution.ErrCheckpoint, c.path, found[:8], digest[:8])
	}
	at := len(header)
	for at+12 <= len(data) {
		if err := ctx.Err(); err != nil {
			return err
		}
		size, sum := int(binary.LittleEndian.Uint32(data[at:])), binary.LittleEndian.Uint32(data[at+4:])
		if size < 4 || size > len(data)-at-8 {
			break
		}
		body := data[at+8 : at+8+size]
		if durable.Checksum(body) != sum {
			break
		}
		t, err := decodeCounts(body[4:])
		if err != nil {
			break
		}
		pass := int(binary.LittleEndian.Uint32(body))
		c.records[pass] = append(c.records[pass], t)
		at += 8 + size
	}
	if err := c.file.Truncate(int64(at)); err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	_, err = c.file.Seek(int64(at), io.SeekStart)
	return err
}

// untilDone reads while the context lasts.
type untilDone struct {
	ctx  context.Context
	from io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// append writes a record and waits until it is on disk; callers take turns.
func (c *checkpoint) append(pass int, t *counts, load func(run) ([]device.Entry, error)) error {
	if c.err != nil {
		return c.err
	}
	body, err := t.encode(binary.LittleEndian.AppendUint32(make([]byte, 8), uint32(pass)), load)
	if err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(body, uint32(len(body)-8))
	binary.LittleEndian.PutUint32(body[4:], durable.Checksum(body[8:]))
	if _, err := c.file.Write(body); err != nil {
		c.err = fmt.Errorf("engine: checkpoint: %w", err)
	} else if err := c.file.Sync(); err != nil {
		c.err = fmt.Errorf("engine: checkpoint: %w", err)
	}
	return c.err
}

// openLog opens the input's checkpoint, if it names one and there is a pass to record. share tells shares of one input
// apart. closeLog is to be called.
func (j *job) openLog(ctx context.Context, share string) error {
	if j.in.Checkpoint == "" || j.bounded == nil {
		return nil
	}
	digest, err := j.digest(ctx)
	if err != nil {
		return err
	}
	digest = sha256.Sum256(append(digest[:], share...))
	j.log, err = openCheckpoint(ctx, j.in.Checkpoint, digest)
	return err
}

// closeLog closes the checkpoint and returns err. The file goes when that is nil, and stays for another try when not.
func (j *job) closeLog(err error) error {
	if j.log == nil {
		return err
	}
	if err != nil {
		return errors.Join(err, j.log.file.Close())
	}
	if err := errors.Join(j.log.file.Close(), os.Remove(j.log.path)); err != nil {
		return fmt.Errorf("engine: checkpoint: %w", err)
	}
	return nil
}

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
