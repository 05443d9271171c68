package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/kernels"
)

// DeviceCosts are the figures by which operations choose between the CPU and a GPU. They are measured once for a
// machine, a driver and a version of this program, and kept in the user's cache folder.
type DeviceCosts struct {
	Version int       `json:"version"` // of this format
	Key     string    `json:"key"`     // digest of what the figures depend on
	About   string    `json:"about"`   // the same in readable form
	Time    time.Time `json:"time"`    // of the measurement
	Cached  bool      `json:"-"`       // read from the cache, not measured by this process
	Threads int       `json:"threads"` // CPU threads requested for this engine

	CPU DeviceRates `json:"cpu"` // of one thread
	GPU DeviceRates `json:"gpu"`
}

// DeviceRates holds the throughput of a device, per second unless the field says otherwise.
type DeviceRates struct {
	Tiles    map[string]float64 `json:"tiles"`              // multiply-adds of tiles by format
	Scores   float64            `json:"scores"`             // multiply-adds of canonical scores
	Read     float64            `json:"read"`               // bytes from its memory
	Transfer float64            `json:"transfer,omitempty"` // bytes to its memory; 0 if it shares the process's memory
	Launch   float64            `json:"launch"`             // seconds of the shortest call
	Seconds  float64            `json:"seconds"`            // duration of the measurement
}

const costsVersion = 1

// String returns one line with the rates of both devices and the costs of a copy and of a call.
func (c DeviceCosts) String() string {
	tiles := func(m DeviceRates, threads float64) string {
		var all []string
		for t := range kernels.DTypes {
			if rate := m.Tiles[t.String()]; rate > 0 {
				all = append(all, fmt.Sprintf("%s %.3g", t, 2*rate*threads/1e9))
			}
		}
		return strings.Join(all, ", ")
	}
	from := fmt.Sprintf("measured in %.2g s", c.CPU.Seconds+c.GPU.Seconds)
	if c.Cached {
		from = "measured at " + c.Time.Format(time.DateTime)
	}
	return fmt.Sprintf("GPU: GFLOP/s of tiles %s, canonical %.3g, read %.3g GB/s, copies %.3g GB/s, a call %.0f µs; "+
		"CPU, %d threads: tiles %s, canonical %.3g, read %.3g GB/s; %s", tiles(c.GPU, 1), 2*c.GPU.Scores/1e9,
		c.GPU.Read/1e9,
		c.GPU.Transfer/1e9, c.GPU.Launch*1e6, c.Threads, tiles(c.CPU, float64(c.Threads)),
		2*c.CPU.Scores*float64(c.Threads)/1e9, c.CPU.Read/1e9, from)
}

func ratesOf(m device.Measured) DeviceRates {
	r := DeviceRates{Tiles: map[string]float64{}, Scores: m.Scores, Read: m.Read, Transfer: m.Transfer,
		Launch:  m.Launch,
		Seconds: m.Seconds}
	for t, rate := range m.Tiles {
		if rate > 0 {
			r.Tiles[kernels.DType(t).String()] = rate
		}
	}
	return r
}

// rates returns the rates of the given number of CPU threads. Until searches have been timed, an index is assumed to
// avoid most of the reading.
func (r DeviceRates) rates(threads float64) device.Rates {
	out := device.Rates{Scores: r.Scores * threads, Read: r.Read, Indexed: device.Indexed * r.Read}
	for t := range kernels.DTypes {
		out.Tiles[t] = r.Tiles[t.String()] * threads
	}
	return out
}

// costs converts the figures to the form that device.Choose takes.
func (c DeviceCosts) costs(gpu device.Info) device.Costs {
	out := device.Costs{CPU: c.CPU.rates(float64(c.Threads)), GPU: &device.GPU{Rates: c.GPU.rates(1), Name: gpu.Name,
		Transfer: c.GPU.Transfer, Launch: c.GPU.Launch, Memory: gpu.Memory / 2}}
	if out.GPU.Transfer == 0 { // it reads the process's memory
		out.GPU.Transfer = c.CPU.Read
	}
	return out
}

// measured returns the costs of the CPU and of d, from the cache or by measuring them and storing the result there. If
// the cache cannot be read or written, the costs are measured every time.
func measured(ctx context.Context, key string, d device.Device, cpu *device.Resources) (DeviceCosts, error) {
	about := strings.Join([]string{key, cpu.Describe().Kernel, cpu.Host.ISA().String(), runtime.GOARCH, processor(),
		revision()}, "; ")
	sum := sha256.Sum256([]byte(about))
	c := DeviceCosts{Version: costsVersion, Key: hex.EncodeToString(sum[:8]), About: about}
	path := costsPath(c.Key)
	if key != "" && c.read(path) {
		c.Cached, c.Threads = true, cpu.Pool.Threads
		return c, nil
	}
	c.Time, c.Threads = time.Now().UTC(), cpu.Pool.Threads
	gpu, err := device.Measure(ctx, d, budget/2)
	if err != nil {
		return c, fmt.Errorf("what the GPU costs cannot be measured: %w", err)
	}
	host, err := device.Measure(ctx, cpu.Device, budget/2)
	if err != nil {
		return c, err
	}
	c.GPU, c.CPU = ratesOf(gpu), ratesOf(host)
	if key != "" && path != "" {
		c.write(path)
	}
	return c, nil
}

// costsPath returns the cache file of a key, or "" if there is no cache folder.
func costsPath(key string) string {
	dir := os.Getenv("SLUICE_CACHE")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(cache, "sluice")
	}
	return filepath.Join(dir, "device", key+".json")
}

func (c *DeviceCosts) read(path string) bool {
	data, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	var got DeviceCosts
	if json.Unmarshal(data, &got) != nil || got.Version != costsVersion || got.Key != c.Key || got.CPU.Read <= 0 ||
		got.GPU.Read <= 0 || got.GPU.Tiles[kernels.F32.String()] <= 0 || got.CPU.Tiles[kernels.F32.String()] <= 0 {
		return false
	}
	*c = got
	return true
}

// write stores the costs in the cache. Errors are ignored, because the costs can be measured again.
func (c *DeviceCosts) write(path string) {
	if os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	_ = durable.Replace(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(c)
	})
}

// processor returns the model name of the CPU if the system reports it.
func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS
}

// revision returns the commit that the program was built from, or "" if Go did not record it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
