// Package pipeline runs a step's tasks on a runner of Apache Beam: numbers of tasks → Reshuffle → ParDo → names of
// objects → Combine → the name of their sum. Elements are numbers and names; what they stand for is in the object
// storage.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluice-rag/sluice/cluster/calibrate"
	"github.com/sluice-rag/sluice/cluster/ingest"
	"github.com/sluice-rag/sluice/cluster/objects"
)

// The kinds of steps.
const (
	Words    = "words"    // calibrate.Words
	Pairs    = "pairs"    // calibrate.Pairs
	Segments = "segments" // ingest.Segments
)

// Step is one pass: each of its tasks gives the name of an object, and these add up.
type Step interface {
	Tasks() int64
	Do(ctx context.Context, s *objects.Store, task int64) (name string, err error)
	Sum(ctx context.Context, s *objects.Store, names []string) (name string, err error)
}

var errStep = errors.New("pipeline")

// Of names a step: its kind, and its job in the object storage at an address.
type Of struct {
	Address, Kind, Job string
}

// open opens the storage and the step.
func (o *Of) open(ctx context.Context) (s *objects.Store, step Step, err error) {
	if s, err = objects.Open(ctx, o.Address); err != nil {
		return nil, nil, err
	}
	switch o.Kind {
	case Words:
		step, err = calibrate.OpenWords(ctx, s, o.Job)
	case Pairs:
		step, err = calibrate.OpenPairs(ctx, s, o.Job)
	case Segments:
		step, err = ingest.OpenSegments(ctx, s, o.Job)
	default:
		err = fmt.Errorf("%w: no step %q", errStep, o.Kind)
	}
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, step, nil
}

// record is where the result of a task is recorded; task −1: of all of them.
func (o *Of) record(task int64) string {
	name := "sum"
	if task >= 0 {
		name = fmt.Sprintf("%09d", task)
	}
	return path.Join("done", o.Kind, path.Base(o.Job), name)
}

// do does a task, unless its result is recorded.
func (o *Of) do(ctx context.Context, s *objects.Store, step Step, task int64) (string, error) {
	name, err := s.Recorded(ctx, o.record(task))
	if err == nil || !errors.Is(err, objects.ErrNotFound) {
		return name, err
	}
	if name, err = step.Do(ctx, s, task); err != nil {
		return "", err
	}
	return name, s.Record(ctx, o.record(task), name)
}

// doFn does tasks.
type doFn struct {
	Of

	s    *objects.Store
	step Step
}

func (f *doFn) Setup(ctx context.Context) (err error) {
	f.s, f.step, err = f.open(ctx)
	return err
}

func (f *doFn) Teardown() error { return f.s.Close() }

func (f *doFn) ProcessElement(ctx context.Context, task int64, emit func(string)) error {
	name, err := f.do(ctx, f.s, f.step, task)
	if err == nil {
		emit(name)
	}
	return err
}

// fanIn is how many objects are added up at a time.
const fanIn = 16

// names are the objects that a sum is made of.
type names struct{ List []string }

// sumFn adds up objects.
type sumFn struct{ Of }

func (f *sumFn) CreateAccumulator() names { return names{} }

func (f *sumFn) AddInput(ctx context.Context, a names, name string) (names, error) {
	return f.less(ctx, names{append(slices.Clone(a.List), name)}, fanIn)
}

func (f *sumFn) MergeAccumulators(ctx context.Context, a, b names) (names, error) {
	return f.less(ctx, names{slices.Concat(a.List, b.List)}, fanIn)
}

func (f *sumFn) ExtractOutput(ctx context.Context, a names) (string, error) {
	a, err := f.less(ctx, a, 1)
	if err != nil || len(a.List) == 0 {
		return "", err
	}
	return a.List[0], nil
}

// less adds up names until there are at most so many.
func (f *sumFn) less(ctx context.Context, a names, most int) (names, error) {
	if len(a.List) <= most {
		return a, nil
	}
	s, step, err := f.open(ctx)
	if err != nil {
		return a, err
	}
	name, err := step.Sum(ctx, s, a.List)
	return names{[]string{name}}, errors.Join(err, s.Close())
}

// recordFn records the sum.
type recordFn struct{ Of }

func (f *recordFn) ProcessElement(ctx context.Context, name string) (err error) {
	s, err := objects.Open(ctx, f.Address)
	if err != nil {
		return err
	}
	return errors.Join(s.Record(ctx, f.record(-1), name), s.Close())
}

func init() {
	register.DoFn3x1[context.Context, int64, func(string), error](&doFn{})
	register.DoFn2x1[context.Context, string, error](&recordFn{})
	register.Emitter1[string]()
	beam.RegisterType(reflect.TypeFor[sumFn]())
	beam.RegisterType(reflect.TypeFor[names]())
}

// tries is how often a pipeline is run: a runner that does not repeat bundles ends at the first failure, and finished
// tasks are recorded.
const tries = 3

// Run runs all tasks of a step on a runner, and returns the name of their sum.
func Run(ctx context.Context, runner string, of Of) (sum string, err error) {
	s, step, err := of.open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	tasks := make([]int64, step.Tasks())
	if len(tasks) == 0 {
		return "", fmt.Errorf("%w: %s has no tasks", errStep, of.Kind)
	}
	for i := range tasks {
		tasks[i] = int64(i)
	}
	for try := 1; ; try++ {
		p, scope := beam.NewPipelineWithRoot()
		list := beam.Reshuffle(scope, beam.CreateList(scope, tasks))
		parts := beam.ParDo(scope, &doFn{Of: of}, list)
		beam.ParDo0(scope, &recordFn{of}, beam.Combine(scope, &sumFn{of}, parts))
		if _, err = beam.Run(ctx, runner, p); err == nil {
			break
		}
		if try == tries || ctx.Err() != nil {
			return "", fmt.Errorf("%w: %s: %w", errStep, of.Kind, err)
		}
	}
	return s.Recorded(ctx, of.record(-1))
}
