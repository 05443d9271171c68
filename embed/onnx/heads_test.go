package onnx

import (
	"errors"
	"slices"
	"testing"
)

func TestParseLabels(t *testing.T) {
	names, problem, err := ParseLabels([]byte(`{"id2label":{"1":"b","0":"a"},"problem_type":"regression"}`))
	if err != nil || !slices.Equal(names, []string{"a", "b"}) || problem != "regression" {
		t.Errorf("%v %q %v", names, problem, err)
	}
	if names, problem, err = ParseLabels([]byte(`{}`)); err != nil || len(names) != 0 || problem != "" {
		t.Errorf("%v %q %v", names, problem, err)
	}
	for _, bad := range []string{`[]`, `{"id2label":{"0":"a","2":"b"}}`, `{"id2label":{"00":"a"}}`,
		`{"id2label":{"-1":"a"}}`,
		`{"id2label":{"0":7}}`, `{"problem_type":3}`, `{`} {
		if _, _, err := ParseLabels([]byte(bad)); !errors.Is(err, ErrModel) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzLabels(f *testing.F) {
	f.Add([]byte(`{"id2label":{"0":"a","1":"b"},"problem_type":null}`))
	f.Add([]byte(`{"id2label":{"1":"a"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		names, _, err := ParseLabels(raw)
		if err != nil && (!errors.Is(err, ErrModel) || names != nil) {
			t.Fatalf("%v, %v", names, err)
		}
	})
}
