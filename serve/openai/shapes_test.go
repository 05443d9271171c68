package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

// said formats inputs: texts unchanged, tokens as [1 2].
func said(list []Input) string {
	var all []string
	for _, one := range list {
		if one.Tokens != nil {
			one.Text = fmt.Sprint(one.Tokens)
		}
		all = append(all, one.Text)
	}
	return strings.Join(all, "|")
}

func TestCompletionRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":"Once"}`:                    "Once",
		`{"prompt":["Once"],"logprobs":2}`:     "Once",
		`{"prompt":["a","b"]}`:                 "a|b",
		`{"prompt":[1,2,3]}`:                   "[1 2 3]",
		`{"prompt":[[1,2,3],[4]],"n":2}`:       "[1 2 3]|[4]",
		`{"prompt":["a",[4]]}`:                 "a|[4]",
		`{"prompt":[[1],[-2]]}`:                "prompt[1]: tokens are whole numbers from 0 to 2147483647",
		`{"prompt":[1,null]}`:                  "prompt: tokens are whole numbers",
		`{"prompt":[1,2.5]}`:                   "prompt: tokens are whole numbers from 0 to 2147483647, given number",
		`{"prompt":[1,"a"]}`:                   "prompt: tokens are whole numbers from 0 to 2147483647, given string",
		`{"prompt":[1,3000000000]}`:            "prompt: tokens are whole numbers",
		`{"prompt":["a","b","c","d","e","f"]}`: "prompt: 6 prompts, at most 5 are taken",
		`{"prompt":["a","b","c"],"n":2}`:       "n: 6 completions of all prompts together, at most 5 are taken",
		`{"prompt":"x","n":6}`:                 "n: 6 is not between 1 and 5",
		`{"prompt":"x","n":0}`:                 "n: 0 is not between 1 and 128",
		`{"prompt":"x","n":2,"best_of":2}`:     "x",
		`{"prompt":[]}`:                        "prompt: it is empty",
		`{"prompt":""}`:                        "prompt: it is empty",
		`{"prompt":["a",""]}`:                  "prompt[1]: it is empty",
		`{"prompt":[[]]}`:                      "prompt[0]: it is empty",
		`{"prompt":{}}`:                        "prompt: a string, an array of strings, or tokens is needed, given an",
		`{}`:                                   "prompt is missing",
		`{"prompt":"x","echo":true}`:           "echo: it is not supported",
		`{"prompt":"x","suffix":"y"}`:          "suffix: it is not supported",
		`{"prompt":"x","best_of":2}`:           "best_of: 2",
		`{"prompt":"x","logprobs":6}`:          "logprobs: 6 is not between 0 and 5",
		`{"prompt":"x","max_tokens":-1}`:       "max_tokens: -1 is not between 1 and 2147483647",
		`{"prompt":"x","stream_options":{}}`:   "stream_options: it needs stream",
		`{"prompt":[` + strings.Repeat("1,", maxInputTokens) + `1]}`: "prompt: 65537 tokens, at most 65536 are taken",
	} {
		var r CompletionRequest
		if err := strictly([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		got, err := llm.Request{}, CheckNumbers(&r)
		if err == nil {
			got, err = r.Request(limits)
		}
		var prompts []Input
		if err == nil {
			prompts, err = r.Prompts(limits)
		}
		if err != nil {
			if !strings.HasPrefix(err.Message, want) {
				t.Errorf("%.80s: %s, want %s", body, err.Message, want)
			}
		} else if said(prompts) != want || got.MaxTokens != rawTokens || got.LogProbs != (r.LogProbs != nil) {
			t.Errorf("%.80s: %+v, %+v, want %s", body, got, prompts, want)
		}
	}
}

// TestEach checks that the first of several completions keeps the request's seed, and that the others have different
// seeds.
func TestEach(t *testing.T) {
	for seed, want := range map[int64][3]int64{-1: {-1, -1, -1}, 7: {7, 8, 9}, seeds - 2: {seeds - 2, seeds - 1, 0}} {
		for i := range 3 {
			if got := Each(llm.Request{Seed: seed}, i).Seed; got != want[i] {
				t.Errorf("seed %d, completion %d: %d", seed, i, got)
			}
		}
	}
}

func TestInputs(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":"a"}`:                      "a",
		`{"input":["a","b"]}`:                "a|b",
		`{"input":["a",2]}`:                  "input[1]: a string is needed, given a number",
		`{"input":[]}`:                       "input: it is empty",
		`{"input":""}`:                       "input: it is empty",
		`{"input":["a",""]}`:                 "input[1]: it is empty",
		`{"input":" "}`:                      " ",
		`{"input":null}`:                     "input is missing",
		`{"input":{}}`:                       "input: a string, an array of strings, or tokens is needed, given an",
		`{"input":[1,2,3,4,5,6,7]}`:          "[1 2 3 4 5 6 7]",
		`{"input":[[1,2],[3]]}`:              "[1 2]|[3]",
		`{"input":["a","b","c","d","e"]}`:    "input: 5 texts, at most 4 are taken",
		`{"input":"a","user":"x"}`:           "a",
		`{"input":"a","truncate":false}`:     "a",
		`{"input":"a","dimensions":256}`:     "a",
		`{"input":["\ud800"]}`:               "\ufffd",
		`{"input":"a","input_type":"other"}`: "a",
	} {
		var r EmbeddingRequest
		if err := strictly([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		list, err := r.Inputs(limits)
		got := said(list)
		if err != nil {
			got = err.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	r := EmbeddingRequest{EncodingFormat: "hex", InputType: "other"}
	for asked, c := range map[int]struct {
		others, says string
	}{4: {"", ""}, 3: {"2 3", ""}, 0: {"2 3", "0 are asked for, the encoder has 4 and its vectors may be cut to 2, 3"},
		5: {"2", "5 are asked for, the encoder has 4 and its vectors may be cut to 2"},
		2: {"", "2 are asked for, the encoder has 4 and was not trained for shorter vectors"}} {
		r.Dimensions = &asked
		got, err := r.Dim(4, c.others)
		if c.says == "" && (got != asked || err != nil) ||
			c.says != "" && (err == nil || err.Message != "dimensions: "+c.says) {
			t.Errorf("%d of %q: %d, %v", asked, c.others, got, err)
		}
	}
	if _, err := r.Base64(); err == nil || err.Param != "encoding_format" {
		t.Error(err)
	}
	if _, err := r.IsQuery(); err == nil || err.Param != "input_type" {
		t.Error(err)
	}
}

func TestRerankRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"query":"q","documents":["a",{"text":"b","title":"t"}],"rank_fields":["text"],"max_chunks_per_doc":1}`: "a|b",
		`{"documents":["a"]}`:                                     "query is missing",
		`{"query":"q"}`:                                           "documents is missing",
		`{"query":"q","documents":[]}`:                            "documents: it is empty",
		`{"query":"q","documents":"a"}`:                           "documents: an array is needed",
		`{"query":"q","documents":[1]}`:                           "documents[0]: a string or",
		`{"query":"q","documents":[{}]}`:                          "documents[0].text is missing",
		`{"query":"q","documents":[{"text":1}]}`:                  "documents[0].text: a string is needed",
		`{"query":"q","documents":["a"],"top_n":0}`:               "top_n: 0 is not between 1 and 65536",
		`{"query":"q","documents":["a"],"rank_fields":["title"]}`: "rank_fields[0]",
		`{"query":"q","documents":["a","b","c","d","e"]}`:         "documents: 5 documents, at most 4",
	} {
		var r RerankRequest
		if err := strictly([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		list, err := []string(nil), CheckNumbers(&r)
		if err == nil {
			list, err = r.Texts(limits)
		}
		got := strings.Join(list, "|")
		if err != nil {
			got = err.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// TestAppendEmbeddings compares AppendEmbeddings with encoding/json.
func TestAppendEmbeddings(t *testing.T) {
	v := Vectors{Model: "a \"b\"\u2028", Dim: 3, Tokens: 9, Cut: 1, Mended: 2,
		Data: []float32{1, -.1, 3e-9, math.MaxFloat32, math.SmallestNonzeroFloat32, 0}}
	type answer struct {
		Object, Model string
		Data          []struct {
			Object    string
			Index     int
			Embedding json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
		Sluice struct{ Truncated, Repaired int }
	}
	for _, encoded := range []bool{false, true} {
		v.Base64 = encoded
		var a answer
		if err := strictly(AppendEmbeddings(nil, v), &a); err != nil {
			t.Fatal(err)
		}
		if a.Object != "list" || a.Model != v.Model || len(a.Data) != 2 || a.Usage.Prompt != 9 || a.Usage.Total != 9 ||
			a.Sluice.Truncated != 1 || a.Sluice.Repaired != 2 {
			t.Errorf("%+v", a)
		}
		var got []float32
		for i, d := range a.Data {
			if d.Object != "embedding" || d.Index != i {
				t.Errorf("%+v", d)
			}
			if row := []float32(nil); !encoded {
				if err := json.Unmarshal(d.Embedding, &row); err != nil {
					t.Fatal(err)
				}
				got = append(got, row...)
				continue
			}
			var text string
			if err := json.Unmarshal(d.Embedding, &text); err != nil {
				t.Fatal(err)
			}
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			for ; len(raw) > 0; raw = raw[4:] {
				got = append(got, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
			}
		}
		if d := cmp.Diff(v.Data, got); d != "" {
			t.Errorf("base64 %v: %s", encoded, d)
		}
	}
}

func TestLogProbs(t *testing.T) {
	list := []llm.TokenLogProb{
		{Text: "ab", LogProb: -.5, Top: []llm.TokenLogProb{{Text: "ab", LogProb: -.5},
			{Text: "\xc3", LogProb: math.Inf(-1)}}},
		{Text: "\xc3", LogProb: math.NaN()}, {Text: "\xa4", LogProb: 1e-9}, {Text: "c", LogProb: -1},
	}
	got, err := json.Marshal(LogProbsOf(true, list))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"content":[{"token":"ab","logprob":-0.5,"bytes":[97,98],"top_logprobs":[` +
		`{"token":"ab","logprob":-0.5,"bytes":[97,98]},{"token":"�","logprob":-9999,"bytes":[195]}]},`
	if !strings.HasPrefix(string(got), want) || LogProbsOf(false, list) != nil {
		t.Errorf("%s", got)
	}
	raw := TextLogProbsOf(true, list)
	if d := cmp.Diff([]int{0, 2, 2, 3}, raw.TextOffset); d != "" {
		t.Error(d)
	}
	if raw.TopLogProbs[0]["ab"] != -.5 || raw.TokenLogProbs[1] != -9999 || raw.TokenLogProbs[2] != 0 {
		t.Errorf("%+v", raw)
	}
}

func TestStream(t *testing.T) {
	w := httptest.NewRecorder()
	s := NewStream(w)
	if s.Begun() {
		t.Error("begun before anything was sent")
	}
	said := "<b>\n"
	if err := s.Send(ChatChunk{ID: "1", Choices: []ChunkChoice{{Delta: Delta{Content: &said}}}}); err != nil {
		t.Fatal(err)
	}
	if !w.Flushed || !s.Begun() || w.Header().Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Errorf("flushed %v, %v", w.Flushed, w.Header())
	}
	if err := s.Done(); err != nil {
		t.Fatal(err)
	}
	const want = `data: {"id":"1","object":"","created":0,"model":"","choices":[{"index":0,"delta":{"content":"<b>\n"},` +
		`"logprobs":null,"finish_reason":null}]}` + "\n\ndata: [DONE]\n\n"
	if got := w.Body.String(); got != want {
		t.Errorf("%s", got)
	}
}
