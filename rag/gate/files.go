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

// writeScores writes scores beside the artifact under a name that carries their digest; the folder is not synced.
func writeScores(artifact, kind string, scores []float64) (name string, err error) {
	h := sha256.New()
	if err := npy.WriteFloat64(h, scores); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.%s.%s.npy", scorePrefix(artifact), kind, hex.EncodeToString(h.Sum(nil)[:8]))
	path := filepath.Join(filepath.Dir(artifact), name)
	return name, durable.Put(path, func(w io.Writer) error { return npy.WriteFloat64(w, scores) })
}

// readScores reads a score file and checks it against its name.
func readScores(dir, name string) ([]float64, error) {
	f, err := regular.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("%w (an artifact is moved together with its .npy files)", err)
	}
	defer f.Close()
	h := sha256.New()
	v, err := npy.ReadFloat64(io.TeeReader(bufio.NewReaderSize(f, 64<<10), h))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != scoreDigest(name) {
		return nil, fmt.Errorf("%s was changed: its sha256 begins with %s", name, got)
	}
	if i := slices.IndexFunc(v, func(x float64) bool { return !finite(x) }); i >= 0 {
		return nil, fmt.Errorf("%s: value %d is %v", name, i, v[i])
	}
	return v, nil
}

// writeQuestions is writeScores for vectors.
func writeQuestions(artifact string, v engine.Vectors) (name string, err error) {
	data := v.Data
	if stride := max(v.Stride, v.Dim); stride != v.Dim {
		data = make([]float32, 0, v.Rows*v.Dim)
		for i := range v.Rows {
			data = append(data, row(v, i)...)
		}
	}
	data = data[:v.Rows*v.Dim]
	h := sha256.New()
	if err := npy.WriteFloat32(h, data, v.Rows, v.Dim); err != nil {
		return "", err
	}
	name = fmt.Sprintf("%s.questions.%s.npy", scorePrefix(artifact), hex.EncodeToString(h.Sum(nil)[:8]))
	path := filepath.Join(filepath.Dir(artifact), name)
	return name, durable.Put(path, func(w io.Writer) error { return npy.WriteFloat32(w, data, v.Rows, v.Dim) })
}

// readQuestions reads the vectors that writeQuestions has written, and checks them against the file's name.
func readQuestions(dir, name string, rows, dim int) (v engine.Vectors, err error) {
	f, err := regular.Open(filepath.Join(dir, name))
	if err != nil {
		return v, fmt.Errorf("%w (an artifact is moved together with its .npy files)", err)
	}
	defer f.Close()
	h := sha256.New()
	if v.Data, v.Rows, v.Dim, err = npy.ReadFloat32(io.TeeReader(bufio.NewReaderSize(f, 64<<10), h)); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)[:8]); got != scoreDigest(name) {
		return v, fmt.Errorf("%s was changed: its sha256 begins with %s", name, got)
	}
	if v.Rows != rows || v.Dim != dim {
		return v, fmt.Errorf("%s holds %d × %d numbers, the calibration has %d pseudo-queries of dimension %d", name,
			v.Rows, v.Dim, rows, dim)
	}
	if i := slices.IndexFunc(v.Data, func(x float32) bool { return !finite(float64(x)) }); i >= 0 {
		return v, fmt.Errorf("%s: value %d is %v", name, i, v.Data[i])
	}
	return v, nil
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
