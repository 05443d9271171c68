package cuda

import (
	"errors"
	"testing"
)

func TestFits(t *testing.T) {
	parts := []ImagePart{{Arch: 75, Driver: 13000}, {Arch: 80, Driver: 13000}, {Arch: 86, Driver: 13000},
		{Arch: 90, Specific: true, Driver: 13000}, {PTX: true, Arch: 75, Driver: 12080},
		{PTX: true, Arch: 80, Driver: 13000}}
	for _, c := range []struct {
		major, minor, driver int
		want                 string
		err                  error
	}{
		{7, 5, 13000, "sm_75", nil}, {8, 0, 13000, "sm_80", nil}, {8, 6, 13000, "sm_86", nil},
		{8, 9, 13020, "sm_86", nil},
		{9, 0, 13000, "sm_90a", nil}, {9, 1, 13000, "PTX compute_80", nil}, {12, 0, 13000, "PTX compute_80", nil},
		{9, 0, 12080, "PTX compute_75", nil}, {8, 0, 12040, "", ErrTooOld}, {7, 0, 13000, "", ErrImage},
		{7, 0, 11000, "", ErrImage},
	} {
		p, err := Fits(parts, [2]int{c.major, c.minor}, c.driver)
		if c.err == nil && (err != nil || p.String() != c.want) || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%d.%d with driver %d: %v, %v", c.major, c.minor, c.driver, p, err)
		}
		if c.err != nil && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v is not ErrUnavailable", err)
		}
	}
}

// Parsing arbitrary bytes never panics.
func FuzzImageParts(f *testing.F) {
	f.Add([]byte("\x50\xed\x55\xba\x01\x00\x10\x00\x40\x00\x00\x00\x00\x00\x00\x00" +
		"\x02\x00\x01\x01\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x01\x00\x50\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, image []byte) {
		parts, err := ImageParts(image)
		if err != nil && !errors.Is(err, ErrImage) {
			t.Error(err)
		}
		for _, p := range parts {
			if p.Bytes < 0 || p.Bytes > len(image) {
				t.Errorf("%+v of %d bytes", p, len(image))
			}
		}
	})
}
