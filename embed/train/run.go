package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/internal/filelock"
)

// ErrDiverged means that the loss or a gradient is not a finite number.
var ErrDiverged = errors.New("train: the training diverged; a lower rate is the remedy")

// run is a training: epochs of steps with a validation after each, and checkpoints.
type run struct {
	of     trainer
	net    *network[float32]
	opt    *adamw[float32]
	set    Settings
	count  int    // examples, pairs or windows to train on
	dir    string // of the checkpoint
	digest string // of the data, the settings and the model that it began from
	hooks  Hooks

	state state
	best  [][]float32 // parameters of the best epoch
	saved time.Time
	since time.Time // of state.Seconds
}

// trainer is what differs between the trainings of the kinds of models.
type trainer interface {
	step(items []int) (float64, error)               // the loss of some; their gradients are in the parameters
	validate() (Scores, error)                       // of the parameters as they are
	better(a, b Scores) bool                         // a is better than b
	complete(ctx context.Context, out *Result) error // adds what is measured on the best epoch
	write(out *Result) error                         // into the result's folder
}

// task holds the fields that the trainings of all kinds of models share.
type task[T any] struct {
	in       Input[T]
	base     *base
	net      *network[float32]
	examples int // that are trained on
}

// open reads the model that the training begins from, as a DistilBERT or as what it is.
func (t *task[T]) open(distil bool) error {
	m, err := newMachine(t.in.Engine)
	if err != nil {
		return err
	}
	if t.base, err = readBase(t.in.From); err != nil {
		return err
	}
	if distil {
		t.net, err = loadDistil(t.in.From, m)
	} else {
		t.net, err = load(t.in.From, m, false)
	}
	if err != nil {
		return err
	}
	t.net.from, err = t.in.Settings.first(t.net.Layers)
	return err
}

// run returns the run of a training of some examples, which are cut into count items. Its digest covers everything that
// determines the bits of the training, except the machine's instruction set.
func (t *task[T]) run(kind string, examples, count int, of trainer) (*run, error) {
	t.examples = examples
	in := map[string]any{"kind": kind, "settings": t.in.Settings, "training": t.in.Training.Digest,
		"model": t.base.digest, "tokenizer": t.in.Tokenizer.Digest()}
	if t.in.Validation != nil {
		in["validation"] = t.in.Validation.Digest
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	h := fnv.New128a()
	h.Write(raw)
	r := &run{of: of, net: t.net, set: t.in.Settings, count: count, dir: t.in.Out, hooks: t.in.Hooks,
		digest: fmt.Sprintf("%x", h.Sum(nil))}
	r.opt = newAdamW(t.net, r.set.Epochs*r.stepsPerEpoch(), r.set)
	return r, nil
}

// state is where a training is.
type state struct {
	Version int     `json:"version"`
	Digest  string  `json:"digest"`
	Epoch   int     `json:"epoch"` // from 0
	Batch   int     `json:"batch"` // next of the epoch
	Step    int     `json:"step"`  // steps done
	Loss    float64 `json:"loss"`  // sum over the epoch's batches so far
	Seconds float64 `json:"seconds"`
	Elapsed float64 `json:"epoch_seconds"`
	Best    int     `json:"best"` // index into History; −1: none yet
	History []Epoch `json:"history"`
}

// stepsPerEpoch returns the number of batches.
func (r *run) stepsPerEpoch() int { return (r.count + r.set.Batch - 1) / r.set.Batch }

// order returns the examples in the order of an epoch.
func (r *run) order(epoch int) []int {
	return rand.New(rand.NewPCG(r.set.Seed, uint64(epoch)+2)).Perm(r.count)
}

// train runs the epochs that are left, from a checkpoint if there is one, and leaves the parameters of the best.
func (r *run) train(ctx context.Context) error {
	r.state = state{Version: stateVersion, Digest: r.digest, Best: -1}
	if err := r.resume(); err != nil {
		return err
	}
	r.saved, r.since = time.Now(), time.Now()
	for r.state.Epoch < r.set.Epochs && !r.exhausted() {
		if err := r.epoch(ctx); err != nil {
			return err
		}
	}
	for i, p := range r.opt.params {
		copy(p.data, r.best[i])
	}
	return nil
}

// exhausted reports whether patience is at an end.
func (r *run) exhausted() bool {
	return r.set.Patience > 0 && r.state.Best >= 0 && len(r.state.History)-1-r.state.Best >= r.set.Patience
}

// epoch runs the steps that are left of an epoch and validates.
func (r *run) epoch(ctx context.Context) error {
	s := &r.state
	batches := slices.Collect(slices.Chunk(r.order(s.Epoch), r.set.Batch))
	for s.Batch < len(batches) {
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), r.save())
		}
		r.net.dropout.step = uint64(s.Step)
		loss, err := r.of.step(batches[s.Batch])
		if err == nil && (math.IsNaN(loss) || math.IsInf(loss, 0)) {
			err = fmt.Errorf("%w: the loss of epoch %d, step %d is %v", ErrDiverged, s.Epoch+1, s.Batch+1, loss)
		}
		if err == nil {
			err = r.opt.update()
		}
		if err != nil {
			return err
		}
		s.Batch, s.Step, s.Loss = s.Batch+1, s.Step+1, s.Loss+loss
		if r.hooks.Step != nil {
			r.hooks.Step(s.Step, r.opt.steps)
		}
		if time.Since(r.saved) > checkpointInterval {
			if err := r.save(); err != nil {
				return err
			}
		}
	}
	return r.finish(len(batches))
}

// finish validates after an epoch, keeps the parameters if they are the best, and writes a checkpoint.
func (r *run) finish(batches int) error {
	s := &r.state
	scores, err := r.of.validate()
	if err != nil {
		return err
	}
	if math.IsNaN(scores.Loss) {
		return fmt.Errorf("%w: the validation loss of epoch %d is %v", ErrDiverged, s.Epoch+1, scores.Loss)
	}
	r.clock()
	e := Epoch{Epoch: s.Epoch + 1, Loss: s.Loss / float64(batches), Validation: scores, Seconds: s.Elapsed,
		PerSecond: float64(r.count) / max(s.Elapsed, 1e-9)}
	if s.Best < 0 || r.of.better(scores, s.History[s.Best].Validation) {
		e.Best, s.Best = true, len(s.History)
		r.keep()
	}
	s.History = append(s.History, e)
	s.Epoch, s.Batch, s.Loss, s.Elapsed = s.Epoch+1, 0, 0, 0
	if err := r.save(); err != nil {
		return err
	}
	if r.hooks.Epoch != nil {
		r.hooks.Epoch(e)
	}
	return nil
}

// clock adds the time since the last call to the state.
func (r *run) clock() {
	d := time.Since(r.since).Seconds()
	r.since = time.Now()
	r.state.Seconds += d
	r.state.Elapsed += d
}

// keep copies the parameters as the best ones.
func (r *run) keep() {
	if r.best == nil {
		for _, p := range r.opt.params {
			r.best = append(r.best, make([]float32, len(p.data)))
		}
	}
	for i, p := range r.opt.params {
		copy(r.best[i], p.data)
	}
}

// checkpointFile is an unfinished training in the folder of its result.
const checkpointFile = "training.safetensors"

func (r *run) path() string { return filepath.Join(r.dir, checkpointFile) }

// drop removes the checkpoint of a training that has its result, and its lock's file.
func (r *run) drop() error {
	for _, name := range []string{r.path(), r.path() + filelock.Suffix} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// train opens a training, locks the folder of its result, and runs it to the end.
func train[T any](
	ctx context.Context, in Input[T], open func(context.Context, Input[T]) (*run, error),
) (*Result, error) {
	if err := in.Settings.check(); err != nil {
		return nil, err
	}
	if err := vacant(in.Out); err != nil {
		return nil, err
	}
	r, err := open(ctx, in)
	if err != nil {
		return nil, err
	}
	lock, err := prepareFolder(in.Out)
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	if err := r.train(ctx); err != nil {
		return nil, err
	}
	out := r.result()
	if err := r.of.complete(ctx, out); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the checkpoint is from the last epoch
	}
	if err := r.of.write(out); err != nil {
		return nil, err
	}
	return out, r.drop()
}

// result returns what a training has come to.
func (r *run) result() *Result {
	s := &r.state
	return &Result{Out: r.dir, Epochs: len(s.History), BestEpoch: s.Best + 1, Validation: s.History[s.Best].Validation,
		Seconds: s.Seconds}
}
