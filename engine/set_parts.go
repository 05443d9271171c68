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

// part is rows of a prepared set that were added together. Devices keep copies and packed forms of parts, so that rows
// that are appended or deleted do not send the others again.
type part struct {
	rows  cpu.Rows
	first int // number of the first
	kept  *device.Kept

	once    sync.Once
	largest float64 // norm
}

// part is the one that the snapshot has of these rows, or a new one. A nil snapshot has none.
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

// bytes is what is kept of the rows: on that device, or on all (nil).
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

// onGPU is what is kept in the memory of each GPU.
func (m *snapshot) onGPU() int64 {
	if on := m.set.e.gpu(); on != nil {
		return m.bytes(on)
	}
	return 0
}

// holds tells whether a device has all rows.
func (m *snapshot) holds(on device.Device) bool {
	return len(m.parts) > 0 && (m.kept.Bytes(on) > 0 ||
		!slices.ContainsFunc(m.parts, func(p *part) bool { return p.kept.Bytes(on) == 0 }))
}

// searched are the parts as a search on a device takes them.
func (m *snapshot) searched() []search.Part {
	out := make([]search.Part, len(m.parts))
	for i, p := range m.parts {
		p.once.Do(func() { p.largest = slices.Max(p.rows.Norms) })
		out[i] = search.Part{Operand: device.Operand{Rows: p.rows, Name: "contexts", Ready: true, Kept: p.kept},
			First: p.first, Largest: p.largest}
	}
	return out
}

// gpu is the GPUs as one device; nil where there are none, or none was looked for yet.
func (e *Engine) gpu() device.Device {
	if e.gpus == nil {
		return nil
	}
	if s := e.gpus.now.Load(); s != nil && s.gpu != nil {
		return s.on
	}
	return nil
}

// choiceFor says what a search for one query would run on, and why.
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

// rent adds up what searches of a set that no GPU has would have saved on one. It tells when that is more than bringing
// the rows there takes.
type rent struct{ nanoseconds atomic.Int64 }

func (r *rent) due(saved, transfer float64) bool {
	return saved > 0 && r.nanoseconds.Add(int64(saved*1e9)) > int64(transfer*1e9)
}
