package gpu

import (
	"errors"
	"fmt"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/kernels"
)

// The tiles of sm_90a (kernels/cuda/tiles_sm90.cuh).
const (
	ringThreads = 384
	ringBox     = 64  // rows of a copy
	ringBytes   = 128 // of each of them
	ringColumns = 128
	mapsBytes   = 2 * cuda.MapBytes // of a set's vectors and second parts
)

// ringState records whether tiles of tensor cores are multiplied by the kernels of sm_90a.
type ringState struct {
	why  string // why not
	used bool
}

// tryRing finds out whether the kernels of sm_90a can be used: the image's part for it runs here, and the driver
// encodes maps.
func (d *Device) tryRing() error {
	if part := d.module.Part(); part.String() != "sm_90a" {
		d.ring.why = fmt.Sprintf("the kernels are those of %v", part)
		return nil
	}
	at, err := d.gpu.Alloc(ringBytes)
	if err != nil {
		return fmt.Errorf("gpu: %w", err)
	}
	defer d.gpu.Free(at)
	d.ring.used = true
	_, err = d.encode(at, 2, ringBytes/2, 1)
	return err
}

// tiles says it.
func (d *Device) tiles() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ring.used {
		return "wgmma and TMA"
	}
	return "mma.sync and cp.async: " + d.ring.why
}

// encode returns the map of rows of elements of so many bytes. Where the driver refuses it, sets have none from now on.
func (d *Device) encode(at cuda.Ptr, size, width, height int) (m [cuda.MapBytes]byte, err error) {
	err = d.gpu.Do(func(s *cuda.Stream) (err error) {
		m, err = s.Map(cuda.Boxes{At: at, Element: size, Width: width, Height: height, Stride: int64(size * width),
			BoxWidth: ringBytes / size, BoxHeight: ringBox})
		return err
	})
	var refused *cuda.Error
	if errors.As(err, &refused) && !errors.Is(err, cuda.ErrLost) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ring.used, d.ring.why = false, refused.Error()
		return m, nil
	}
	return m, err
}

// usesRing reports whether tiles are multiplied by the kernels of sm_90a.
func (d *Device) usesRing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ring.used
}

// makeMaps gives a set its maps, but in float32.
func (d *Device) makeMaps(s *set) error {
	if s.dtype == kernels.F32 || s.n == 0 || !d.usesRing() {
		return nil
	}
	var maps []byte
	l := layoutOf(s.dtype)
	for _, at := range []cuda.Ptr{s.data, s.low}[:l.arrays] {
		m, err := d.encode(at, l.size, s.padded(), s.Count()*device.Panel)
		if err != nil || !d.usesRing() {
			return err
		}
		maps = append(maps, m[:]...)
	}
	var err error
	if s.maps, err = d.gpu.Alloc(mapsBytes); err != nil {
		return err
	}
	return d.gpu.Do(func(st *cuda.Stream) error { return st.Write(s.maps, maps) })
}

// launch is how a call's tiles are multiplied.
type launch struct {
	kernel      string // the end of its name
	grid, block [3]int
	shared      int
	arguments   []uint64 // the first ones
}

// tilesOf is by the kernels for all architectures.
func tilesOf(l, r *set, row0, row1, lane0, lane1 int) launch {
	w := launch{kernel: l.dtype.String(), grid: grid(row0, row1, lane0, lane1), block: [3]int{tileThreads, 1, 1},
		shared: stages(l.dtype)}
	format, shares := sharing(l.dtype)
	if shares {
		w.kernel = "tensor"
	}
	w.arguments = append(arguments(l, r, row0, row1, lane0, lane1), format)
	return w
}

// sharing reports whether one kernel multiplies several formats, and returns the slc::Format of this one.
func sharing(t kernels.DType) (format uint64, shares bool) {
	switch t {
	case kernels.BF16:
		return 1, true
	case kernels.I8:
		return 3, true
	case kernels.FP8:
		return 4, true
	}
	return 0, false
}

// way is by the kernels of sm_90a where both sets have maps.
func (d *Device) way(l, r *set, row0, row1, lane0, lane1 int) launch {
	w := tilesOf(l, r, row0, row1, lane0, lane1)
	if l.maps == 0 || r.maps == 0 {
		return w
	}
	boxes, stage, depth := 2, 4*ringBox*ringBytes, 6 // of rows in a tile; bytes; stages
	switch l.dtype {
	case kernels.BF16x3:
		boxes, stage, depth = 1, 6*ringBox*ringBytes, 4
	case kernels.FP8:
		boxes, stage = 1, 3*ringBox*ringBytes
	}
	panels := func(of, from, to int) int { return (to - from + of/device.Panel - 1) / (of / device.Panel) }
	tiles := panels(boxes*ringBox, row0, row1) * panels(ringColumns, lane0, lane1)
	w.kernel = l.dtype.String() + "_sm90"
	w.grid, w.block = [3]int{min(tiles, max(1, d.gpu.Info().Multiprocessors)), 1, 1}, [3]int{ringThreads, 1, 1}
	w.shared = stage*depth + ringShared
	w.arguments = append(arguments(l, r, row0, row1, lane0, lane1), uint64(l.maps), uint64(r.maps))
	return w
}

// ringShared is the shared memory behind the stages: sizeof(slc::Ring).
const ringShared = 8*18 + 2*(8*(1+12+3+3)+8+4*128+4*1024)
