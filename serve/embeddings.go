package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/spans"
	"github.com/sluice-rag/sluice/serve/openai"
)

func (s *Server) embeddings(w http.ResponseWriter, r *http.Request, q *openai.EmbeddingRequest) error {
	v, n, err := s.embedded(r.Context(), q)
	if err != nil {
		return err
	}
	return writeVectors(w, v, n)
}

// embedded returns the vectors that a request asks for, and their number.
func (s *Server) embedded(ctx context.Context, q *openai.EmbeddingRequest) (v openai.Vectors, n int, err error) {
	inputs, wrong := q.Inputs(s.shapeLimits())
	if wrong != nil {
		return v, 0, wrong
	}
	query, wrong := q.IsQuery()
	if wrong != nil {
		return v, 0, wrong
	}
	encoded, wrong := q.Base64()
	if wrong != nil {
		return v, 0, wrong
	}
	if err := s.loaded(); err != nil {
		return v, 0, err
	}
	info, err := s.models().Models().Encoder(ctx)
	if err != nil {
		return v, 0, err
	}
	model, shown := s.called(q.Model)
	if !named(model, info.Name, s.models().Models().Names().Encoder) {
		return v, 0, unknownModel(q.Model, "encoder", info.Name)
	}
	dim, wrong := q.Dim(info.Dim, info.Dimensions)
	if wrong != nil {
		return v, 0, wrong
	}
	role := embed.Document
	if query {
		role = embed.Query
	}
	whole := ctx
	ctx, leave, err := s.bulk(ctx, inputs)
	if err != nil {
		return v, 0, err
	}
	texts, err := s.textsOf(ctx, inputs)
	if err != nil {
		leave()
		return v, 0, err
	}
	ctx, end := spans.Start(ctx, "embed", attribute.Int("sluice.texts", len(texts)))
	e, err := s.models().Embed(ctx, texts, role)
	end(&err)
	if leave(); err != nil {
		return v, 0, err
	}
	if q.Truncate != nil && !*q.Truncate && e.Truncated > 0 {
		return v, 0, s.tooLong(whole, texts, info.MaxTokens)
	}
	if dim < e.Dim {
		e.Cut(dim, info.Normalised)
	}
	v = openai.Vectors{Model: cmp.Or(shown, modelName(info.Name)), Data: e.Data, Dim: e.Dim, Cut: e.Truncated,
		Mended: e.Repaired, Base64: encoded}
	for _, n := range e.Tokens {
		v.Tokens += n
	}
	return v, len(texts), nil
}

// writeVectors writes the response with the vectors of a number of texts.
func writeVectors(w http.ResponseWriter, v openai.Vectors, texts int) error {
	room := 12*len(v.Data) + 64*texts + 512
	if v.Base64 {
		room = 6*len(v.Data) + 64*texts + 512
	}
	body := append(openai.AppendEmbeddings(make([]byte, 0, room), v), '\n')
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(body)
	return err
}

// Requests with more texts, or more bytes of text, are batch jobs to the encoder, so that interactive requests go
// first. A limited number of them runs at a time.
const (
	bulkTexts    = 64
	bulkBytes    = 64 << 10
	bulkRequests = 16
	tokenBulk    = 4 // bytes of text counted for a token
)

// bulk returns the context for a request for embeddings, and a function to call at its end.
func (s *Server) bulk(ctx context.Context, texts []openai.Input) (context.Context, func(), error) {
	bytes := 0
	for _, one := range texts {
		bytes += len(one.Text) + tokenBulk*len(one.Tokens)
	}
	if len(texts) <= bulkTexts && bytes <= bulkBytes {
		return ctx, func() {}, nil
	}
	select {
	case s.bulks <- struct{}{}:
		return cores.AsBatch(ctx), func() { <-s.bulks }, nil
	default: // the encoder's queue refuses no batch job
		return nil, nil, &requestError{Status: http.StatusTooManyRequests, Code: "busy", RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests of more than %d texts or %d bytes are under way, the limit is %d",
				bulkRequests, bulkTexts, bulkBytes, bulkRequests),
			Hint: "try again later, or send fewer texts in a request"}
	}
}

// textsOf returns the texts of a request, with tokens decoded to texts.
func (s *Server) textsOf(ctx context.Context, inputs []openai.Input) ([]string, error) {
	texts := make([]string, len(inputs))
	for i, one := range inputs {
		if texts[i] = one.Text; one.Tokens == nil {
			continue
		}
		var err error
		if texts[i], err = s.models().Models().TextOf(ctx, one.Tokens); err != nil {
			return nil, tokenError(err, inputName("input", i, len(inputs)))
		}
	}
	return texts, nil
}

// tooLong returns an error for the first text that the encoder would truncate.
func (s *Server) tooLong(ctx context.Context, texts []string, limit int) error {
	for i, text := range texts {
		more := ""
		if len(text) > bulkBytes { // counting all tokens would take long and add nothing
			text, more = strings.ToValidUTF8(text[:bulkBytes], ""), "more than "
		}
		n, err := s.models().Models().CountTokens(ctx, text)
		if err != nil {
			return err
		}
		if n > limit {
			e := bad(fmt.Sprintf("input[%d]", i), "text %d has %s%d tokens, the encoder reads %d", i, more, n, limit)
			e.Code, e.Hint = "text_too_long", "shorten it, or leave truncate out to have it cut"
			return e
		}
	}
	return bad("input", "a text is longer than the %d tokens that the encoder reads", limit)
}

// vector is a list of numbers in a request. It is decoded in a fifth of encoding/json's time, to the same bits.
type vector []float32

// UnmarshalJSON implements json.Unmarshaler. Other values than lists of numbers are left to encoding/json for its
// error.
func (v *vector) UnmarshalJSON(b []byte) error {
	if read, ok := appendNumbers((*v)[:0], b); ok {
		*v = read
		return nil
	}
	var slow []float32
	err := json.Unmarshal(b, &slow)
	*v = slow
	return err
}

// appendNumbers reads a list from valid JSON; ok is false if it is not a list of numbers that float32 holds.
func appendNumbers(to []float32, b []byte) (_ []float32, ok bool) {
	const space = " \t\r\n"
	b = bytes.Trim(b, space)
	if len(b) < 2 || b[0] != '[' {
		return nil, false
	}
	b = b[1 : len(b)-1]
	if to == nil {
		to = make([]float32, 0, bytes.Count(b, []byte{','})+1)
	}
	if len(bytes.Trim(b, space)) == 0 {
		return to, true
	}
	for more := true; more; {
		var one []byte
		one, b, more = bytes.Cut(b, []byte{','})
		one = bytes.Trim(one, space)
		if len(one) == 0 || one[0] != '-' && (one[0] < '0' || one[0] > '9') {
			return nil, false
		}
		x, err := strconv.ParseFloat(string(one), 32)
		if err != nil {
			return nil, false
		}
		to = append(to, float32(x))
	}
	return to, true
}
