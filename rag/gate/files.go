package gate

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/npy"
	"github.com/sluice-rag/sluice/internal/panics"
	"github.com/sluice-rag/sluice/internal/regular"
)

var scoreName = regexp.MustCompile(`\.((?:(?:cover-|question-)?(?:positive|maximum|other|owner|general|domain))|questions)\.([0-9a-f]{16})\.npy$`)

// scoreDigest returns the part of a score file's name that its content must have; "" for another name.
func scoreDigest(name string) string {
	if m := scoreName.FindStringSubmatch(name); m != nil {
		return m[2]
	}
	return ""
}

func scorePrefix(artifact string) string {
	return strings.TrimSuffix(filepath.Base(artifact), ".json")
}

// writing is how many files are written at a time: they mostly wait for the disk, which syncs several as soon as one.
const writing = 8

// writeAll writes the score files and the questions beside the artifact, and sets their names.
func (c *Calibration) writeAll(artifact string, positive []float64) error {
	var all errgroup.Group
	all.SetLimit(writing)
	for _, f := range c.files(positive) {
		if *f.name = ""; len(f.scores) > 0 {
			all.Go(func() (err error) {
				defer panics.Into(&err)
				*f.name, err = writeScores(artifact, f.kind, f.scores)
				return err
			})
		}
	}
	if c.QuestionsFile = ""; c.questions.Rows > 0 {
		all.Go(func() (err error) {
			defer panics.Into(&err)
			c.QuestionsFile, err = writeQuestions(artifact, c.questions)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(artifact))
}

// writeNamed writes a file beside the artifact under a name that carries the digest of what is written; the folder is
// not synced.
func writeNamed(artifact, kind string, write func(io.Writer) error) (name string, err error) {
	h := sha256.New()
	if err := write(h); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.%s.%s.npy", scorePrefix(artifact), kind, hex.EncodeToString(h.Sum(nil)[:8]))
	return name, durable.Put(filepath.Join(filepath.Dir(artifact), name), write)
}

// readNamed reads a file that writeNamed has written, and checks it against its name.
func readNamed(dir, name string, read func(io.Reader) error) error {
	f, err := regular.Open(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("%w (an artifact is moved together with its .npy files)", err)
	}
	defer f.Close()
	h := sha256.New()
	if err := read(io.TeeReader(bufio.NewReaderSize(f, 64<<10), h)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != scoreDigest(name) {
		return fmt.Errorf("%s was changed: its sha256 begins with %s", name, got)
	}
	return nil
}

// allNumbers refuses values of a file that are not finite.
func allNumbers[T float32 | float64](name string, v []T) error {
	if i := slices.IndexFunc(v, func(x T) bool { return !finite(float64(x)) }); i >= 0 {
		return fmt.Errorf("%s: value %d is %v", name, i, v[i])
	}
	return nil
}

func writeScores(artifact, kind string, scores []float64) (name string, err error) {
	return writeNamed(artifact, kind, func(w io.Writer) error { return npy.WriteFloat64(w, scores) })
}

func readScores(dir, name string) (v []float64, err error) {
	err = readNamed(dir, name, func(r io.Reader) (err error) {
		v, err = npy.ReadFloat64(r)
		return err
	})
	if err == nil {
		err = allNumbers(name, v)
	}
	return v, err
}

func writeQuestions(artifact string, v engine.Vectors) (name string, err error) {
	data := v.Data
	if max(v.Stride, v.Dim) != v.Dim {
		data = make([]float32, 0, v.Rows*v.Dim)
		for i := range v.Rows {
			data = append(data, row(v, i)...)
		}
	}
	return writeNamed(artifact, "questions", func(w io.Writer) error {
		return npy.WriteFloat32(w, data[:v.Rows*v.Dim], v.Rows, v.Dim)
	})
}

func readQuestions(dir, name string, rows, dim int) (v engine.Vectors, err error) {
	err = readNamed(dir, name, func(r io.Reader) (err error) {
		v.Data, v.Rows, v.Dim, err = npy.ReadFloat32(r)
		return err
	})
	if err == nil && (v.Rows != rows || v.Dim != dim) {
		err = fmt.Errorf("%s holds %d × %d numbers, the calibration has %d pseudo-queries of dimension %d", name,
			v.Rows, v.Dim, rows, dim)
	}
	if err == nil {
		err = allNumbers(name, v.Data)
	}
	return v, err
}

// removeOldScores deletes the score files of earlier calibrations at the same path. What cannot be
// deleted stays: it costs space and harms nobody.
func removeOldScores(artifact string, keep ...string) {
	entries, err := os.ReadDir(filepath.Dir(artifact))
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		loc := scoreName.FindStringIndex(name)
		if loc != nil && name[:loc[0]] == scorePrefix(artifact) && !slices.Contains(keep, name) {
			_ = os.Remove(filepath.Join(filepath.Dir(artifact), name))
		}
	}
}

func readLimited(path string, limit int64) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return text, err
}
