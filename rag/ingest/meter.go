package ingest

import (
	"io/fs"
	"os"
	"path/filepath"
)

// meter measures an ingest in bytes of its sources, the only measure whose total is known beforehand.
type meter struct {
	sizes   map[string]int64 // of the files, by path
	total   int64
	files   int    // that are behind the one being read
	current string // file being read
	before  int64  // bytes of the files before it
}

// newMeter sums up what lies below paths. Files that will be skipped make the estimate too cautious, no more.
func newMeter(paths []string) *meter {
	m := &meter{sizes: map[string]int64{}}
	for _, root := range paths {
		// Errors are the loader's to report.
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				m.sizes[path] = info.Size()
				m.total += info.Size()
			}
			return nil
		})
	}
	return m
}

// again measures the same sources from the beginning.
func (m *meter) again() *meter { return &meter{sizes: m.sizes, total: m.total} }

// position is how many bytes are done when a chunk of source that ends at byte end is. Sources come one after
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
