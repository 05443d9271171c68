package page_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/embed/identity"
	"github.com/sluice-rag/sluice/engine"
	"github.com/sluice-rag/sluice/kernels"
	"github.com/sluice-rag/sluice/rag/gate"
	"github.com/sluice-rag/sluice/serve/page"
)

// standIn answers the page's requests as the server does, with a real calibration of made-up vectors.
type standIn struct {
	t   testing.TB
	url string

	mu          sync.Mutex
	calibration *gate.Calibration
	documents   []map[string]any
	uploads     map[string]string // name → content
	key         string            // key that requests need; "": none
	hold        chan struct{}     // an answer waits for it before its last piece; nil: no wait
	unanswered  bool              // it answers "I don't know", with the nearest passages
	holdFirst   bool              // it waits before the first word instead
	left        chan struct{}     // receives when a client leaves in mid-answer
	bodies      []map[string]any  // of chat completions
	passage     string
	answer      string
	stores      []string
}

func newStandIn(t testing.TB) *standIn {
	t.Helper()
	s := &standIn{t: t, calibration: madeUp(t), uploads: map[string]string{}, left: make(chan struct{}, 8),
		stores: []string{"handbook"},
		passage: "The keeper lights the lamp an hour before sunset. In fog the horn sounds every ninety seconds. " +
			"Entries go into the log book at once.",
		answer: "In fog the horn sounds every ninety seconds [1], and each entry goes into the log book at once [2]."}
	for i := range 120 {
		topic := []string{"lighthouse", "harbour", "weather"}[i%3]
		s.documents = append(s.documents, map[string]any{"id": fmt.Sprintf("handbook/%s/chapter-%03d.md", topic, i+1),
			"title": fmt.Sprintf("Chapter %d: %s duties", i+1, topic), "topic": topic, "chunks": 3 + i%9, "tokens": 900,
			"source": fmt.Sprintf("handbook/%s/chapter-%03d.md", topic, i+1), "added": "2026-11-20T10:00:00Z"})
	}
	mux := http.NewServeMux()
	mux.Handle("/", page.Handler())
	for pattern, handler := range map[string]func(http.ResponseWriter, *http.Request) any{
		"GET /info":                   s.info,
		"POST /v1/chat/completions":   s.chat,
		"GET /v1/calibration":         s.show,
		"POST /v1/calibration/policy": s.policy,
		"POST /v1/gate":               s.gate,
		"GET /v1/documents":           s.list,
		"POST /v1/documents":          s.upload,
		"GET /v1/documents/{id}":      s.document,
		"DELETE /v1/documents/{id}":   s.remove,
		"GET /v1/chunks/{id}":         s.chunk,
		"GET /v1/jobs": func(http.ResponseWriter,
			*http.Request) any {
			return map[string]any{"jobs": []any{}}
		},
		"GET /v1/jobs/{id}/events": s.events,
		"POST /v1/feedback":        func(http.ResponseWriter, *http.Request) any { return map[string]any{} },
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.key != "" && r.Header.Get("Authorization") != "Bearer "+s.key {
				reply(w, http.StatusUnauthorized,
					map[string]any{"error": map[string]string{"message": "an API key is needed"}})
				return
			}
			if v := handler(w, r); v != nil {
				reply(w, http.StatusOK, v)
			}
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/"
	return s
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// madeUp calibrates 240 contexts in six topics with three questions each.
func madeUp(t testing.TB) *gate.Calibration {
	t.Helper()
	const contexts, each, topics, dim = 240, 3, 6, 48
	rng := rand.New(rand.NewPCG(7, 0))
	vector := func(from []float32, near float64) []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
			if from != nil {
				v[i] = float32(near)*from[i] + float32(1-near)*v[i]
			}
		}
		return v
	}
	var centres, all [][]float32
	for range topics {
		centres = append(centres, vector(nil, 0))
	}
	in := gate.Input{Contexts: engine.Vectors{Rows: contexts, Dim: dim}, Queries: engine.Vectors{Rows: contexts * each,
		Dim: dim}, Topics: true, Holdout: .25, Resamples: 200, Seed: 1, Metric: kernels.Cosine,
		Encoder: identity.Encoder{Name: "all-MiniLM-L6-v2", Digest: "sha256:1", TokenizerDigest: "sha256:2",
			Dim: dim},
		Provenance: gate.Provenance{Kind: "generated", Model: "SmolLM2-135M-Instruct", PerContext: each,
			Sampled: contexts}}
	for i := range contexts {
		all = append(all, vector(centres[i%topics], .45))
		in.Contexts.Data = append(in.Contexts.Data, all[i]...)
		in.ContextIDs = append(in.ContextIDs, fmt.Sprint(i))
		in.TextDigests = append(in.TextDigests, fmt.Sprintf("%064x", i))
		in.Groups = append(in.Groups, int32(i%topics))
	}
	for i := range contexts * each {
		in.Queries.Data = append(in.Queries.Data, vector(all[i/each], .52+.1*rng.Float64())...)
		in.Owner = append(in.Owner, int32(i/each))
	}
	e, err := engine.New(engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := gate.Calibrate(t.Context(), e, in)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *standIn) info(http.ResponseWriter, *http.Request) any {
	stores := []any{}
	for _, name := range s.stores {
		stores = append(stores, map[string]any{"name": name, "state": "ready", "documents": 120, "chunks": 840,
			"calibration": map[string]any{"name": "default", "policy": s.calibration.Policy,
				"cutoff": s.calibration.Cutoff,
				"stale":  .012}})
	}
	return map[string]any{"version": "0.1.0", "uptime_seconds": 4211, "feedback": true,
		"flows": []string{"ask", "graph"}, "stores": stores,
		"encoder": map[string]any{"name": "all-MiniLM-L6-v2", "dim": 384, "max_tokens": 256},
		"model":   map[string]any{"name": "SmolLM2-135M-Instruct", "parameters": 134515008, "context_size": 4096},
		"engine":  map[string]any{"device": "cpu", "kernel": "avx512vnni", "threads": 8},
		"limits":  map[string]any{"upload_bytes": 67108864, "requests": 256}}
}

func (s *standIn) decision(score float64) gate.Decision {
	c := s.calibration
	return gate.Decision{Retrieve: score > c.Cutoff, Score: score, ScoredBy: c.Score, Cutoff: c.Cutoff, ContextID: "1",
		Policy: c.Policy, PolicyValue: c.PolicyValue, Threshold: c.Threshold, Percentile: 41, LogID: "0123"}
}

// chat streams the answer word by word.
func (s *standIn) chat(w http.ResponseWriter, r *http.Request) any {
	var body map[string]any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"error": map[string]string{"message": err.Error()}})
		return nil
	}
	s.mu.Lock()
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta map[string]any, finish any, more any) {
		chunk := map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"],
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
		if more != nil {
			chunk["sluice"] = more
		}
		text, _ := json.Marshal(chunk)
		fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	}
	second := "Entries go into the log book at once."
	at, answer := strings.Index(s.passage, second), strings.Index(second, "log book")
	citations := []any{
		map[string]any{"number": 1, "id": "handbook/fog.md#3", "document": "handbook/fog.md",
			"source": "handbook/fog.md", "anchor": "page=3",
			"heading": "Fog › Signals", "score": .71, "cited": true, "sentence": map[string]any{
				"text": "In fog the horn sounds every ninety seconds.", "start": 0, "end": 0}},
		map[string]any{"number": 2, "id": "handbook/log.md#1", "document": "handbook/log.md",
			"source": "handbook/log.md",
			"copies": []any{map[string]any{"id": "old/log.md#3", "document": "old/log.md", "source": "old/log.md",
				"start": 7, "end": 90}},
			"heading": "The log book", "score": .66, "cited": true, "sentence": map[string]any{"text": second,
				"start": at, "end": at + len(second),
				"answer": map[string]any{"start": at + answer, "end": at + answer + len("log book")}}},
		map[string]any{"number": 3, "id": "handbook/lamp.md#2", "document": "handbook/lamp.md", "cited": false,
			"source": "handbook/lamp.md", "heading": "The lamp", "score": .51},
	}
	if s.unanswered {
		send(map[string]any{"reasoning_content": "The log says <b>nothing</b> "}, nil, nil)
		send(map[string]any{"reasoning_content": "of it."}, nil, nil)
		send(map[string]any{"role": "assistant", "content": "I don't know."}, "stop",
			map[string]any{"citations": []any{}, "retrieved": false, "nearest": citations,
				"notice": "no answer held after 3 retries"})
		fmt.Fprint(w, "data: [DONE]\n\n")
		return nil
	}
	send(map[string]any{"role": "assistant", "content": ""}, nil,
		map[string]any{"citations": citations, "retrieved": true})
	if o, ok := body["sluice"].(map[string]any); ok && o["steps"] == true {
		send(map[string]any{}, nil, map[string]any{"step": map[string]any{"node": "grade documents", "verdict": "no"}})
	}
	words := strings.SplitAfter(s.answer, " ")
	at = len(words) / 2
	if s.holdFirst {
		at = 0
	}
	for i, word := range words {
		if s.hold != nil && i == at {
			select {
			case <-s.hold:
			case <-r.Context().Done():
				s.left <- struct{}{}
				return nil
			}
		}
		send(map[string]any{"content": word}, nil, nil)
	}
	score := s.calibration.Cutoff + .2
	steps := []any{
		map[string]any{"node": "gate", "verdict": "open", "milliseconds": 3.1},
		map[string]any{"node": "retrieve", "verdict": "4 passages", "milliseconds": 1.4},
		map[string]any{"node": "grade documents", "verdict": "no", "tokens": 12, "milliseconds": 41.0},
		map[string]any{"node": "rewrite", "verdict": "rewritten", "tokens": 25, "milliseconds": 88.3},
		map[string]any{"node": "retrieve", "verdict": "4 passages", "milliseconds": 1.2},
		map[string]any{"node": "grade documents", "verdict": "yes", "tokens": 12, "milliseconds": 39.7},
		map[string]any{"node": "answer", "verdict": "answered", "tokens": 41, "milliseconds": 201.9},
	}
	send(map[string]any{}, "stop", map[string]any{"citations": citations, "retrieved": true, "trace": map[string]any{
		"mode": "context", "gate": s.decision(score), "steps": steps, "model": "SmolLM2-135M-Instruct",
		"ms": map[string]any{"embed": 2.9, "gate": .2, "total": 380.4}}})
	fmt.Fprint(w, "data: [DONE]\n\n")
	return nil
}

func (s *standIn) show(http.ResponseWriter, *http.Request) any {
	return map[string]any{"name": "default", "in_force": "default", "stale": .012, "gone": 0,
		"staleness": gate.Staleness(.012, 0), "calibration": s.calibration, "effects": s.calibration.Effects()}
}

func (s *standIn) policy(w http.ResponseWriter, r *http.Request) any {
	var in struct {
		Policy, Score string
		Threshold     float64
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.t.Error(err)
	}
	c, err := s.calibration.WithPolicy(in.Policy, in.Score, in.Threshold)
	if err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"error": map[string]string{"message": err.Error()}})
		return nil
	}
	s.calibration = c
	return s.show(w, r)
}

func (s *standIn) gate(_ http.ResponseWriter, r *http.Request) any {
	var in struct{ Query string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	score := s.calibration.Cutoff + .01*float64(len(in.Query)%7-3)
	return map[string]any{"decisions": []any{s.decision(math.Round(score*1e6) / 1e6)}}
}

func (s *standIn) list(_ http.ResponseWriter, r *http.Request) any {
	q, topic := strings.ToLower(r.FormValue("q")), r.FormValue("topic")
	offset, _ := strconv.Atoi(r.FormValue("offset"))
	limit, _ := strconv.Atoi(r.FormValue("limit"))
	var found []map[string]any
	counts, chunks := map[string]int{}, 0
	for _, d := range s.documents {
		counts[fmt.Sprint(d["topic"])]++
		n, _ := d["chunks"].(int)
		chunks += n
		if (topic == "" || d["topic"] == topic) &&
			strings.Contains(strings.ToLower(fmt.Sprint(d["id"], d["title"])), q) {
			found = append(found, d)
		}
	}
	topics := []any{}
	for _, name := range []string{"harbour", "lighthouse", "weather"} {
		topics = append(topics, map[string]any{"topic": name, "documents": counts[name], "chunks": 5 * counts[name]})
	}
	shown := found[min(offset, len(found)):min(offset+limit, len(found))]
	return map[string]any{"documents": append([]map[string]any{}, shown...), "total": len(found), "topics": topics,
		"documents_total": len(s.documents), "chunks_total": chunks}
}

func (s *standIn) upload(w http.ResponseWriter, r *http.Request) any {
	parts, err := r.MultipartReader()
	if err != nil {
		s.t.Error(err)
		return map[string]any{}
	}
	var names []string
	for {
		part, err := parts.NextPart()
		if err != nil {
			break
		}
		content, _ := io.ReadAll(part)
		s.uploads[part.FileName()] = string(content)
		names = append(names, part.FileName())
		s.documents = append([]map[string]any{{"id": "uploads/" + part.FileName(), "title": part.FileName(),
			"topic":  "weather",
			"chunks": 2, "source": part.FileName(), "added": "2026-11-22T10:00:00Z"}}, s.documents...)
	}
	reply(w, http.StatusAccepted, map[string]any{"job": map[string]any{"id": "7", "kind": "ingest", "state": "queued",
		"names": names}})
	return nil
}

func (s *standIn) events(w http.ResponseWriter, _ *http.Request) any {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v map[string]any) {
		v["id"], v["kind"] = "7", "ingest"
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: job\ndata: %s\n\n", text)
		w.(http.Flusher).Flush()
		time.Sleep(30 * time.Millisecond)
	}
	for i := range 4 {
		send(map[string]any{"state": "running",
			"progress": map[string]any{"stage": "reading and embedding", "done": i, "total": 4}})
	}
	send(map[string]any{"state": "done", "result": map[string]any{"documents": 1, "chunks": 2, "embedded": 2},
		"skipped": []any{map[string]any{"source": "<b>empty</b>.txt", "error": "no words"}}})
	return nil
}

func (s *standIn) document(_ http.ResponseWriter, r *http.Request) any {
	for _, d := range s.documents {
		if d["id"] == r.PathValue("id") {
			return map[string]any{"document": d, "chunks": []any{map[string]any{"id": d["id"].(string) + "#3",
				"heading": "Fog › Signals", "text": s.passage}, map[string]any{"id": "2", "text": "Another passage."}}}
		}
	}
	return map[string]any{"document": map[string]any{"chunks": 0}, "chunks": []any{}}
}

func (s *standIn) remove(_ http.ResponseWriter, r *http.Request) any {
	s.documents = slices.DeleteFunc(s.documents, func(d map[string]any) bool { return d["id"] == r.PathValue("id") })
	return map[string]any{"chunks": 3}
}

func (s *standIn) chunk(_ http.ResponseWriter, r *http.Request) any {
	return map[string]any{"id": r.PathValue("id"), "text": s.passage}
}
