package pairs

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/engine"
)

// TestCountOfTwoAtOnce: a second call with the same files is refused while the first one counts, with either file.
func TestCountOfTwoAtOnce(t *testing.T) {
	l, file := newLibrary(300, 2, 0), stateFile(t)
	l.live = upTo(300)
	in := l.input(file)
	in.Checkpoint = file + ".pairs"
	inner := newEngine(t)
	var refused []error
	e, err := engine.New(engine.Options{Progress: func(int64, int64) {
		if refused != nil {
			return
		}
		for _, change := range []func(*Input){
			func(i *Input) { i.Checkpoint = "" },
			func(i *Input) { i.File = "" },
		} {
			second := in
			change(&second)
			_, _, err := Count(t.Context(), inner, second)
			refused = append(refused, err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Count(t.Context(), e, in); err != nil || len(refused) != 2 {
		t.Fatalf("%v, %d tried beside it", err, len(refused))
	}
	for i, name := range []string{in.File, in.Checkpoint} {
		if !errors.Is(refused[i], ErrLocked) || !strings.Contains(refused[i].Error(), name+" is in use: another call") {
			t.Errorf("beside it, with %s: %v", name, refused[i])
		}
	}
	if r := count(t, "afterwards", in); r.Pairs != 0 || r.Reason != "" {
		t.Errorf("%+v", r)
	}
}
