package gpu

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/cuda"
)

const (
	staging  = 8 << 20
	copySize = 1 << 30 // bytes of each of two buffers, if the GPU has enough memory
	copyRuns = 10
)

// ordinal returns the ordinal in a device's name; without a number, that of the first GPU.
func ordinal(device string) int {
	_, number, _ := strings.Cut(device, ":")
	n, _ := strconv.Atoi(number) // the engine has validated it
	return n
}

// copyRate returns the bytes per second that copies within a GPU's memory read and write: the median of several.
func copyRate(d *cuda.Device) (rate float64, err error) {
	size := min(copySize, d.Limit()/16)
	pieces := make([]cuda.Ptr, 2)
	for i := range pieces {
		if pieces[i], err = d.Alloc(size); err != nil {
			return 0, err
		}
		defer d.Free(pieces[i])
	}
	var times []float64
	err = d.Do(func(s *cuda.Stream) error {
		if err := s.Fill(pieces[1], 1, size); err != nil {
			return err
		}
		for range copyRuns + 1 {
			took, err := s.Time(func() error { return s.Copy(pieces[0], pieces[1], size) })
			if err != nil {
				return err
			}
			times = append(times, took/1000)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	times = times[1:]
	slices.Sort(times)
	return 2 * float64(size) / math.Max(times[len(times)/2], 1e-9), nil
}
