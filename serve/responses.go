package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/rag/prompt"
	"github.com/sluice-rag/sluice/serve/openai"
)

// responseBody is the answer of POST /v1/responses.
type responseBody struct {
	ID          string          `json:"id"`
	Object      string          `json:"object"` // "response"
	Created     float64         `json:"created_at"`
	Status      string          `json:"status"` // in_progress, completed or incomplete
	Error       any             `json:"error"`  // null: errors have a status of their own
	Incomplete  *incomplete     `json:"incomplete_details"`
	Model       string          `json:"model"`
	Output      []outputItem    `json:"output"`
	Tools       json.RawMessage `json:"tools"`
	ToolChoice  json.RawMessage `json:"tool_choice"`
	Parallel    bool            `json:"parallel_tool_calls"`
	Usage       *responseUsage  `json:"usage"`
	Store       bool            `json:"store"` // false: nothing is kept
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	Metadata    json.RawMessage `json:"metadata"`
	Sluice      *ragAnswer      `json:"sluice,omitempty"` // of an answer from a knowledge base
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input        int                  `json:"input_tokens"`
	InputDetails openai.PromptDetails `json:"input_tokens_details"`
	Output       int                  `json:"output_tokens"`
	Details      struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

// outputItem is a message, a call, or thinking.
type outputItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status,omitempty"`
	Role      string          `json:"role,omitempty"`
	Content   []outputContent `json:"content,omitzero"`
	Summary   []outputContent `json:"summary,omitzero"` // of thinking; empty, because Content has all of it
	CallID    string          `json:"call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
	Queries   []string        `json:"queries,omitempty"`
	Results   []searchResult  `json:"results,omitempty"`
}

type outputContent struct {
	Type        string             `json:"type"`
	Text        string             `json:"text"`
	Refusal     string             `json:"refusal,omitempty"`
	Annotations []outputAnnotation `json:"annotations,omitzero"`
	LogProbs    []any              `json:"logprobs,omitzero"`
}

// outputAnnotation is a place of the text that cites a source: a document, or a page of the web.
type outputAnnotation struct {
	Type     string `json:"type"` // file_citation or url_citation
	FileID   string `json:"file_id,omitempty"`
	Filename string `json:"filename,omitempty"`
	Index    *int   `json:"index,omitempty"`
	Start    *int   `json:"start_index,omitempty"`
	End      *int   `json:"end_index,omitempty"`
	URL      string `json:"url,omitempty"`
	Title    string `json:"title,omitempty"`
}

// searchResult is a passage that was found.
type searchResult struct {
	FileID     string         `json:"file_id"`
	Filename   string         `json:"filename"`
	Score      float64        `json:"score"`
	Text       string         `json:"text"`
	Attributes map[string]any `json:"attributes"`
}

// annotationsOf returns the places of an answer that cite sources.
func (a *spoken) annotationsOf(r *http.Request) []outputAnnotation {
	out := []outputAnnotation{}
	if a.base == nil {
		return out
	}
	marks := prompt.Marks(a.text, a.citations)
	for i, m := range annotations(r, a.base, a.text, a.citations) {
		at := m.URLCitation
		if c := marks[i].Citation; c.Web == nil {
			out = append(out, outputAnnotation{Type: "file_citation", FileID: c.Document, Filename: titleOf(c),
				Index: &at.EndIndex})
			continue
		}
		out = append(out, outputAnnotation{Type: "url_citation", Start: &at.StartIndex, End: &at.EndIndex, URL: at.URL,
			Title: at.Title})
	}
	return out
}

// searched returns the item of a search in a knowledge base, with what it found if the request asks for that.
func (s *Server) searched(r *http.Request, b *base, in *responsesRequest, found []prompt.Citation) (outputItem, error) {
	item := outputItem{Type: "file_search_call", ID: newHead("fs", "").id, Status: "completed",
		Queries: []string{in.question()}}
	if !slices.Contains(in.Include, "file_search_call.results") || len(found) == 0 {
		return item, nil
	}
	texts := map[string]string{}
	var ids []string
	for _, c := range found {
		if c.Web == nil {
			ids = append(ids, c.ID)
		}
	}
	chunks, err := b.Documents().Chunks(r.Context(), ids)
	if err != nil {
		return item, err
	}
	for _, c := range chunks {
		texts[c.ID] = c.Text
	}
	for _, c := range found {
		item.Results = append(item.Results, searchResult{FileID: c.Document, Filename: titleOf(c), Score: c.Score,
			Text: texts[c.ID], Attributes: map[string]any{"passage": c.ID, "number": c.Number}})
	}
	return item, nil
}

// responses answers POST /v1/responses. Nothing is kept, so that each request has its whole conversation.
func (s *Server) responses(w http.ResponseWriter, r *http.Request, in *responsesRequest) error {
	q, err := in.chat()
	if err != nil {
		return err
	}
	out := &responding{server: s, request: r, in: in, stream: &stream{w: w, kind: eventStream}}
	out.response = in.response(newHead("resp", in.Model))
	to := listener{begin: out.begin, sources: out.found}
	if in.Stream {
		to.text, to.thought, to.refusal = out.text, out.thought, out.refusal
	}
	a, err := s.speak(r, q, to)
	if err == nil {
		err = out.end(&a)
	}
	if err != nil && out.stream.broken(r) {
		e := asRequestError(err).finish()
		out.send("error", map[string]any{"code": e.Code, "message": e.Message, "param": e.Param})
	}
	if err != nil || in.Stream {
		return err
	}
	return writeJSON(w, http.StatusOK, out.response)
}

// response returns the response before its output.
func (q *responsesRequest) response(h head) responseBody {
	out := responseBody{ID: h.id, Object: "response", Created: float64(time.Now().Unix()), Status: "in_progress",
		Model: q.Model, Output: []outputItem{}, Tools: q.Tools, ToolChoice: q.ToolChoice, Parallel: true,
		Temperature: q.Temperature, TopP: q.TopP, Metadata: q.Metadata}
	if !given(out.Tools) {
		out.Tools = json.RawMessage("[]")
	}
	if !given(out.ToolChoice) {
		out.ToolChoice = json.RawMessage(`"auto"`)
	}
	if !given(out.Metadata) {
		out.Metadata = json.RawMessage("{}")
	}
	if q.Parallel != nil {
		out.Parallel = *q.Parallel
	}
	return out
}

// responding writes a response, as events if the request asks for a stream. After an event that could not be sent it
// sends no other.
type responding struct {
	server  *Server
	request *http.Request
	in      *responsesRequest
	stream  *stream

	response responseBody
	number   int         // of the next event
	open     *outputItem // the item that is being written, nil for none
	err      error       // of the first event that could not be sent
}

func (o *responding) send(name string, fields map[string]any) {
	if !o.in.Stream || o.err != nil {
		return
	}
	fields["type"], fields["sequence_number"] = name, o.number
	o.number++
	o.err = o.stream.event(name, fields)
}

// of sends an event of the open item.
func (o *responding) of(name string, fields map[string]any) {
	fields["output_index"], fields["item_id"] = len(o.response.Output), o.open.ID
	o.send(name, fields)
}

func (o *responding) begin(model string) error {
	o.response.Model = cmp.Or(o.in.Model, model)
	o.send("response.created", map[string]any{"response": o.response})
	o.send("response.in_progress", map[string]any{"response": o.response})
	return o.err
}

// found adds the search that the answer rests on.
func (o *responding) found(b *base, list []prompt.Citation) error {
	item, err := o.server.searched(o.request, b, o.in, list)
	if err != nil {
		return err
	}
	begun := item
	begun.Status, begun.Results = "in_progress", nil
	o.add(begun)
	for _, step := range []string{"in_progress", "searching", "completed"} {
		o.of("response.file_search_call."+step, map[string]any{})
	}
	o.done(item)
	return o.err
}

func (o *responding) add(item outputItem) {
	o.open = &item
	o.send("response.output_item.added", map[string]any{"output_index": len(o.response.Output), "item": item})
}

func (o *responding) done(item outputItem) {
	o.send("response.output_item.done", map[string]any{"output_index": len(o.response.Output), "item": item})
	o.response.Output, o.open = append(o.response.Output, item), nil
}

func (o *responding) thought(piece string) error {
	if o.open == nil {
		o.add(outputItem{Type: "reasoning", ID: newHead("rs", "").id, Summary: []outputContent{},
			Content: []outputContent{}})
	}
	o.of("response.reasoning_text.delta", map[string]any{"content_index": 0, "delta": piece})
	return o.err
}

// endThought ends the item of thinking, if it is open.
func (o *responding) endThought(text string) {
	if o.open == nil || o.open.Type != "reasoning" {
		return
	}
	o.of("response.reasoning_text.done", map[string]any{"content_index": 0, "text": text})
	item := *o.open
	item.Content = []outputContent{{Type: "reasoning_text", Text: text}}
	o.done(item)
}

func (o *responding) text(piece string) error {
	if o.open == nil || o.open.Type != "message" {
		o.endThought("") // the whole of it comes with the completed response
		o.beginMessage(outputContent{Type: "output_text"})
	}
	o.of("response.output_text.delta", map[string]any{"content_index": 0, "delta": piece, "logprobs": []any{}})
	return o.err
}

func (o *responding) refusal(text string) error {
	o.endThought("")
	o.beginMessage(outputContent{Type: "refusal"})
	o.of("response.refusal.delta", map[string]any{"content_index": 0, "delta": text})
	return o.err
}

// beginMessage begins a message with an empty part.
func (o *responding) beginMessage(part outputContent) {
	part.Annotations, part.LogProbs = []outputAnnotation{}, []any{}
	o.add(outputItem{Type: "message", ID: newHead("msg", "").id, Status: "in_progress", Role: "assistant",
		Content: []outputContent{}})
	o.of("response.content_part.added", map[string]any{"content_index": 0, "part": part})
}

func (o *responding) end(a *spoken) error {
	thought := []outputContent{{Type: "reasoning_text", Text: a.thought}}
	if a.thought != "" && !o.in.Stream {
		o.response.Output = append(o.response.Output, outputItem{Type: "reasoning", ID: newHead("rs", "").id,
			Summary: []outputContent{}, Content: thought})
	}
	o.endThought(a.thought)
	if i := slices.IndexFunc(o.response.Output, func(x outputItem) bool { return x.Type == "reasoning" }); i >= 0 {
		o.response.Output[i].Content = thought
	}
	if a.text != "" || len(a.calls) == 0 {
		o.endMessage(a)
	}
	for _, c := range a.calls {
		o.call(c.ID, c.Name, c.Arguments)
	}
	o.response.Status, o.response.Sluice = "completed", a.rag
	if a.finish == "length" {
		o.response.Status, o.response.Incomplete = "incomplete", &incomplete{"max_output_tokens"}
	}
	u := &responseUsage{Input: a.usage.PromptTokens, Output: a.usage.CompletionTokens, Total: a.usage.TotalTokens}
	if d := a.usage.PromptDetails; d != nil {
		u.InputDetails = *d
	}
	if d := a.usage.CompletionDetails; d != nil {
		u.Details.Reasoning = d.ReasoningTokens
	}
	o.response.Usage = u
	o.send("response."+o.response.Status, map[string]any{"response": o.response})
	return o.err
}

// endMessage ends the message, with its citations.
func (o *responding) endMessage(a *spoken) {
	part := outputContent{Type: "output_text", Text: a.text, Annotations: a.annotationsOf(o.request), LogProbs: []any{}}
	name, fields := "response.output_text.done", map[string]any{"content_index": 0, "text": a.text, "logprobs": []any{}}
	if a.refused {
		part = outputContent{Type: "refusal", Refusal: a.text}
		name, fields = "response.refusal.done", map[string]any{"content_index": 0, "refusal": a.text}
	}
	if o.open == nil {
		o.beginMessage(outputContent{Type: part.Type})
	}
	for i, x := range part.Annotations {
		o.of("response.output_text.annotation.added", map[string]any{"content_index": 0, "annotation_index": i,
			"annotation": x})
	}
	o.of(name, fields)
	o.of("response.content_part.done", map[string]any{"content_index": 0, "part": part})
	item := *o.open
	item.Status, item.Content = "completed", []outputContent{part}
	o.done(item)
}

func (o *responding) call(id, name, arguments string) {
	item := outputItem{Type: "function_call", ID: newHead("fc", "").id, CallID: id, Name: name, Status: "in_progress",
		Arguments: new("")}
	o.add(item)
	o.of("response.function_call_arguments.delta", map[string]any{"delta": arguments})
	o.of("response.function_call_arguments.done", map[string]any{"arguments": arguments, "name": name})
	item.Arguments, item.Status = &arguments, "completed"
	o.done(item)
}

// question returns the last text of the user.
func (q *responsesRequest) question() string {
	if text := strings.TrimSpace(string(q.Input)); text != "" && text[0] == '"' {
		var s string
		_ = json.Unmarshal(q.Input, &s) // chat has read it
		return s
	}
	items, _ := q.items() // likewise
	for _, x := range slices.Backward(items) {
		if x.Role == "user" {
			text, _ := x.said("")
			return text
		}
	}
	return ""
}

// refuse returns an error for what this API has and this server has not.
func (q *responsesRequest) refuse() error {
	for _, x := range []struct {
		param string
		raw   json.RawMessage
		hint  string
	}{
		{"previous_response_id", q.Previous, "nothing is kept: send the whole conversation as input"},
		{"conversation", q.Conversation, "nothing is kept: send the whole conversation as input"},
		{"prompt", q.Prompt, "send input and instructions"},
	} {
		if given(x.raw) {
			return refused(x.param, x.hint)
		}
	}
	if q.Background != nil && *q.Background {
		return refused("background", "nothing is kept: send stream")
	}
	for i, name := range q.Include {
		if name != "file_search_call.results" && name != "reasoning.encrypted_content" {
			return notServed(fmt.Sprintf("include[%d]", i), name)
		}
	}
	return nil
}
