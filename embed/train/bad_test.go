package train

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/filelock"
	"github.com/sluice-rag/sluice/internal/jsonl"
	"github.com/sluice-rag/sluice/internal/safetensors"
	"github.com/sluice-rag/sluice/internal/testmodels/checkpoint"
)

func TestBadLines(t *testing.T) {
	const good = `{"text":"a","label":"x"}` + "\n"
	for name, c := range map[string]struct{ text, want string }{
		"malformed":   {good + `{"text":"a",`, "data.jsonl:2: bad line: unexpected end of JSON input"},
		"no object":   {good + "\n[1]", "data.jsonl:3: bad line: a JSON array where an object is wanted"},
		"no text":     {`{"label":"x"}`, `data.jsonl:1: bad line: "text" is missing`},
		"empty text":  {good + `{"text":"  ","label":"x"}`, `data.jsonl:2: bad line: "text" is empty`},
		"no label":    {good + `{"text":"a"}`, `data.jsonl:2: bad line: "label" is missing`},
		"null label":  {good + `{"text":"a","label":null}`, `data.jsonl:2: bad line: "label" is missing`},
		"empty label": {good + `{"text":"a","label":""}`, "data.jsonl:2: bad line: a label is empty"},
		"both":        {`{"text":"a","label":"x","labels":["x"]}`, `"label" and "labels"`},
		"mixed": {good + good + `{"text":"a","labels":["x"]}`,
			`:3: bad line: it has "labels", line 1 has "label"`},
		"number":        {`{"text":"a","label":3}`, `"label" is a JSON number`},
		"UTF-8":         {"{\"text\":\"\xff\",\"label\":\"x\"}", "not valid UTF-8"},
		"no lines":      {"\n\n", "no labelled texts"},
		"many":          {strings.Repeat("{\n", 9), "… and 4 more"},
		"how many":      {strings.Repeat("{\n", 9), "bad lines: 9"},
		"number of one": {strings.Repeat(good, 1000) + "{\n", "data.jsonl:1001"},
	} {
		_, err := ReadExamples(strings.NewReader(c.text), "data.jsonl")
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %q expected", name, err, c.want)
		}
	}
	_, err := ReadExamples(strings.NewReader("{"), "x")
	var line *jsonl.LineError
	if !errors.As(err, &line) || line.Line != 1 {
		t.Errorf("%v is no LineError", err)
	}
	for _, text := range []string{`{"query":"a"}`, `{"query":"","context":"b"}`, `{"query":["a"],"context":"b"}`, ""} {
		if _, err := ReadPairs(strings.NewReader(text), "x"); !errors.Is(err, ErrData) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// refused expects an error, and that the folder of the result is not made.
func refused(t *testing.T, name string, in ClassifierInput, target error, want string) {
	t.Helper()
	_, err := Classifier(t.Context(), in)
	if !errors.Is(err, target) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, %q expected", name, err, want)
	}
	if _, err := os.Stat(in.Out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: the folder of the result was made", name)
	}
}

func TestBadData(t *testing.T) {
	from := bertDir(t)
	const line = `{"text":"%s","label":"%s"}` + "\n"
	one := strings.Repeat(fmt.Sprintf(line, "a", "x"), 9)
	for name, c := range map[string]struct {
		change func(*ClassifierInput)
		target error
		want   string
	}{
		"one class": {func(in *ClassifierInput) { in.Training = examples(t, one) }, ErrData,
			`all texts have the label "x"`},
		"nothing to validate": {func(in *ClassifierInput) {
			in.Training = examples(t, fmt.Sprintf(line+line, "a", "x", "b", "y"))
		}, ErrData, "nothing is left to validate with"},
		"new label in validation": {func(in *ClassifierInput) {
			in.Validation = examples(t, fmt.Sprintf(line+line, "a", "red", "b", "pink"))
		}, ErrData, `data.jsonl:2: the label "pink" is in none of the texts`},
		"kinds": {func(in *ClassifierInput) {
			in.Validation = examples(t, `{"text":"a","labels":["red"]}`)
		}, ErrData, `has "labels", data.jsonl has "label"`},
		"epochs": {func(in *ClassifierInput) { in.Settings.Epochs = 0 }, ErrSetting, "epochs is 0"},
		"rate":   {func(in *ClassifierInput) { in.Settings.Rate = math.NaN() }, ErrSetting, "rate is NaN"},
		"layers": {func(in *ClassifierInput) { in.Settings.Layers = 7 }, ErrSetting, "the model has 3"},
	} {
		in := input(t, from)
		c.change(&in)
		refused(t, name, in, c.target, c.want)
	}
}

// TestWarnings: rare labels are trained, and said; new labels of the test are left out, and said.
func TestWarnings(t *testing.T) {
	in := input(t, bertDir(t))
	in.Training = examples(t, colours(30)+`{"text":"the only one","label":"mauve"}`)
	in.Test = examples(t, colours(6)+`{"text":"what is this","label":"pink"}`)
	var said strings.Builder
	in.Hooks.Warn = func(text string) { said.WriteString(text + "\n") }
	r := trainOrFail(t, in)
	for _, want := range []string{`one text to train on: "mauve"`, `without a text to validate with`,
		`data.jsonl: 1 of 7 texts have labels that the training does not`, `"pink"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is not said: %s", want, said.String())
		}
	}
	if r.Labels != 4 || r.Test.Examples != 6 {
		t.Errorf("%+v, %+v", r, r.Test)
	}
}

func TestBadModels(t *testing.T) {
	change := func(edit func(tensors []checkpoint.Tensor) []checkpoint.Tensor) string {
		dir := bertDir(t)
		path := filepath.Join(dir, "model.safetensors")
		l := readTensors(t, path)
		raw, err := checkpoint.Safetensors(edit(l), "F32")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	const name = "encoder.layer.1.output.dense.bias"
	at := func(l []checkpoint.Tensor) *checkpoint.Tensor {
		for i := range l {
			if l[i].Name == name {
				return &l[i]
			}
		}
		t.Fatal("no such tensor")
		return nil
	}
	nan := change(func(l []checkpoint.Tensor) []checkpoint.Tensor { at(l).Data[5] = float32(math.NaN()); return l })
	missing := change(func(l []checkpoint.Tensor) []checkpoint.Tensor { at(l).Name = "other"; return l })
	shape := change(func(l []checkpoint.Tensor) []checkpoint.Tensor {
		at(l).Shape, at(l).Data = []int{31}, at(l).Data[:31]
		return l
	})
	roberta, epsilon, relu := model(t, checkpoint.Spec{Family: "roberta"}), model(t, checkpoint.Spec{Family: "bert"}),
		model(t, checkpoint.Spec{Family: "distilbert", Act: "relu"})
	cut := bertDir(t)
	if err := os.Truncate(filepath.Join(cut, "model.safetensors"), 20000); err != nil {
		t.Fatal(err)
	}
	for want, dir := range map[string]string{
		`tensor "` + name + `": value 5 is NaN`:                           nan,
		`tensor "` + name + `" is missing`:                                missing,
		`tensor "` + name + `" has the shape [31], [32] expected`:         shape,
		`model_type "roberta"; classifiers begin from bert or distilbert`: roberta,
		"layer_norm_eps is 1e-05; a DistilBERT has 1e-12":                 epsilon,
		`activation "relu"; gelu is supported`:                            relu,
		"do not lie in the file's":                                        cut,
	} {
		refused(t, want, input(t, dir), ErrModel, want)
	}
}

func readTensors(t *testing.T, path string) []checkpoint.Tensor {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	header, err := safetensors.ReadHeader(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	var out []checkpoint.Tensor
	for name, x := range header {
		data, err := readFloats(f, x)
		if err != nil {
			t.Fatal(err)
		}
		var dims []int
		for _, d := range x.Shape {
			dims = append(dims, int(d))
		}
		out = append(out, checkpoint.Tensor{Name: name, Shape: dims, Data: data})
	}
	return out
}

// stopped returns an input whose training was interrupted after step n.
func stopped(t *testing.T, n int) ClassifierInput {
	t.Helper()
	in := input(t, bertDir(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in.Hooks.Step = func(done, _ int) {
		if done == n {
			cancel()
		}
	}
	if _, err := Classifier(ctx, in); err == nil {
		t.Fatal("not interrupted")
	}
	in.Hooks.Step = nil
	return in
}

// TestBadCheckpoints: what cannot be gone on from is said, and stays as it is.
func TestBadCheckpoints(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *ClassifierInput, path string)
		want   string
	}{
		"other settings": {func(in *ClassifierInput, _ string) { in.Settings.Seed++ }, "of other data, settings"},
		"other data": {func(in *ClassifierInput, _ string) { in.Training = examples(t, colours(63)) },
			"of other data, settings"},
		"other model": {func(in *ClassifierInput, _ string) {
			in.From = model(t, checkpoint.Spec{Family: "distilbert", Layers: 3})
		}, "of other data, settings"},
		"cut": {func(_ *ClassifierInput, path string) {
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		}, "remove the file to begin anew"},
		"NaN": {func(_ *ClassifierInput, path string) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			head := 8 + binary.LittleEndian.Uint64(raw)
			binary.LittleEndian.PutUint32(raw[head:], math.Float32bits(float32(math.NaN())))
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}, `tensor "weight/0": value 0 is NaN`},
	} {
		in := stopped(t, 9)
		path := filepath.Join(in.Out, checkpointFile)
		c.change(&in, path)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Classifier(t.Context(), in)
		if !errors.Is(err, ErrCheckpoint) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %q expected", name, err, c.want)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s: the checkpoint has changed, %v", name, err)
		}
	}
}

// TestFolders: a model is not written over, and two trainings do not share a folder.
func TestFolders(t *testing.T) {
	in := input(t, bertDir(t))
	trainOrFail(t, in)
	if _, err := Classifier(t.Context(), in); !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(),
		"holds a model") {
		t.Error(err)
	}
	in = stopped(t, 9)
	lock, err := filelock.Take(filepath.Join(in.Out, checkpointFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Classifier(t.Context(), in); !errors.Is(err, filelock.ErrHeld) {
		t.Error(err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	trainOrFail(t, in)
}

// diverging is a training whose fifth step has no finite loss.
type diverging struct {
	trainer
	run *run
}

func (d diverging) step(items []int) (float64, error) {
	if d.run.state.Step == 4 {
		return math.NaN(), nil
	}
	return d.trainer.step(items)
}

// TestDiverged: a loss that is NaN ends the training with a hint, and is not counted as a step.
func TestDiverged(t *testing.T) {
	in := input(t, bertDir(t))
	r, err := openClassifier(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := prepareFolder(in.Out)
	if err != nil {
		t.Fatal(err)
	}
	r.of = diverging{r.of, r}
	err = r.train(t.Context())
	if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "a lower rate") || r.opt.step != 4 {
		t.Errorf("%v after %d steps", err, r.opt.step)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}
