package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/llm"
)

func TestCompletionRequest(t *testing.T) {
	for body, want := range map[string]string{
		`{"prompt":"Once"}`:                  "Once",
		`{"prompt":["Once"],"logprobs":2}`:   "Once",
		`{"prompt":["a","b"]}`:               "prompt: 2 prompts, at most 1 are taken",
		`{"prompt":[1,2,3]}`:                 "prompt: token numbers",
		`{"prompt":[[1,2,3]]}`:               "prompt: token numbers",
		`{"prompt":[]}`:                      "prompt: it is empty",
		`{"prompt":""}`:                      "prompt: it is empty",
		`{}`:                                 "prompt is missing",
		`{"prompt":"x","echo":true}`:         "echo: it is not supported",
		`{"prompt":"x","suffix":"y"}`:        "suffix: it is not supported",
		`{"prompt":"x","best_of":2}`:         "best_of: 2",
		`{"prompt":"x","logprobs":6}`:        "logprobs: 6 is not between 0 and 5",
		`{"prompt":"x","max_tokens":-1}`:     "max_tokens: -1 is less than 1",
		`{"prompt":"x","stream_options":{}}`: "stream_options: it needs stream",
	} {
		var r CompletionRequest
		if err := strictly([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		got, err := r.Request(limits)
		if said := got.Prompt; err != nil {
			if said = err.Message; !strings.HasPrefix(said, want) {
				t.Errorf("%s: %s, want %s", body, said, want)
			}
		} else if said != want || got.MaxTokens != rawTokens || got.LogProbs != (r.LogProbs != nil) {
			t.Errorf("%s: %+v, want %s", body, got, want)
		}
	}
}

func TestInputs(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":"a"}`:                      "a",
		`{"input":["a","b"]}`:                "a|b",
		`{"input":["a",2]}`:                  "input[1]: a string is needed, given a number",
		`{"input":[]}`:                       "input: it is empty",
		`{"input":null}`:                     "input is missing",
		`{"input":{}}`:                       "input: a string or an array of strings is needed, given an object",
		`{"input":[1,2,3,4,5,6,7]}`:          "input: token numbers are not taken",
		`{"input":[[1,2],[3]]}`:              "input: token numbers are not taken",
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
		list, err := r.Texts(limits)
		got := strings.Join(list, "|")
		if err != nil {
			got = err.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	dim := 3
	r := EmbeddingRequest{Dimensions: &dim, EncodingFormat: "hex", InputType: "other"}
	if r.CheckDimensions(3) != nil || r.CheckDimensions(4) == nil {
		t.Error("dimensions: 3 of 3 are refused, or 3 of 4 are not")
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
		`{"query":"q","documents":["a"],"top_n":0}`:               "top_n: 0 is less than 1",
		`{"query":"q","documents":["a"],"rank_fields":["title"]}`: "rank_fields[0]",
		`{"query":"q","documents":["a","b","c","d","e"]}`:         "documents: 5 documents, at most 4",
	} {
		var r RerankRequest
		if err := strictly([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		list, err := r.Texts(limits)
		got := strings.Join(list, "|")
		if err != nil {
			got = err.Message
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// TestAppendEmbeddings compares the answer that is written by hand with what encoding/json reads and writes.
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
	if d := cmp.Diff([]int{0, 2, 3, 3}, raw.TextOffset); d != "" {
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
