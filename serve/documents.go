package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/rag/corpus"
	"github.com/sluice-rag/sluice/rag/store"
	"github.com/sluice-rag/sluice/serve/mcp"
)

type partition struct {
	Topic     string `json:"topic"`
	Documents int    `json:"documents"`
	Chunks    int    `json:"chunks"`
}

// documentList is the response of GET /v1/documents.
type documentList struct {
	Store     string                `json:"store"`
	Documents []sluice.DocumentLine `json:"documents"`
	Total     int                   `json:"total"` // matches of the search
	Offset    int                   `json:"offset"`
	Topics    []partition           `json:"topics"` // of all documents
	All       int                   `json:"documents_total"`
	Chunks    int                   `json:"chunks_total"`
}

// listDocuments answers GET /v1/documents?q=&topic=&offset=&limit=, in the store's order.
func (s *Server) listDocuments(w http.ResponseWriter, r *http.Request, b *base) error {
	query := r.URL.Query()
	part, err := pagingOf(query)
	if err != nil {
		return err
	}
	all, err := b.Documents().List(r.Context())
	if err != nil && !errors.Is(err, store.ErrNoStore) {
		return err
	}
	out := documentList{Store: b.Name, Offset: part.Offset, All: len(all), Documents: []sluice.DocumentLine{},
		Topics: []partition{}}
	words, topics := strings.Fields(strings.ToLower(query.Get("q"))), map[string]*partition{}
	for _, d := range all {
		if topics[d.Topic] == nil {
			topics[d.Topic] = &partition{Topic: d.Topic}
		}
		topics[d.Topic].Documents++
		topics[d.Topic].Chunks += d.Chunks
		out.Chunks += d.Chunks
		line := sluice.LineOf(d)
		if query.Has("topic") && query.Get("topic") != d.Topic || !line.Has(words) {
			continue
		}
		if out.Total++; out.Total > part.Offset && len(out.Documents) < part.Limit {
			out.Documents = append(out.Documents, line)
		}
	}
	for _, p := range topics {
		out.Topics = append(out.Topics, *p)
	}
	slices.SortFunc(out.Topics, func(a, b partition) int { return strings.Compare(a.Topic, b.Topic) })
	return writeJSON(w, http.StatusOK, out)
}

// documentAnswer is the response of GET /v1/documents/ID.
type documentAnswer struct {
	Store    string              `json:"store"`
	Document sluice.DocumentLine `json:"document"`
	Offset   int                 `json:"offset"`
	Chunks   []corpus.Chunk      `json:"chunks"`
}

// deletedAnswer is the response of DELETE /v1/documents/ID.
type deletedAnswer struct {
	Store  string `json:"store"`
	ID     string `json:"id"`
	Chunks int    `json:"chunks"` // chunks that were removed
}

// showDocument answers GET /v1/documents/ID?offset=&limit=: the document with its passages.
func (s *Server) showDocument(w http.ResponseWriter, r *http.Request, b *base) error {
	part, err := pagingOf(r.URL.Query())
	if err != nil {
		return err
	}
	d, err := b.Documents().Get(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	chunks, at := []corpus.Chunk{}, 0
	for c, err := range b.Documents().ChunksOf(r.Context(), d.ID) {
		if err != nil {
			return err
		}
		if at++; at > part.Offset {
			chunks = append(chunks, c)
		}
		if len(chunks) == part.Limit {
			break
		}
	}
	return writeJSON(w, http.StatusOK, documentAnswer{b.Name, sluice.LineOf(d), part.Offset, chunks})
}

// showChunk answers GET /v1/chunks/ID.
func (s *Server) showChunk(w http.ResponseWriter, r *http.Request, b *base) error {
	chunks, err := b.Documents().Chunks(r.Context(), []string{r.PathValue("id")})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, chunks[0])
}

// deleteDocument answers DELETE /v1/documents/ID. After the response, the document is not found any more.
func (s *Server) deleteDocument(w http.ResponseWriter, r *http.Request, b *base) error {
	if err := s.writable(); err != nil {
		return err
	}
	n, err := b.Documents().Delete(r.Context(), []string{r.PathValue("id")})
	if err == nil {
		err = b.Store().Refresh()
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, deletedAnswer{b.Name, r.PathValue("id"), n})
}

// addDocuments answers POST /v1/documents: files as multipart/form-data in the field "file", or JSON as textDocuments.
// After a 202 the documents are on the disk and will be ingested, if necessary by the next process.
func (s *Server) addDocuments(w http.ResponseWriter, r *http.Request) (err error) {
	if err := s.writable(); err != nil {
		return err
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" && kind != "application/json" {
		return &requestError{Status: http.StatusUnsupportedMediaType, Code: "unknown_type",
			Message: "documents come as " +
				"multipart/form-data or application/json", Hint: "curl -F file=@notes.md …/v1/documents"}
	}
	var texts []byte
	var named string
	if kind == "application/json" { // before anything is written
		if texts, named, err = textDocuments(r); err != nil {
			return err
		}
	}
	b, err := s.base(r, named)
	if err != nil {
		return err
	}
	j, err := s.handIn(r.Context(), b, func(u *handedIn) error {
		if texts != nil {
			return u.add("texts.jsonl", bytes.NewReader(texts))
		}
		return u.receive(r)
	})
	if err != nil {
		return err
	}
	return accepted(w, j)
}

// handIn keeps an upload, which add fills, and queues its ingest.
func (s *Server) handIn(ctx context.Context, b *base, add func(*handedIn) error) (_ *job, err error) {
	if err := s.mayUpload(b); err != nil {
		return nil, err
	}
	u, err := newUpload(b.Store().Dir())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, u.drop())
		}
	}()
	if err := add(u); err != nil {
		return nil, err
	}
	return s.accept(ctx, b, u)
}

func (u *handedIn) receive(r *http.Request) error {
	form, err := r.MultipartReader()
	if err != nil {
		return bad("", "the form cannot be read: %v", err)
	}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return asFormError(err)
		}
		_, parameters, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil || parameters["name"] != "file" {
			return bad(parameters["name"], `files come in the field "file", given %q`, shortened(parameters["name"]))
		}
		if err := u.add(parameters["filename"], part); err != nil {
			return err
		}
	}
	if len(u.Files) == 0 {
		return bad("file", "the form holds no file")
	}
	return nil
}

// asFormError converts an error of receiving a form to one for the client.
func asFormError(err error) error {
	if strings.HasPrefix(err.Error(), "multipart: ") || strings.Contains(err.Error(), "malformed MIME") {
		var size *http.MaxBytesError
		if !errors.As(err, &size) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return bad("", "the form cannot be read: %v", err)
		}
	}
	return asBodyError(err)
}

// textDocument is a document sent as text.
type textDocument = mcp.Text

// textDocuments reads {"text", "id", "title", "topic"} or {"documents": [{…}, …]} and returns them as JSON lines, with
// the name of the knowledge base if the body has one.
func textDocuments(r *http.Request) (lines []byte, store string, err error) {
	var in struct {
		textDocument
		Documents []textDocument `json:"documents"`
		Store     string         `json:"store"`
	}
	if err := decode(r, &in); err != nil {
		return nil, "", err
	}
	switch {
	case len(in.Documents) > 0 && in.textDocument != (textDocument{}):
		return nil, "", bad("documents", "either a text or documents, both are given")
	case len(in.Documents) == 0:
		in.Documents = []textDocument{in.textDocument}
	}
	lines, err = textLines(in.Documents)
	return lines, in.Store, err
}

// textLines returns documents as JSON lines. One without an id gets one from its text.
func textLines(documents []textDocument) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	for i, d := range documents {
		if strings.TrimSpace(d.Text) == "" {
			return nil, bad("text", "document %d has no text", i)
		}
		if utf8.RuneCountInString(d.ID) > 1000 || strings.ContainsFunc(d.ID, func(c rune) bool { return c < ' ' }) {
			return nil, bad("id", "the id of document %d is longer than 1000 characters, or has control characters", i)
		}
		if err := encoder.Encode(d.Named()); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
