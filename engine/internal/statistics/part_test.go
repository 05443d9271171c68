package statistics

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/engine/distribution"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/testvectors"
	"github.com/sluice-rag/sluice/engine/internal/workers"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// testEngine computes as an engine does.
type testEngine struct{ r device.Resources }

func newTestEngine(t testing.TB, tileRows int) *testEngine {
	t.Helper()
	k, err := cpu.Open("")
	if err != nil {
		t.Fatal(err)
	}
	return &testEngine{device.Resources{Device: device.NewCPU(k), Host: k, Pool: &workers.Pool{Budget: cores.New(1), Threads: 1},
		MemLimit: 1 << 30, TileRows: tileRows}}
}

func partInput(bins int) distribution.Input {
	rng := rand.New(rand.NewPCG(51, 0))
	in := distribution.Input{Contexts: testvectors.Embeddings(rng, 500, 24), Queries: testvectors.Embeddings(rng, 700, 24),
		Quantiles: testvectors.Quantiles(), Bins: bins}
	for range in.Queries.Rows {
		in.Owner = append(in.Owner, rng.Int32N(500))
	}
	return in
}

// TestStrangePartsRefused: parts whose content cannot be of the input.
func TestStrangePartsRefused(t *testing.T) {
	e, ctx := newTestEngine(t, 128), context.Background()
	in := partInput(0)
	part := func(i int) *Part {
		p, err := ComputePart(ctx, &e.r, DefaultTuning(), in, i, 2)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	rest := part(1)
	for name, c := range map[string]struct {
		change func(t *tally)
		want   string
	}{
		"a strange pair": {func(t *tally) { t.kept[0].entries[0].At = 0xffff_ffff }, "pair"},
		"a wrong count":  {func(t *tally) { t.counted-- }, "counted"},
		"a strange row":  {func(t *tally) { t.other[0].row = 500 }, "candidate"},
		"a strange task": {func(t *tally) { t.tasks[0] = 1 << 20 }, "task"},
	} {
		p := part(0)
		c.change(p.tally)
		_, err := Merge(ctx, &e.r, DefaultTuning(), in, p, rest)
		if !errors.Is(err, distribution.ErrPart) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzPart: bytes are refused with a typed error or are a part; a part that a CRC lets through is checked
// against the input before anything is computed with it.
func FuzzPart(f *testing.F) {
	e := newTestEngine(f, 128)
	in := partInput(0)
	for i := range 2 {
		p, err := ComputePart(context.Background(), &e.r, DefaultTuning(), in, i, 2)
		if err != nil {
			f.Fatal(err)
		}
		p.tally.kept = []run{{p.tally.kept[0].task, p.tally.kept[0].entries[:8]}} // short inputs mutate quickly
		p.tally.other = p.tally.other[:3]
		data, err := p.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[partHeader:len(data)-4], data)
	}
	j, err := newJob(context.Background(), &e.r, DefaultTuning(), in)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, whole []byte) {
		if err := new(Part).UnmarshalBinary(whole); err != nil && !errors.Is(err, distribution.ErrPart) {
			t.Fatalf("untyped error %v", err)
		}
		tally, err := decodeTally(body) // as behind a good checksum
		if err != nil {
			return
		}
		if !bytes.Equal(tally.encode(nil), body) {
			t.Fatal("decoded and encoded, the bytes differ")
		}
		if j.bounded.accept(tally, &j.bounded.look) == nil {
			e := noEnds
			if err := j.resolve(context.Background(), &j.bounded.look, tally, &e); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestLyingRecord: a checkpoint whose counts do not add up is refused when the sweep is complete.
func TestLyingRecord(t *testing.T) {
	in := partInput(0)
	in.Checkpoint = filepath.Join(t.TempDir(), "run.ckpt")
	ctx, cancel := context.WithCancel(context.Background())
	e := newTestEngine(t, 32)
	e.r.Report = func(done, total int64) {
		if done > total*6/10 {
			cancel()
		}
	}
	if _, err := Compute(ctx, &e.r, DefaultTuning(), in); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	file, err := os.ReadFile(in.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	body := file[checkpointHeader+8:][:binary.LittleEndian.Uint32(file[checkpointHeader:])]
	body[4]-- // the low byte of the count
	binary.LittleEndian.PutUint32(file[checkpointHeader+4:], crc32.Checksum(body, castagnoli))
	if err := os.WriteFile(in.Checkpoint, file, 0o600); err != nil {
		t.Fatal(err)
	}
	e.r.Report = nil
	if _, err := Compute(context.Background(), &e.r, DefaultTuning(), in); !errors.Is(err, distribution.ErrPart) {
		t.Errorf("a record that lies: %v", err)
	}
}
