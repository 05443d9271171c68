package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMillionRows measures a store of SLUICE_STORE_ROWS chunks × 384 (texts of 1 kB; 10^6 take 5 GB of disk and some
// minutes) in a new folder of TMPDIR: SLUICE_STORE_ROWS=1000000 go test ./rag/store -run TestMillionRows -v -timeout
// 60m. It prints times, and asserts what does not depend on the machine.
func TestMillionRows(t *testing.T) {
	given := os.Getenv("SLUICE_STORE_ROWS")
	if given == "" {
		t.Skip("SKIP: SLUICE_STORE_ROWS is not set: it names the number of chunks")
	}
	rows, err := strconv.Atoi(given)
	if err != nil || rows < 10_000 {
		t.Fatalf("SLUICE_STORE_ROWS is %q, not a number of chunks from 10,000 on", given)
	}
	rows -= rows % 10_000
	dir := filepath.Join(t.TempDir(), "s")
	m := million{t, rows, dir}
	m.fill()
	for _, how := range []string{"without the list of rows", "with the list of rows"} {
		m.open(how)
	}
	m.checks()
	m.compact()
}

type million struct {
	t    *testing.T
	rows int
	dir  string
}

func (m million) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m million) store(o Options) *Store {
	m.t.Helper()
	s, err := Open(context.Background(), m.dir, o)
	m.must(err)
	return s
}

// fill commits batches of 10,000, each beside a raw write of the same bytes to a file that grows, and its sync.
func (m million) fill() {
	s := m.store(Options{Create: true, Encoder: &benchEncoder})
	defer s.Close()
	raw, err := osFS{}.OpenFile(m.dir+".raw", os.O_RDWR|os.O_CREATE)
	m.must(err)
	defer os.Remove(m.dir + ".raw")
	defer raw.Close()
	var ours, theirs, ratios, computed, computedRaw []float64
	bytes, at := 0, int64(0)
	for round := range m.rows / 10_000 {
		b := benchBatch(round, 10_000)
		flat := slices.Clone(bytesOf(b.Vectors))
		for _, k := range b.Chunks {
			flat = append(flat, k.Text...)
		}
		began, used := time.Now(), m.processor()
		_, err := s.Commit(context.Background(), b)
		m.must(err)
		ours = append(ours, time.Since(began).Seconds())
		computed = append(computed, (m.processor() - used).Seconds())
		if at > 1<<30 { // the disk is not filled with it
			m.must(raw.Truncate(0))
			at = 0
		}
		began, used = time.Now(), m.processor()
		_, err = raw.WriteAt(flat, at)
		m.must(err)
		m.must(raw.Sync())
		computedRaw = append(computedRaw, (m.processor() - used).Seconds())
		theirs = append(theirs, time.Since(began).Seconds())
		at += int64(len(flat))
		bytes = len(flat)
		ratios = append(ratios, ours[round]/theirs[round])
	}
	median := func(x []float64) float64 { slices.Sort(x); return x[len(x)/2] }
	m.t.Logf("append of 10,000 chunks (%.1f MB of vectors and texts): %.3f s (%.3f s of processor), raw write and "+
		"fdatasync %.3f s (%.3f s): medians of %d; ratio of the pairs %.1f", float64(bytes)/1e6, median(ours),
		median(computed), median(theirs), median(computedRaw), len(ratios), median(ratios))
	st, err := s.Stats(context.Background())
	m.must(err)
	m.t.Logf("%d chunks: %.0f bytes of vectors and %.0f of database a chunk, %d segments", st.Chunks,
		float64(st.VectorBytes)/float64(st.Chunks), float64(st.DatabaseBytes)/float64(st.Chunks), st.Segments)
}

// processor returns the time that the process has computed so far: it means something on a busy machine, too.
func (m million) processor() time.Duration {
	var u unix.Rusage
	m.must(unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns the process's resident memory in MiB.
func (m million) memory() (anonymous, mapped float64) {
	debug.FreeOSMemory()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		kib, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
		switch name {
		case "RssAnon":
			anonymous = kib / 1024
		case "RssFile":
			mapped = kib / 1024
		}
	}
	return anonymous, mapped
}

func (m million) open(how string) {
	before, _ := m.memory()
	began, used := time.Now(), m.processor()
	s := m.store(Options{ReadOnly: true})
	opened := time.Since(began)
	v, err := s.View(context.Background())
	m.must(err)
	viewed, computed := time.Since(began), m.processor()-used
	if v.Count() != m.rows {
		m.t.Errorf("%d chunks, want %d", v.Count(), m.rows)
	}
	anonymous, mapped := m.memory()
	m.t.Logf("opened %s: %.3f s, with a view of all checksums %.3f s (%.3f s of processor); memory %.0f MiB anonymous (%.0f bytes a row), "+
		"%.0f MiB mapped", how, opened.Seconds(), viewed.Seconds(), computed.Seconds(),
		anonymous-before,
		(anonymous-before)*(1<<20)/float64(m.rows), mapped)
	m.must(v.SaveRows(context.Background()))
	m.must(v.Close())
	m.must(s.Close())
	runtime.GC()
}

func (m million) checks() {
	s := m.store(Options{ReadOnly: true})
	defer s.Close()
	began, used := time.Now(), m.processor()
	m.must(s.Check(context.Background()))
	m.t.Logf("check of everything: %.1f s (%.1f s of processor)", time.Since(began).Seconds(),
		(m.processor() - used).Seconds())
	began, used = time.Now(), m.processor()
	done, err := s.Export(context.Background(), io.Discard, ExportOptions{})
	m.must(err)
	m.t.Logf("export: %.1f s (%.1f s of processor), %.1f GB", time.Since(began).Seconds(),
		(m.processor() - used).Seconds(), float64(done.Bytes)/1e9)
}

// compact deletes each third document and compacts beside a reader that goes on.
func (m million) compact() {
	ctx := context.Background()
	s := m.store(Options{})
	defer s.Close()
	docs, err := s.Sources(ctx)
	m.must(err)
	var gone []string
	for i := 0; i < len(docs); i += 3 {
		gone = append(gone, docs[i].ID)
	}
	began, used := time.Now(), m.processor()
	chunks, err := s.DeleteDocuments(ctx, gone)
	m.must(err)
	m.t.Logf("%d chunks deleted in %.1f s (%.1f s of processor)", chunks, time.Since(began).Seconds(),
		(m.processor() - used).Seconds())
	r := m.store(Options{ReadOnly: true})
	defer r.Close()
	stop, reads := make(chan struct{}), make(chan []float64)
	go func() { reads <- m.read(r, m.rows-chunks, stop) }()
	began, used = time.Now(), m.processor()
	rows, err := s.Compact(ctx, 0)
	m.must(err)
	took, computed := time.Since(began).Seconds(), (m.processor() - used).Seconds()
	close(stop)
	times := <-reads
	slices.Sort(times)
	if int(rows) != chunks || len(times) == 0 {
		m.t.Fatalf("%d rows given back, want %d; %d reads", rows, chunks, len(times))
	}
	m.t.Logf("compaction in %.1f s (%.1f s of processor, the reads included) beside %d reads (a view and 10 chunks each): "+
		"median %.1f ms, longest %.1f ms", took, computed,
		len(times), 1000*times[len(times)/2], 1000*times[len(times)-1])
	m.must(s.Check(ctx))
}

// read takes views and reads chunks of them until stop.
func (m million) read(r *Store, want int, stop <-chan struct{}) (times []float64) {
	ctx := context.Background()
	for n := 0; ; n++ {
		began := time.Now()
		v, err := r.View(ctx)
		if err != nil {
			m.t.Error(err)
			return times
		}
		var ids []string
		for i := n * 997 % len(v.IDs); len(ids) < 10; i = (i + 1) % len(v.IDs) {
			if !v.Deleted(i) {
				ids = append(ids, v.IDs[i])
			}
		}
		if _, err := v.Chunks(ctx, ids); err != nil || v.Count() != want {
			m.t.Error(fmt.Sprint(v.Count()), err)
		}
		if err := v.Close(); err != nil {
			m.t.Error(err)
		}
		times = append(times, time.Since(began).Seconds())
		select {
		case <-stop:
			return times
		case <-time.After(10 * time.Millisecond):
		}
	}
}
