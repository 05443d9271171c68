package knowledge

import (
	"context"
	"errors"
	"fmt"
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
	c := &Calibration{Name: string(name), File: filepath.Join(CalibrationDir(st), string(name)+".cal.json")}
	if c.Artifact, c.Positive, err = gate.Load(c.File); err != nil {
		return nil, err
	}
	return c, nil
}

// WriteCalibration saves a calibration under a name and puts it in force.
func (b *Base) WriteCalibration(
	ctx context.Context, st *store.Store, name string, c *gate.Calibration, positive []float64,
) (file string, err error) {
	file = filepath.Join(CalibrationDir(st), name+".cal.json")
	if err := c.Save(file, positive); err != nil {
		return "", err
	}
	return file, b.Changed(st.SetMeta(ctx, calibrationKey, []byte(name)))
}

// CalibrationDir is the folder of a store's calibrations.
func CalibrationDir(st *store.Store) string { return filepath.Join(st.Dir(), "calibration") }
