package knowledge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// calibrationKey is the metadata key for the name of the active calibration.
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
	if name == "" {
		var err error
		if name, err = InForce(ctx, st); err != nil {
			return nil, err
		}
		if name == "" {
			return nil, fmt.Errorf("%w: %s; 'sluice calibrate' makes a calibration, "+
				"'ask --gate open' or 'closed' does without", ErrNotCalibrated, st.Dir())
		}
	} else if err := knownCalibration(st, name); err != nil {
		return nil, err
	}
	c := &Calibration{Name: name, File: calibrationFile(st, name)}
	var err error
	if c.Artifact, c.Positive, err = gate.Load(c.File); err != nil {
		return nil, err
	}
	return c, nil
}

// InForce returns the name of the active calibration, or "".
func InForce(ctx context.Context, st *store.Store) (string, error) {
	name, err := st.Meta(ctx, calibrationKey)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return string(name), err
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

// knownCalibration returns store.ErrNotFound if no artifact has the name.
func knownCalibration(st *store.Store, name string) error {
	if err := CheckCalibrationName(name); err != nil {
		return err
	}
	if _, err := os.Stat(calibrationFile(st, name)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: there is no calibration %q; 'sluice calibrate list' shows those that there are",
			store.ErrNotFound, name)
	}
	return nil
}

// CalibrationNames lists the calibrations of a store.
func CalibrationNames(st *store.Store) (names []string, err error) {
	entries, err := os.ReadDir(CalibrationDir(st))
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

// UseCalibration activates the calibration with a name, if it can be read.
func (b *Base) UseCalibration(ctx context.Context, st *store.Store, name string) error {
	if _, err := ReadCalibration(ctx, st, name); err != nil {
		return err
	}
	return b.Changed(st.SetMeta(ctx, calibrationKey, []byte(name)))
}

// RemoveCalibration removes a calibration with all its files. The error is ErrOption if the calibration is active.
func RemoveCalibration(ctx context.Context, st *store.Store, name string) error {
	if err := knownCalibration(st, name); err != nil {
		return err
	}
	current, err := InForce(ctx, st)
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
	others, err := CalibrationNames(st)
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
	names, err := CalibrationNames(st)
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(filepath.Join(CalibrationDir(st), name+".state")))
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
		name, err := st.Meta(ctx, calibrationKey)
		if err != nil {
			return ReadCalibration(ctx, st, "") // for its more detailed error
		}
		before, _ := os.Stat(calibrationFile(st, string(name)))
		last := b.calibrated.Load()
		if last != nil && last.Name == string(name) && sameFile(before, last.file) {
			return last.Calibration, nil
		}
		c, err := ReadCalibration(ctx, st, string(name))
		after, _ := os.Stat(calibrationFile(st, string(name)))
		switch same := sameFile(before, after); {
		case err == nil && same && c.Name == string(name):
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
	current, err := InForce(ctx, st)
	if err != nil {
		return file, false, err
	}
	if current != "" && current != name && !use {
		return file, false, nil
	}
	return file, true, b.Changed(st.SetMeta(ctx, calibrationKey, []byte(name)))
}

// CalibrationDir returns the folder of a store's calibrations.
func CalibrationDir(st *store.Store) string { return filepath.Join(st.Dir(), "calibration") }
