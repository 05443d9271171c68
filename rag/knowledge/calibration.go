package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// calibrationKey is the metadata key for the name of the active calibration, and the folder of the calibrations.
const calibrationKey = "calibration"

const artifactSuffix = ".cal.json"

// Calibration is a calibration of a store with its name and file.
type Calibration struct {
	Name, File string
	Artifact   *gate.Calibration
	Positive   []float64 // D+, in the order of the pseudo-queries
}

// ReadCalibration reads the calibration with a name, or the active one (""). The error is ErrNotCalibrated if no
// calibration is active, and store.ErrNotFound if no calibration has the name.
func ReadCalibration(ctx context.Context, st *store.Store, name string) (*Calibration, error) {
	dir, current, err := inForce(ctx, st)
	switch {
	case err != nil:
		return nil, err
	case name == "" && current == "":
		return nil, fmt.Errorf("%w: %s; 'sluice calibrate' makes a calibration, "+
			"'ask --gate open' or 'closed' does without", ErrNotCalibrated, st.Dir())
	case name == "":
		name = current
	}
	if err := knownCalibration(dir, name); err != nil {
		return nil, err
	}
	c := &Calibration{Name: name, File: filepath.Join(dir, name+artifactSuffix)}
	if c.Artifact, c.Positive, err = gate.Load(c.File); err != nil {
		return nil, err
	}
	return c, nil
}

// InForce returns the name of the active calibration, or "".
func InForce(ctx context.Context, st *store.Store) (string, error) {
	_, name, err := inForce(ctx, st)
	return name, err
}

// inForce returns the active calibration's folder and name, or "". A store that is read for groups has calibrations of
// its own, whose promises hold for what these groups read; until it has one, that of the whole store is active.
func inForce(ctx context.Context, st *store.Store) (dir, name string, err error) {
	if name, err = activeName(ctx, st, groupsKey(st)); name != "" || err != nil || !st.Restricted() {
		return CalibrationDir(st), name, err
	}
	name, err = activeName(ctx, st, calibrationKey)
	return filepath.Join(st.Dir(), calibrationKey), name, err
}

func activeName(ctx context.Context, st *store.Store, key string) (string, error) {
	name, err := st.Meta(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(name), err
}

// groupsKey returns the metadata key of the calibrations that belong to a store, or to the groups that it is read for.
func groupsKey(st *store.Store) string {
	if !st.Restricted() {
		return calibrationKey
	}
	groups := slices.Clone(st.Groups())
	slices.Sort(groups)
	text, _ := json.Marshal(slices.Compact(groups)) // strings always marshal
	return fmt.Sprintf("%s-groups-%.8x", calibrationKey, sha256.Sum256(text))
}

var calibrationName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckCalibrationName returns ErrOption if a string is not a valid name of a calibration.
func CheckCalibrationName(name string) error {
	if !calibrationName.MatchString(name) {
		return fmt.Errorf("%w: calibration name %q: letters, digits, '.', '_' and '-' only, at most 64", ErrOption,
			name)
	}
	return nil
}

// knownCalibration returns store.ErrNotFound if no artifact in the folder has the name.
func knownCalibration(dir, name string) error {
	if err := CheckCalibrationName(name); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, name+artifactSuffix)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no calibration %q; 'sluice calibrate list' shows those that there are",
			store.ErrNotFound, name)
	}
	return nil
}

// CalibrationNames lists the calibrations beside the active one.
func CalibrationNames(ctx context.Context, st *store.Store) (names []string, err error) {
	dir, _, err := inForce(ctx, st)
	if err != nil {
		return nil, err
	}
	return namesIn(dir)
}

func namesIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), artifactSuffix); ok && CheckCalibrationName(name) == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// CalibrationStore returns the store that calibrations are made for: the base's writer, or, of a base that is read for
// groups, its reader, since a calibration of these is all that can be written for them.
func (b *Base) CalibrationStore(ctx context.Context) (*store.Store, error) {
	w, err := b.calibrationWriter(ctx)
	if err != nil || b.cfg.Groups == nil {
		return w, err
	}
	return b.Reader(ctx)
}

// calibrationWriter opens the whole store, of which only the metadata is written.
func (b *Base) calibrationWriter(ctx context.Context) (*store.Store, error) {
	return b.open(ctx, &b.writer, store.Options{Metric: b.cfg.Metric})
}

// activate makes a calibration of a CalibrationStore the active one.
func (b *Base) activate(ctx context.Context, st *store.Store, name string) error {
	w, err := b.calibrationWriter(ctx)
	if err != nil {
		return err
	}
	return b.Changed(w.SetMeta(ctx, groupsKey(st), []byte(name)))
}

// UseCalibration activates the calibration with a name, if it can be read.
func (b *Base) UseCalibration(ctx context.Context, st *store.Store, name string) error {
	if err := knownCalibration(CalibrationDir(st), name); err != nil {
		return err
	}
	if _, _, err := gate.Load(calibrationFile(st, name)); err != nil {
		return err
	}
	return b.activate(ctx, st, name)
}

// RemoveCalibration removes a calibration with all its files. The error is ErrOption if the calibration is active.
func RemoveCalibration(ctx context.Context, st *store.Store, name string) error {
	if err := knownCalibration(CalibrationDir(st), name); err != nil {
		return err
	}
	current, err := activeName(ctx, st, groupsKey(st))
	if err != nil {
		return err
	}
	if name == current {
		return fmt.Errorf("%w: %q is in force; put another one in force first ('sluice calibrate use NAME')", ErrOption,
			name)
	}
	entries, err := os.ReadDir(CalibrationDir(st))
	if err != nil {
		return err
	}
	others, err := namesIn(CalibrationDir(st))
	if err != nil {
		return err
	}
	err = os.Remove(calibrationFile(st, name)) // removed first, so that a crash leaves no incomplete calibration
	for _, e := range entries {
		if file := e.Name(); err == nil && file != name+artifactSuffix && ownerOf(file, others) == name {
			err = os.RemoveAll(filepath.Join(CalibrationDir(st), file))
		}
	}
	return err
}

// DropCounts removes the stored pair counts of all calibrations, so that their next run counts all pairs.
func DropCounts(st *store.Store) error {
	folders, err := filepath.Glob(filepath.Join(st.Dir(), calibrationKey+"*"))
	for _, dir := range folders {
		names, failed := namesIn(dir)
		err = errors.Join(err, failed)
		for _, name := range names {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name+".state")))
		}
	}
	return err
}

// ownerOf returns the longest of the names that is a prefix of a file's name: "a.b.state" belongs to a.b, not to a.
func ownerOf(file string, names []string) (owner string) {
	for _, name := range names {
		if strings.HasPrefix(file, name+".") && len(name) > len(owner) {
			owner = name
		}
	}
	return owner
}

// loadedCalibration is a calibration with the state of its file when it was read.
type loadedCalibration struct {
	*Calibration
	file os.FileInfo
}

// calibration is like ReadCalibration but reads the file only if it has changed since.
func (b *Base) calibration(ctx context.Context, st *store.Store) (*Calibration, error) {
	for tries := 1; ; tries++ {
		dir, name, err := inForce(ctx, st)
		if err != nil || name == "" {
			return ReadCalibration(ctx, st, "") // for its more detailed error
		}
		file := filepath.Join(dir, name+artifactSuffix)
		before, _ := os.Stat(file)
		last := b.calibrated.Load()
		if last != nil && last.File == file && sameFile(before, last.file) {
			return last.Calibration, nil
		}
		c, err := ReadCalibration(ctx, st, "")
		after, _ := os.Stat(file)
		switch same := sameFile(before, after); {
		case err == nil && same && c.File == file:
			b.calibrated.Store(&loadedCalibration{c, before})
			return c, nil
		case err == nil || same || tries == 5: // a file replaced during the read is not damaged
			return c, err
		}
	}
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func calibrationFile(st *store.Store, name string) string {
	return filepath.Join(CalibrationDir(st), name+artifactSuffix)
}

// WriteCalibration saves a calibration under a name. It activates the calibration if use is set or if no other
// calibration is active.
func (b *Base) WriteCalibration(
	ctx context.Context, st *store.Store, name string, c *gate.Calibration, positive []float64, use bool,
) (file string, inForce bool, err error) {
	file = calibrationFile(st, name)
	if err := c.Save(file, positive); err != nil {
		return "", false, err
	}
	if err := b.KeepFiles(ctx); err != nil { // before the name is in force: others read both
		return "", false, err
	}
	current, err := activeName(ctx, st, groupsKey(st))
	if err != nil {
		return file, false, err
	}
	if current != "" && current != name && !use {
		return file, false, nil
	}
	return file, true, b.activate(ctx, st, name)
}

// KeepFiles brings the files of calibrations and the router into the database of a shared store, as
// store.Store.KeepFiles describes. Whoever has changed some calls it.
func (b *Base) KeepFiles(ctx context.Context) error {
	if b.cfg.Shared == nil {
		return nil
	}
	st, err := b.calibrationWriter(ctx)
	if err != nil {
		return err
	}
	return b.Changed(st.KeepFiles(ctx))
}

// CalibrationDir returns the folder of a store's calibrations; of a store that is read for groups, of theirs.
func CalibrationDir(st *store.Store) string { return filepath.Join(st.Dir(), groupsKey(st)) }
