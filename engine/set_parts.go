package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rag/sluice/engine/internal/device"
	"github.com/sluice-rag/sluice/engine/internal/index"
	"github.com/sluice-rag/sluice/engine/internal/search"
	"github.com/sluice-rag/sluice/kernels/cpu"
)

// part holds rows of a prepared set that were added together. Devices keep copies and packed forms of parts, so that
// after rows were appended or deleted the other rows are not sent again.
type part struct {
	rows  cpu.Rows
	first int // number of the first row
	kept  *device.Kept

	once    sync.Once
	largest float64 // largest norm
}

// part returns the part of the snapshot that has these rows, or a new one. m may be nil.
func (m *snapshot) part(g index.Group, limit int64) *part {
	if m != nil {
		for _, p := range m.parts {
			if p.first == g.Begin && p.rows.N == g.N && &p.rows.Data[0] == &g.Data[0] {
				return p
			}
		}
	}
	return &part{rows: g.Rows, first: g.Begin, kept: device.NewKept(limit)}
}

// bytes returns the memory kept for the rows on one device, or on all (nil).
func (m *snapshot) bytes(on device.Device) (bytes int64) {
	kept := []*device.Kept{m.kept}
	for _, p := range m.parts {
		if p.kept != m.kept {
			kept = append(kept, p.kept)
		}
	}
	for _, k := range kept {
		if on == nil {
			bytes += k.Bytes()
		} else {
			bytes += k.Bytes(on)
		}
	}
	return bytes
}

// onGPU returns the bytes kept in the memory of each GPU.
func (m *snapshot) onGPU() int64 {
	if on := m.set.e.gpu(); on != nil {
		return m.bytes(on)
	}
	return 0
}

// holds reports whether a device has all rows.
func (m *snapshot) holds(on device.Device) bool {
	return len(m.parts) > 0 && (m.kept.Bytes(on) > 0 ||
		!slices.ContainsFunc(m.parts, func(p *part) bool { return p.kept.Bytes(on) == 0 }))
}

// searched returns the parts in the form that a search on a device takes.
func (m *snapshot) searched() []search.Part {
	out := make([]search.Part, len(m.parts))
	for i, p := range m.parts {
		p.once.Do(func() { p.largest = slices.Max(p.rows.Norms) })
		out[i] = search.Part{Operand: device.Operand{Rows: p.rows, Name: "contexts", Ready: true, Kept: p.kept},
			First: p.first, Largest: p.largest}
	}
	return out
}

// gpu returns the GPUs as one device; nil if there is no GPU or none was looked for yet.
func (e *Engine) gpu() device.Device {
	if e.gpus == nil {
		return nil
	}
	if s := e.gpus.now.Load(); s != nil && s.gpu != nil {
		return s.on
	}
	return nil
}

// choiceFor returns what a search for one query would run on, and why.
func (e *Engine) choiceFor(m *snapshot) string {
	costs, has := e.r.Costs, device.Residency{Indexed: m.x.Coded()}
	shape := device.Shape{A: 1, B: m.size, Dim: m.dim}
	if e.gpus != nil {
		if s := e.gpus.now.Load(); s != nil {
			costs = s.cpu.Costs
			if s.gpu != nil {
				if e.gpus.forced {
					return device.Because("GPU: asked for by the options").String()
				}
				has.B, shape.DType = m.holds(s.on), search.Format(s.on)
			}
		}
	}
	_, why := device.Choose(device.OpTopK, shape, has, costs)
	return why.String()
}

// rent adds up the time that searches of a set would have saved on a GPU that does not hold it. It tells when this
// exceeds the time of copying the rows there.
type rent struct{ nanoseconds atomic.Int64 }

func (r *rent) due(saved, transfer float64) bool {
	return saved > 0 && r.nanoseconds.Add(int64(saved*1e9)) > int64(transfer*1e9)
}
