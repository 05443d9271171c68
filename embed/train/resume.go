package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/safetensors"
)

// ErrCheckpoint is wrapped by the error of a checkpoint that cannot be gone on from.
var ErrCheckpoint = errors.New("train: the checkpoint of an unfinished training")

const (
	stateVersion = 1
	stateTensor  = "state" // JSON, of type U8
)

// save writes the checkpoint: weights, moments, the best weights so far and where the training is. It replaces the
// one before only when it is whole and on the disk.
func (r *run) save() error {
	r.clock()
	raw, err := json.Marshal(r.state)
	if err != nil {
		return err
	}
	var tensors []named
	for i, p := range r.opt.params {
		for _, part := range []struct {
			name string
			data []float32
		}{{"weight", p.data}, {"m", r.opt.m[i]}, {"v", r.opt.v[i]}} {
			tensors = append(tensors, named{part.name + "/" + strconv.Itoa(i), []int64{int64(len(part.data))},
				part.data})
		}
		if r.best != nil {
			tensors = append(tensors, named{"best/" + strconv.Itoa(i), []int64{int64(len(r.best[i]))}, r.best[i]})
		}
	}
	err = durable.Replace(r.path(), func(w io.Writer) error { return writeTensors(w, tensors, raw) })
	if err != nil {
		kept := "there was none before it"
		if _, statErr := os.Stat(r.path()); statErr == nil {
			kept = "the one before it is kept, and the same command goes on from there"
		}
		return fmt.Errorf("train: the checkpoint of epoch %d, step %d cannot be written (%s): %w", r.state.Epoch+1,
			r.state.Step, kept, err)
	}
	r.saved = time.Now()
	return nil
}

// resume reads the checkpoint if there is one.
func (r *run) resume() error {
	f, err := os.Open(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	defer f.Close()
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %w; remove the file to begin anew", ErrCheckpoint, r.path(),
			fmt.Errorf(format, args...))
	}
	info, err := f.Stat()
	if err != nil {
		return bad("%w", err)
	}
	tensors, err := safetensors.ReadHeader(f, info.Size())
	if err != nil {
		return bad("%w", err)
	}
	s, err := readState(f, tensors[stateTensor])
	if err != nil {
		return bad("%w", err)
	}
	switch {
	case s.Version != stateVersion:
		return bad("it has version %d, this program reads %d", s.Version, stateVersion)
	case s.Digest != r.digest:
		return bad("it is of other data, settings or another model: give the same ones again")
	case s.Best >= len(s.History) || s.Epoch != len(s.History) || s.Epoch > r.set.Epochs || s.Batch < 0:
		return bad("its state %+v is not one of this training", s)
	}
	if err := r.read(f, tensors, s.Best >= 0); err != nil {
		return bad("%w", err)
	}
	r.state, r.opt.step = s, s.Step
	if r.hooks.Resumed != nil {
		r.hooks.Resumed(s.Epoch+1, s.Step)
	}
	return nil
}

func readState(f io.ReaderAt, t safetensors.Tensor) (s state, err error) {
	if t.DType != "U8" {
		return s, errors.New("no state is in it")
	}
	raw := make([]byte, t.Length)
	if _, err := f.ReadAt(raw, t.Offset); err != nil && !errors.Is(err, io.EOF) {
		return s, err
	}
	return s, json.Unmarshal(raw, &s)
}

// read takes weights, moments and best weights from a checkpoint.
func (r *run) read(f io.ReaderAt, tensors map[string]safetensors.Tensor, best bool) error {
	into := func(name string, i int, to []float32) error {
		name += "/" + strconv.Itoa(i)
		t, ok := tensors[name]
		if !ok {
			return fmt.Errorf("tensor %q is missing", name)
		}
		data, err := readFloats(f, t)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if len(data) != len(to) {
			return fmt.Errorf("tensor %q has %d values, %d expected", name, len(data), len(to))
		}
		copy(to, data)
		return nil
	}
	if best {
		r.keep() // takes the room
	}
	for i, p := range r.opt.params {
		err := errors.Join(into("weight", i, p.data), into("m", i, r.opt.m[i]), into("v", i, r.opt.v[i]))
		if best {
			err = errors.Join(err, into("best", i, r.best[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
