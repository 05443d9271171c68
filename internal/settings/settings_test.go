package settings

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type inner struct {
	Depth int `json:"depth" bounds:"0,9" request:"3" doc:"how deep"`
}

type options struct {
	Size   int64             `key:"size_mib" unit:"MiB" bounds:"1,65536" doc:"size"`
	Wait   time.Duration     `key:"wait_s" unit:"s" bounds:"0,60" doc:"patience"`
	Share  float64           `json:"share" bounds:"0,1" doc:"share"`
	Seed   uint64            `key:".seed" bounds:"0,18446744073709551615" doc:"seed"`
	Kind   string            `json:"kind,omitempty" oneof:"a b" doc:"kind"`
	Many   int32             `key:"many" words:"all=99" bounds:"0,99" doc:"how many"`
	Names  []string          `key:"names" flag:"-" doc:"names"`
	On     bool              `key:"on" flag:"switched" doc:"on or off"`
	Token  string            `key:"token" secret:"true" doc:"key"`
	Pairs  map[string]string `key:"pairs" pairs:"true" doc:"pairs"`
	Heat   float64           `json:"-" key:"heat" bounds:"0,2" go:"-1,2" doc:"a program may say less"`
	Hidden int               `json:"hidden"` // no setting
	Inner  inner             `key:"inner"`
	inner
}

func defaults() options {
	return options{Size: 2 << 20, Wait: 90 * time.Second / 60, Kind: "a", Names: []string{"x", "y"}}
}

func TestFields(t *testing.T) {
	got, of := [][]string{}, reflect.ValueOf(defaults())
	for _, f := range Fields(of.Type()) {
		got = append(got, []string{f.Key, f.Flag, f.Text(of), f.Limits()})
	}
	want := [][]string{{"size_mib", "size-mib", "2", "1 to 65536"}, {"wait_s", "wait-s", "1.5", "0 to 60"},
		{"share", "share", "0", "0 to 1"}, {"seed", "seed", "0", "0 to 18446744073709551615"},
		{"kind", "kind", "a", "one of a, b"}, {"many", "many", "0", "0 to 99"}, {"names", "-", "x,y", ""},
		{"on", "switched", "false", ""}, {"token", "token", "", ""},
		{"pairs", "pairs", "", ""}, {"heat", "heat", "0", "0 to 2"}, {"inner.depth", "depth", "0", "0 to 9"},
		{"depth", "depth", "0", "0 to 9"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestSet(t *testing.T) {
	for _, c := range []struct{ key, text, want, err string }{
		{"size_mib", " 3 ", "3", ""},
		{"size_mib", "0", "", "0 is not between 1 and 65536"},
		{"size_mib", "9223372036854775807", "", "9223372036854775807 is not between 1 and 65536"},
		{"size_mib", "1.5", "", `"1.5" is not a whole number`},
		{"wait_s", "0.25", "0.25", ""},
		{"wait_s", "61", "", "61 is not between 0 and 60"},
		{"wait_s", "soon", "", `"soon" is not a number`},
		{"share", "nan", "", "nan is not between 0 and 1"},
		{"share", "0", "0", ""},
		{"seed", "18446744073709551615", "18446744073709551615", ""},
		{"seed", "-1", "", `"-1" is not a whole number from 0`},
		{"kind", "b", "b", ""},
		{"kind", "", "", `must be one of a, b, given ""`},
		{"many", "all", "99", ""},
		{"names", " p, ,q", "p,q", ""},
		{"names", "", "", ""},
		{"on", "true", "true", ""},
		{"on", "maybe", "", `"maybe" is not true or false`},
		{"token", "a\x00b", "", `"(the value)" holds a NUL byte`},
		{"pairs", "b=2, a=1", "a=1,b=2", ""},
		{"pairs", "", "", ""},
		{"pairs", "a", "", `must be NAME=VALUE,NAME=VALUE, given "a"`},
		{"heat", "-1", "", "-1 is not between 0 and 2"},
		{"depth", "9", "9", ""},
	} {
		o := defaults()
		of := reflect.ValueOf(&o).Elem()
		for _, f := range Fields(of.Type()) {
			if f.Key != c.key {
				continue
			}
			switch err := f.Set(of, c.text); {
			case err != nil && err.Error() != c.err, err == nil && c.err != "":
				t.Errorf("%s = %q: %v, want %q", c.key, c.text, err, c.err)
			case err == nil && f.Text(of) != c.want:
				t.Errorf("%s = %q: %q, want %q", c.key, c.text, f.Text(of), c.want)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	type request struct {
		*options
		List []inner `json:"list"`
	}
	for name, c := range map[string]struct {
		change        func(*request)
		options, body string // errors of Check and of CheckRequest
	}{
		"fine": {func(*request) {}, "", ""},
		"size": {func(r *request) { r.Size = 1 }, "size_mib: 0 is not between 1 and 65536", "same"},
		"not":  {func(r *request) { r.Share = math.NaN() }, "share: NaN is not between 0 and 1", "same"},
		"go":   {func(r *request) { r.Heat = -1 }, "", ""},
		"none": {func(r *request) { r.Heat = -2 }, "heat: -2 is not between -1 and 2", ""},
		"word": {func(r *request) { r.Kind = "" }, `kind: must be one of a, b, given ""`, "same"},
		"embedded": {func(r *request) { r.Depth = 10 }, "depth: 10 is not between 0 and 9",
			"depth: 10 is not between 0 and 3"},
		"inside": {func(r *request) { r.Inner.Depth = -1 }, "inner.depth: -1 is not between 0 and 9",
			"inner.depth: -1 is not between 0 and 3"},
		"list": {func(r *request) { r.List = []inner{{}, {4}} }, "", "list[1].depth: 4 is not between 0 and 3"},
	} {
		o := defaults()
		r := request{options: &o}
		c.change(&r)
		if c.body == "same" {
			c.body = c.options
		}
		said := func(err error, e *Error) string {
			switch {
			case e != nil:
				return e.Error()
			case err != nil:
				return err.Error()
			}
			return ""
		}
		if got := said(Check(&r), nil); got != c.options {
			t.Errorf("%s: %q, want %q", name, got, c.options)
		}
		if got := said(nil, CheckRequest(&r)); got != c.body {
			t.Errorf("%s in a request: %q, want %q", name, got, c.body)
		}
	}
}
