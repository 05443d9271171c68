package knowledge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/rag/store"
)

// calibrationKey is where the store keeps the name of the calibration in force.
const calibrationKey = "calibration"

// Calibration is a store's calibration in force.
type Calibration struct {
	Name, File string
	Artifact   *gate.Calibration
	Positive   []float64 // D+, in the order of the pseudo-queries
}

// ReadCalibration reads the calibration that the store names; without one it is ErrNotCalibrated.
func ReadCalibration(ctx context.Context, st *store.Store) (*Calibration, error) {
	name, err := st.Meta(ctx, calibrationKey)
	if errors.Is(err, store.ErrNotFound) {
		return nil, fmt.Errorf("%w: %s; 'sluice calibrate' makes a calibration, "+
			"'ask --gate open' or 'closed' does without",
			ErrNotCalibrated, st.Dir())
	}
	if err != nil {
		return nil, err
	}
	c := &Calibration{Name: string(name), File: calibrationFile(st, string(name))}
	if c.Artifact, c.Positive, err = gate.Load(c.File); err != nil {
		return nil, err
	}
	return c, nil
}

// loadedCalibration is a calibration with what its file was when it was read.
type loadedCalibration struct {
	*Calibration
	file os.FileInfo
}

// calibration is ReadCalibration, which reads a file again only when it is another one.
func (b *Base) calibration(ctx context.Context, st *store.Store) (*Calibration, error) {
	for tries := 1; ; tries++ {
		name, err := st.Meta(ctx, calibrationKey)
		if err != nil {
			return ReadCalibration(ctx, st) // says it better
		}
		before, _ := os.Stat(calibrationFile(st, string(name)))
		last := b.calibrated.Load()
		if last != nil && last.Name == string(name) && sameFile(before, last.file) {
			return last.Calibration, nil
		}
		c, err := ReadCalibration(ctx, st)
		after, _ := os.Stat(calibrationFile(st, string(name)))
		switch same := sameFile(before, after); {
		case err == nil && same && c.Name == string(name):
			b.calibrated.Store(&loadedCalibration{c, before})
			return c, nil
		case err == nil || same || tries == 5: // replaced while it was read is no damage
			return c, err
		}
	}
}

func sameFile(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func calibrationFile(st *store.Store, name string) string {
	return filepath.Join(CalibrationDir(st), name+".cal.json")
}

// WriteCalibration saves a calibration under a name and puts it in force.
func (b *Base) WriteCalibration(
	ctx context.Context, st *store.Store, name string, c *gate.Calibration, positive []float64,
) (file string, err error) {
	file = calibrationFile(st, name)
	if err := c.Save(file, positive); err != nil {
		return "", err
	}
	return file, b.Changed(st.SetMeta(ctx, calibrationKey, []byte(name)))
}

// CalibrationDir is the folder of a store's calibrations.
func CalibrationDir(st *store.Store) string { return filepath.Join(st.Dir(), "calibration") }
