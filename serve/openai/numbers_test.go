package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Depth int `json:"depth" bounds:"0,3"`
}

type numbered struct {
	inner
	Seed  *int64  `json:"seed" bounds:"-9223372036854775808,9223372036854775807"`
	Start uint64  `json:"start" bounds:"0,18446744073709551615"`
	Share float64 `json:"share" bounds:"0,0.5"`
	List  []inner `json:"list"`
}

func TestCheckNumbers(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:              "",
		`{"depth":3}`:     "",
		`{"depth":4}`:     "depth: 4 is not between 0 and 3",
		`{"depth":-1}`:    "depth: -1 is not between 0 and 3",
		`{"share":0.5}`:   "",
		`{"share":1e308}`: "share: 1e+308 is not between 0 and 0.5",
		`{"seed":9223372036854775807,"start":18446744073709551615}`: "",
		`{"list":[{"depth":1},{"depth":7}]}`:                        "list[1].depth: 7 is not between 0 and 3",
		`{"depth":9223372036854775808}`: "depth: 9223372036854775808 is not a whole number " +
			"between 0 and 3",
		`{"depth":1.5}`:            "depth: 1.5 is not a whole number between 0 and 3",
		`{"share":1e400}`:          "share: 1e400 is not between 0 and 0.5",
		`{"list":[{"depth":1e3}]}`: "depth: 1e3 is not a whole number between 0 and 3",
		`{"seed":1e40}`: "seed: 1e40 is not a whole number between -9223372036854775808 and " +
			"9223372036854775807",
		`{"start":-1}`: "start: -1 is not a whole number between 0 and 18446744073709551615",
	} {
		var r numbered
		var got *Error
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			got = OutOfType(&r, err)
		} else {
			got = CheckNumbers(&r)
		}
		if said := got.orNothing(); said != want {
			t.Errorf("%s: %q, want %q", body, said, want)
		}
	}
	if e := OutOfType(&numbered{}, json.Unmarshal([]byte(`{"depth":"x"}`), &numbered{})); e != nil {
		t.Errorf("of a string: %v", e)
	}
}

func (e *Error) orNothing() string {
	if e == nil {
		return ""
	}
	return e.Message
}

// TestNamesAreExact checks that names differing in case are refused, which encoding/json accepts.
func TestNamesAreExact(t *testing.T) {
	_, err := chat(t, `{"messages":[{"role":"user","content":[{"type":"text","Text":"x"}]}]}`)
	if err == nil || !strings.HasSuffix(err.Param, "Text") {
		t.Errorf("%+v", err)
	}
}
