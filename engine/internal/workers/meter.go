package workers

import "sync"

// Meter reports progress from one goroutine at a time. A nil Meter reports nothing.
type Meter struct {
	report func(done, total int64)

	mu          sync.Mutex
	done, total int64
}

// NewMeter counts up to total; report may be nil.
func NewMeter(report func(done, total int64), total int64) *Meter {
	return &Meter{report: report, total: total}
}

// Add counts n more; what is done again counts once.
func (m *Meter) Add(n int64) {
	if m == nil || m.report == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = min(m.done+n, m.total)
	m.report(m.done, m.total)
}

// End says that all is done, whatever was left out.
func (m *Meter) End() {
	if m != nil && m.done < m.total {
		m.Add(m.total - m.done)
	}
}
