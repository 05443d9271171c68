package engine

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-rag/sluice/cuda"
	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/device/gpu"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// openCUDA opens NVIDIA GPUs by their ordinals, all there are for nil, as one device.
func openCUDA(ordinals []int, memory int64, host cpu.Kernels) (d device.Device, key string, end func() error,
	err error) {
	if ordinals == nil {
		infos, err := cuda.Devices()
		if err != nil {
			return nil, "", nil, err
		}
		for _, info := range infos {
			ordinals = append(ordinals, info.Ordinal)
		}
	}
	var opened []*cuda.Device
	end = func() (err error) {
		for _, g := range opened {
			err = errors.Join(err, g.Close())
		}
		return err
	}
	var all []device.Device
	for _, n := range ordinals {
		g, err := cuda.Open(cuda.Options{Ordinal: n, MemoryLimit: memory})
		if err != nil {
			return nil, "", nil, errors.Join(fmt.Errorf("cuda:%d: %w", n, err), end())
		}
		opened = append(opened, g)
		one, err := gpu.New(g, host)
		if err != nil {
			return nil, "", nil, errors.Join(fmt.Errorf("cuda:%d: %w", n, err), end())
		}
		info := g.Info()
		name := "cuda:" + strconv.Itoa(n) + " (" + info.Name + ")"
		key += fmt.Sprintf("%s, %d MiB, capability %d.%d, driver %s; ", name, info.Memory>>20, info.Capability[0],
			info.Capability[1], info.Driver)
		all = append(all, device.Named(one, name))
	}
	if len(all) == 1 {
		return all[0], key, end, nil
	}
	return device.NewSeveral(all), key, end, nil
}
