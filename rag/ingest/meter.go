package ingest

// meter measures an ingest in bytes of its sources, the only measure whose total is known beforehand.
type meter struct {
	sizes   map[string]int64 // of the files, by path
	total   int64
	files   int    // that are behind the one being read
	current string // file being read
	before  int64  // bytes of the files before it
}

// newMeter sums up files. Those that will be skipped make the estimate too cautious, no more.
func newMeter(files []reading) *meter {
	m := &meter{sizes: make(map[string]int64, len(files))}
	for _, f := range files {
		m.sizes[f.file.Path] = f.file.Info.Size()
		m.total += f.file.Info.Size()
	}
	return m
}

// measure begins to measure the files that are to be read.
func (r *run) measure() {
	r.meter = newMeter(r.todo)
	if r.chunk.Semantic != nil {
		r.compared = r.meter.again()
	}
	r.progress(0) // reading and cutting a large file takes a while
}

// again measures the same sources from the beginning.
func (m *meter) again() *meter { return &meter{sizes: m.sizes, total: m.total} }

// position returns how many bytes are done when a chunk of source that ends at byte end is. Sources come one after
// the other.
func (m *meter) position(source string, end int) int64 {
	file := source
	if _, ok := m.sizes[file]; !ok { // a JSON line, "file:7"
		file = FileOf(source)
	}
	if _, ok := m.sizes[file]; ok && file != m.current {
		if m.current != "" {
			m.files++
		}
		m.before += m.sizes[m.current]
		m.current = file
	}
	return min(m.before+int64(end), m.total)
}
