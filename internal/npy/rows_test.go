package npy

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestRowsAreWriteFloat32 compares the file that is written row by row with the one that is written at once.
func TestRowsAreWriteFloat32(t *testing.T) {
	for _, n := range []int{0, 1, 10, 1000} {
		const cols = 3
		data := make([]float32, n*cols)
		for i := range data {
			data[i] = float32(i) / 7
		}
		path := filepath.Join(t.TempDir(), "rows.npy")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewRows(f, cols)
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := r.Append(data[i*cols : (i+1)*cols]); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Append(data[:0]); err == nil {
			t.Error("a row of another length was taken")
		}
		if err := r.Close(); err != nil || r.N() != n {
			t.Fatalf("%v, %d rows", err, r.N())
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := WriteFloat32(&want, data, n, cols); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%d rows: %d bytes differ from the %d of WriteFloat32", n, len(got), want.Len())
		}
	}
}
