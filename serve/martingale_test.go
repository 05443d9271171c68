package serve

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestExchange(t *testing.T) {
	log := &lockedBuilder{}
	x := &exchangeTest{store: "sea", log: slog.New(slog.NewTextHandler(log, nil)), delta: .01}
	reference := make([]float64, 100)
	for i := range reference {
		reference[i] = float64((i * 61) % 100)
	}
	open := func() []float64 { return reference }
	x.add(nil, open, 5)
	if x.test != nil {
		t.Error("a test without a calibration")
	}
	for i := range 200 {
		x.add(reference, open, float64((i*37)%100))
	}
	if x.at > 0 || x.test.Questions() != 200 {
		t.Errorf("the same distribution: alarm at %d of %d", x.at, x.test.Questions())
	}
	for i := range 200 {
		x.add(reference, open, float64((i*37)%100)+70)
	}
	if x.at == 0 || strings.Count(log.String(), "calibrate again") != 1 {
		t.Errorf("shifted by 70 of 100: alarm at %d; %s", x.at, log)
	}
	other := slices.Clone(reference)
	x.add(other, func() []float64 { return other }, 1)
	if x.at > 0 || x.test.Questions() != 1 || strings.Count(log.String(), "the test begins") != 2 {
		t.Errorf("another calibration: alarm at %d of %d; %s", x.at, x.test.Questions(), log)
	}
	x.delta = 0
	x.add(reference, open, 1)
	if x.test.Questions() != 1 {
		t.Error("a test that nobody wants")
	}
}
