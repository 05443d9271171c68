package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// digestBytes of a text digest are kept per context: among a million contexts, a changed one is taken for
// a calibrated one with probability 5e-14.
const digestBytes = 8

// shortDigests shortens hex digests, and sorts them, each once.
func shortDigests(digests []string) ([]byte, error) {
	list := make([][digestBytes]byte, len(digests))
	for i, d := range digests {
		d = strings.TrimPrefix(d, "sha256:")
		if len(d) < 2*digestBytes {
			return nil, fmt.Errorf("gate: context %d: text digest %q is too short", i, d)
		}
		if _, err := hex.Decode(list[i][:], []byte(d[:2*digestBytes])); err != nil {
			return nil, fmt.Errorf("gate: context %d: text digest %q: %w", i, d, err)
		}
	}
	slices.SortFunc(list, func(a, b [digestBytes]byte) int { return bytes.Compare(a[:], b[:]) })
	out := make([]byte, 0, len(list)*digestBytes)
	for _, d := range slices.Compact(list) {
		out = append(out, d[:]...)
	}
	return out, nil
}

// compareDigests counts the live contexts, those of them that the calibration has not seen, and the calibrated texts
// that are gone.
func compareDigests(calibrated []byte, live iter.Seq[[sha256.Size]byte]) (n, unseen, gone int) {
	known := make(map[[digestBytes]byte]bool, len(calibrated)/digestBytes) // → still there
	for d := range slices.Chunk(calibrated, digestBytes) {
		known[[digestBytes]byte(d)] = false
	}
	gone = len(known)
	for d := range live {
		n++
		k := [digestBytes]byte(d[:digestBytes])
		there, ok := known[k]
		switch {
		case !ok:
			unseen++
		case !there:
			known[k] = true
			gone--
		}
	}
	return n, unseen, gone
}
