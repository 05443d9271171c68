package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/serve/openai"
)

// ollamaOptions are the options of a request in Ollama's API. Those without effect concern the memory of Ollama's own
// processes.
type ollamaOptions struct {
	NumPredict       *int            `json:"num_predict" bounds:"-2,2147483647"`
	Temperature      *float64        `json:"temperature" bounds:"0,2"`
	TopP             *float64        `json:"top_p" bounds:"0,1"`
	TopK             *int            `json:"top_k" bounds:"-1,2147483647"`
	MinP             *float64        `json:"min_p" bounds:"0,1"`
	RepeatPenalty    *float64        `json:"repeat_penalty" bounds:"0,100"`
	PresencePenalty  *float64        `json:"presence_penalty" bounds:"-2,2"`
	FrequencyPenalty *float64        `json:"frequency_penalty" bounds:"-2,2"`
	Seed             *int64          `json:"seed" bounds:"-9223372036854775808,9223372036854775807"`
	Stop             json.RawMessage `json:"stop"`

	NumCtx      json.RawMessage `json:"num_ctx"`
	NumKeep     json.RawMessage `json:"num_keep"`
	NumBatch    json.RawMessage `json:"num_batch"`
	NumGPU      json.RawMessage `json:"num_gpu"`
	MainGPU     json.RawMessage `json:"main_gpu"`
	NumThread   json.RawMessage `json:"num_thread"`
	UseMmap     json.RawMessage `json:"use_mmap"`
	NUMA        json.RawMessage `json:"numa"`
	TypicalP    json.RawMessage `json:"typical_p"`
	RepeatLastN json.RawMessage `json:"repeat_last_n"`
}

// ollamaCommon are the fields that chat and generate share.
type ollamaCommon struct {
	Model   string          `json:"model"`
	Stream  *bool           `json:"stream"`
	Format  json.RawMessage `json:"format"` // "json" or a schema
	Options *ollamaOptions  `json:"options"`
	Think   json.RawMessage `json:"think"` // a boolean or an effort
	Sluice  json.RawMessage `json:"sluice"`

	KeepAlive json.RawMessage `json:"keep_alive"` // without effect: models stay loaded
}

// ollamaMessage is one turn.
type ollamaMessage struct {
	Role      string           `json:"role"`
	Content   string           `json:"content"`
	Thinking  json.RawMessage  `json:"thinking"` // without effect: earlier turns' thinking is not repeated
	Images    []string         `json:"images"`
	ToolCalls []ollamaToolCall `json:"tool_calls"`
	ToolName  string           `json:"tool_name"`
	ToolID    string           `json:"tool_call_id"`
}

// ollamaToolCall is a tool call, whose arguments are an object.
type ollamaToolCall struct {
	ID       string `json:"id,omitempty"`
	Function struct {
		Index     json.RawMessage `json:"index,omitempty"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// ollamaChatRequest is the body of POST /api/chat.
type ollamaChatRequest struct {
	ollamaCommon
	Messages []ollamaMessage `json:"messages"`
	Tools    []openai.Tool   `json:"tools"`
}

// ollamaGenerateRequest is the body of POST /api/generate.
type ollamaGenerateRequest struct {
	ollamaCommon
	Prompt   string          `json:"prompt"`
	System   string          `json:"system"`
	Suffix   string          `json:"suffix"`
	Template string          `json:"template"`
	Raw      bool            `json:"raw"`
	Images   []string        `json:"images"`
	Context  json.RawMessage `json:"context"`
}

// ollamaAnswer is a line of an answer; the last one has the counts.
type ollamaAnswer struct {
	Model    string      `json:"model"`
	Created  time.Time   `json:"created_at"`
	Message  *ollamaSaid `json:"message,omitempty"`  // of chat
	Response *string     `json:"response,omitempty"` // of generate
	Thinking string      `json:"thinking,omitempty"` // of generate
	Done     bool        `json:"done"`
	Reason   string      `json:"done_reason,omitempty"`
	Sluice   *ragAnswer  `json:"sluice,omitempty"` // of an answer from a knowledge base
	ollamaUsage
}

// ollamaUsage are counts and nanoseconds.
type ollamaUsage struct {
	Total       int64 `json:"total_duration,omitempty"`
	Load        int64 `json:"load_duration,omitempty"`
	PromptCount int   `json:"prompt_eval_count,omitempty"`
	PromptTime  int64 `json:"prompt_eval_duration,omitempty"`
	AnswerCount int   `json:"eval_count,omitempty"`
	AnswerTime  int64 `json:"eval_duration,omitempty"`
}

// ollamaSaid is the assistant's message.
type ollamaSaid struct {
	Role      string           `json:"role"`
	Content   string           `json:"content"`
	Thinking  string           `json:"thinking,omitempty"`
	ToolCalls []ollamaToolCall `json:"tool_calls,omitempty"`
}

// chat returns the fields that both requests share as a chat request of OpenAI's API.
func (c *ollamaCommon) chat() (q openai.ChatRequest, err error) {
	q.Model, q.Sluice = strings.TrimSuffix(c.Model, ":latest"), c.Sluice
	switch text := strings.TrimSpace(string(c.Format)); {
	case text == "" || text == "null" || text == `""`:
	case text == `"json"`:
		q.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
	case text[0] == '{':
		q.ResponseFormat = json.RawMessage(`{"type":"json_schema","json_schema":{"name":"format","schema":` + text +
			`}}`)
	default:
		return q, bad("format", `format is "json" or a schema, given %s`, shortened(text))
	}
	switch text := strings.TrimSpace(string(c.Think)); text {
	case "", "null":
	case "true":
		q.TemplateKwargs = json.RawMessage(`{"enable_thinking":true}`)
	case "false":
		q.TemplateKwargs = json.RawMessage(`{"enable_thinking":false}`)
	default:
		q.ReasoningEffort = c.Think
	}
	if o := c.Options; o != nil {
		q.Temperature, q.TopP, q.TopK, q.MinP, q.RepeatPenalty = o.Temperature, o.TopP, o.TopK, o.MinP, o.RepeatPenalty
		q.PresencePenalty, q.FrequencyPenalty, q.Seed, q.Stop = o.PresencePenalty, o.FrequencyPenalty, o.Seed, o.Stop
		if n := o.NumPredict; n != nil && *n > 0 { // -1 and -2 are "as many as there are"
			q.MaxTokens = n
		}
	}
	return q, nil
}

// turns converts messages. Ollama's tool calls had no ids for long: a result belongs to the first call of its tool that
// has none.
func (q *ollamaChatRequest) turns() ([]openai.Message, error) {
	var out []openai.Message
	open := map[string][]string{} // ids of calls without a result, by tool
	for i, m := range q.Messages {
		if len(m.Images) > 0 {
			return nil, bad(fmt.Sprintf("messages[%d].images", i), "pictures are not read")
		}
		turn := openai.Message{Role: m.Role, Content: quoted(m.Content)}
		for j, c := range m.ToolCalls {
			call := openai.ToolCall{ID: cmp.Or(c.ID, fmt.Sprintf("call_%d_%d", i, j)), Type: "function"}
			call.Function.Name, call.Function.Arguments = c.Function.Name, string(c.Function.Arguments)
			turn.ToolCalls = append(turn.ToolCalls, call)
			open[c.Function.Name] = append(open[c.Function.Name], call.ID)
		}
		if m.Role == "tool" {
			turn.ToolCallID = m.ToolID
			if ids := open[m.ToolName]; turn.ToolCallID == "" && len(ids) > 0 {
				turn.ToolCallID, open[m.ToolName] = ids[0], ids[1:]
			}
			turn.ToolCallID = cmp.Or(turn.ToolCallID, fmt.Sprintf("call_%d", i))
		}
		out = append(out, turn)
	}
	return out, nil
}

func (s *Server) ollamaChat(w http.ResponseWriter, r *http.Request, in *ollamaChatRequest) error {
	q, err := in.chat()
	if err != nil {
		return err
	}
	if q.Messages, err = in.turns(); err != nil {
		return err
	}
	if q.Tools = in.Tools; len(in.Messages) == 0 { // Ollama's clients load a model so
		return writeJSON(w, http.StatusOK, ollamaAnswer{Model: in.Model, Created: time.Now().UTC(), Done: true,
			Reason: "load", Message: &ollamaSaid{Role: "assistant"}})
	}
	return s.ollamaSpeak(w, r, in.ollamaCommon, &q, func(text, thought string, calls []ollamaToolCall) ollamaAnswer {
		return ollamaAnswer{Message: &ollamaSaid{Role: "assistant", Content: text, Thinking: thought, ToolCalls: calls}}
	})
}

func (s *Server) ollamaGenerate(w http.ResponseWriter, r *http.Request, in *ollamaGenerateRequest) error {
	for name, given := range map[string]bool{"suffix": in.Suffix != "", "template": in.Template != "", "raw": in.Raw,
		"images": len(in.Images) > 0} {
		if given {
			return refused(name, "POST /v1/completions completes a text as it stands")
		}
	}
	q, err := in.chat()
	if err != nil {
		return err
	}
	if in.Prompt == "" {
		return writeJSON(w, http.StatusOK, ollamaAnswer{Model: in.Model, Created: time.Now().UTC(), Done: true,
			Reason: "load", Response: new("")})
	}
	if in.System != "" {
		q.Messages = append(q.Messages, openai.Message{Role: "system", Content: quoted(in.System)})
	}
	q.Messages = append(q.Messages, openai.Message{Role: "user", Content: quoted(in.Prompt)})
	return s.ollamaSpeak(w, r, in.ollamaCommon, &q, func(text, thought string, _ []ollamaToolCall) ollamaAnswer {
		return ollamaAnswer{Response: &text, Thinking: thought}
	})
}

// ollamaSpeak answers a request as one object, or as lines of them.
func (s *Server) ollamaSpeak(w http.ResponseWriter, r *http.Request, c ollamaCommon, q *openai.ChatRequest,
	of func(text, thought string, calls []ollamaToolCall) ollamaAnswer) error {
	streams := c.Stream == nil || *c.Stream
	out := &stream{w: w, kind: "application/x-ndjson"}
	line := func(a ollamaAnswer) ollamaAnswer {
		a.Model, a.Created = cmp.Or(c.Model, q.Model, ragModel), time.Now().UTC()
		return a
	}
	var to listener
	if streams {
		to.text = func(piece string) error { return out.line(line(of(piece, "", nil))) }
		to.thought = func(piece string) error { return out.line(line(of("", piece, nil))) }
	}
	a, err := s.speak(r, q, to)
	if err != nil {
		if out.broken(r) {
			_ = out.line(asRequestError(err).finish().body(r.URL.Path)) // the client has left
		}
		return err
	}
	var calls []ollamaToolCall
	for i, call := range a.calls {
		var one ollamaToolCall
		one.ID, one.Function.Name = call.ID, call.Name
		one.Function.Index = json.RawMessage(strconv.Itoa(i))
		one.Function.Arguments = json.RawMessage(call.Arguments)
		calls = append(calls, one)
	}
	last := line(of(a.text, a.thought, calls))
	if streams {
		last = line(of("", "", calls))
	}
	last.Done, last.Sluice = true, a.rag
	if last.Reason = a.finish; last.Reason == "tool_calls" {
		last.Reason = "stop"
	}
	last.ollamaUsage = ollamaUsage{Total: int64(a.took), PromptCount: a.usage.PromptTokens,
		AnswerCount: a.usage.CompletionTokens, AnswerTime: int64(a.took)}
	if streams {
		return out.line(last)
	}
	return writeJSON(w, http.StatusOK, last)
}

func (s *Server) ollamaVersion(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"version": cmp.Or(s.cfg.Version, "0")})
}

// ollamaModel is a model as Ollama lists it.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified time.Time     `json:"modified_at"`
	Size     int64         `json:"size"`
	Digest   string        `json:"digest"`
	Details  ollamaDetails `json:"details"`
}

type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

// ollamaModels is the response of GET /api/tags.
type ollamaModels struct {
	Models []ollamaModel `json:"models"`
}

func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) error {
	all, err := s.listModels(r.Context())
	if err != nil {
		return err
	}
	out := ollamaModels{Models: []ollamaModel{}}
	for _, m := range all {
		if m.Kind != "rag" && m.Kind != "chat" && m.Kind != "embedding" {
			continue // Ollama has no other kinds
		}
		out.Models = append(out.Models, ollamaModel{Name: m.ID, Model: m.ID, Modified: s.started.UTC(),
			Details: detailsOf(m)})
	}
	return writeJSON(w, http.StatusOK, out)
}

func detailsOf(m openai.Model) ollamaDetails {
	return ollamaDetails{Format: "gguf", Family: m.OwnedBy, Families: []string{m.OwnedBy}}
}

// ollamaShown is the response of POST /api/show.
type ollamaShown struct {
	Details      ollamaDetails  `json:"details"`
	Info         map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	Modified     time.Time      `json:"modified_at"`
}

func (s *Server) ollamaShow(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Model   string          `json:"model"`
		Name    string          `json:"name"`    // its former name
		Verbose json.RawMessage `json:"verbose"` // without effect
	}
	if err := decode(r, &in); err != nil {
		return err
	}
	m, err := s.listedModel(r.Context(), strings.TrimSuffix(cmp.Or(in.Model, in.Name), ":latest"))
	if err != nil {
		return err
	}
	out := ollamaShown{Details: detailsOf(m), Info: map[string]any{"general.architecture": m.OwnedBy},
		Capabilities: []string{"completion"}, Modified: s.started.UTC()}
	switch m.Kind {
	case "embedding":
		out.Capabilities = []string{"embedding"}
	case "chat":
		out.Capabilities = append(out.Capabilities, "tools")
	}
	return writeJSON(w, http.StatusOK, out)
}

// ollamaEmbedRequest is the body of POST /api/embed.
type ollamaEmbedRequest struct {
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Truncate   *bool           `json:"truncate"`
	Dimensions *int            `json:"dimensions" bounds:"1,65536"`

	Options   json.RawMessage `json:"options"`    // without effect
	KeepAlive json.RawMessage `json:"keep_alive"` // without effect
}

// ollamaEmbedded is the response of POST /api/embed.
type ollamaEmbedded struct {
	Model      string      `json:"model"`
	Embeddings [][]float32 `json:"embeddings"`
	Total      int64       `json:"total_duration"`
	Load       int64       `json:"load_duration"`
	Prompt     int         `json:"prompt_eval_count"`
}

// ollamaEmbed answers POST /api/embed by what POST /v1/embeddings answers.
func (s *Server) ollamaEmbed(w http.ResponseWriter, r *http.Request) error {
	started := time.Now()
	var in ollamaEmbedRequest
	if err := decode(r, &in); err != nil {
		return err
	}
	v, n, err := s.embedded(r.Context(), &openai.EmbeddingRequest{Model: strings.TrimSuffix(in.Model, ":latest"),
		Input: in.Input, Truncate: in.Truncate, Dimensions: in.Dimensions})
	if err != nil {
		return err
	}
	out := ollamaEmbedded{Model: in.Model, Embeddings: make([][]float32, n), Prompt: v.Tokens}
	for i := range n {
		out.Embeddings[i] = v.Data[i*v.Dim : (i+1)*v.Dim]
	}
	out.Total = int64(time.Since(started))
	return writeJSON(w, http.StatusOK, out)
}

// ollamaError is the body of an error in Ollama's API.
type ollamaError struct {
	Error string `json:"error"`
}
