package calibrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/internal/durable"
)

// questionVectors keeps the vectors of pseudo-queries in a file beside the artifact, so that a question is embedded
// once, and so that one that has gone can be taken out of what was counted:
//
//	magic with a version · dimension · sha256 of the encoder's digests · records of
//	sha256 of the text · vector · CRC-32C of both, all little-endian
//
// Records are appended. One that is damaged or torn does not exist; a file of another encoder is begun anew.
type questionVectors struct {
	path string
	dim  int
	head []byte
	data []byte           // records
	at   map[[32]byte]int // → its record
	torn bool             // the file does not end with a record, or is another's
}

const (
	vectorsMagic = "SLCQVEC\x01"
	vectorsHead  = len(vectorsMagic) + 4 + sha256.Size
)

func (v *questionVectors) record() int { return sha256.Size + 4*v.dim + 4 }

// openVectors reads the file; without one it is empty.
func openVectors(path string, enc identity.Encoder) (*questionVectors, error) {
	v := &questionVectors{path: path, dim: enc.Dim, at: map[[32]byte]int{}}
	v.head = binary.LittleEndian.AppendUint32([]byte(vectorsMagic), uint32(enc.Dim))
	made := sha256.Sum256([]byte(enc.Digest + " " + enc.TokenizerDigest))
	v.head = append(v.head, made[:]...)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(data) < vectorsHead || string(data[:vectorsHead]) != string(v.head) {
		v.torn = true
		return v, nil
	}
	v.data = data[vectorsHead:]
	n := len(v.data) / v.record()
	v.torn = n*v.record() != len(v.data)
	v.data = v.data[:n*v.record()]
	for i := range n {
		r := v.data[i*v.record() : (i+1)*v.record()]
		if body := r[:len(r)-4]; durable.Checksum(body) == binary.LittleEndian.Uint32(r[len(body):]) {
			v.at[[32]byte(r)] = i
		}
	}
	return v, nil
}

// get reads a vector into out.
func (v *questionVectors) get(name [32]byte, out []float32) bool {
	i, ok := v.at[name]
	if !ok {
		return false
	}
	r := v.data[i*v.record()+sha256.Size:]
	for k := range out {
		out[k] = math.Float32frombits(binary.LittleEndian.Uint32(r[4*k:]))
	}
	return true
}

// add appends vectors to the file; they are on the disk when it returns.
func (v *questionVectors) add(names [][32]byte, vectors []float32) error {
	first := len(v.data)
	for i, name := range names {
		if _, there := v.at[name]; there {
			continue
		}
		v.at[name] = len(v.data) / v.record()
		begin := len(v.data)
		v.data = append(v.data, name[:]...)
		for _, x := range vectors[i*v.dim : (i+1)*v.dim] {
			v.data = binary.LittleEndian.AppendUint32(v.data, math.Float32bits(x))
		}
		v.data = binary.LittleEndian.AppendUint32(v.data, durable.Checksum(v.data[begin:]))
	}
	if first == len(v.data) {
		return nil
	}
	if v.torn {
		return v.rewrite()
	}
	f, err := os.OpenFile(v.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(v.data[first:])
	return errors.Join(err, f.Sync(), f.Close())
}

// rewrite puts a file with the records that are known in the place of the last one.
func (v *questionVectors) rewrite() error {
	err := durable.Replace(v.path, func(w io.Writer) error {
		_, err := w.Write(v.head)
		if err == nil {
			_, err = w.Write(v.data)
		}
		return err
	})
	if err == nil {
		v.torn = false
	}
	return err
}

// trim leaves out what is not among the names, once that is more than half of the file.
func (v *questionVectors) trim(names [][32]byte) error {
	if len(v.data)/v.record() <= 2*len(names) {
		return nil
	}
	var data []byte
	at := make(map[[32]byte]int, len(names))
	for _, name := range names {
		if i, ok := v.at[name]; ok {
			if _, twice := at[name]; !twice {
				at[name] = len(data) / v.record()
				data = append(data, v.data[i*v.record():(i+1)*v.record()]...)
			}
		}
	}
	v.data, v.at = data, at
	return v.rewrite()
}

// vectors returns the vectors of names in their order. A missing vector is an error.
func (v *questionVectors) vectors(names [][32]byte) (engine.Vectors, error) {
	out := engine.Vectors{Dim: v.dim, Rows: len(names), Data: make([]float32, len(names)*v.dim)}
	for i, name := range names {
		if !v.get(name, out.Data[i*v.dim:(i+1)*v.dim]) {
			return engine.Vectors{},
				fmt.Errorf("calibrate: the vector of a question that has gone is not in %s", v.path)
		}
	}
	return out, nil
}

// gone finds the vectors of contexts and questions that the previous calibration compared and this one does not.
func (c *run) gone(ctx context.Context, contexts []int64, questions [][32]byte) (cs, qs engine.Vectors, err error) {
	if cs, err = c.snap.Store.RowVectors(ctx, contexts); err != nil {
		return cs, qs, err
	}
	qs, err = c.vectors.vectors(questions)
	return cs, qs, err
}
