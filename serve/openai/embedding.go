package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	Model          string          `json:"model"`
	Input          json.RawMessage `json:"input"` // a string, tokens, or an array of either
	EncodingFormat string          `json:"encoding_format"`
	Dimensions     *int            `json:"dimensions" bounds:"1,65536"`
	// InputType is "query" or "document" (also Cohere's "search_query" and "search_document"): some encoders add
	// different prefixes to them. Absent: document.
	InputType string `json:"input_type"`
	// Truncate false refuses a text longer than the encoder reads; otherwise it is truncated, and the response has the
	// number of truncated texts (text-embeddings-inference's name).
	Truncate *bool `json:"truncate"`

	User json.RawMessage `json:"user"` // without effect
}

// Inputs returns the texts to embed. An empty one is an error, as with OpenAI and text-embeddings-inference.
func (r *EmbeddingRequest) Inputs(l Limits) ([]Input, *Error) {
	return inputs("input", r.Input, l.Texts, "texts")
}

// IsQuery reports whether the texts are queries.
func (r *EmbeddingRequest) IsQuery() (bool, *Error) {
	switch r.InputType {
	case "query", "search_query":
		return true, nil
	case "", "document", "search_document", "passage":
		return false, nil
	}
	return false, invalid("input_type", "%.40q is neither query nor document", r.InputType)
}

// Base64 reports whether the vectors are to be encoded in base64.
func (r *EmbeddingRequest) Base64() (bool, *Error) {
	switch r.EncodingFormat {
	case "base64":
		return true, nil
	case "", "float":
		return false, nil
	}
	return false, invalid("encoding_format", "%.40q is neither float nor base64", r.EncodingFormat)
}

// Dim returns the number of dimensions requested, given the encoder's own dim and the others that it may be cut to, as
// in embed.Info.
func (r *EmbeddingRequest) Dim(dim int, others string) (int, *Error) {
	switch {
	case r.Dimensions == nil:
		return dim, nil
	case *r.Dimensions == dim || slices.Contains(strings.Fields(others), strconv.Itoa(*r.Dimensions)):
		return *r.Dimensions, nil
	case others == "":
		return 0, unsupported("dimensions", "%d are asked for, the encoder has %d and was not trained for shorter "+
			"vectors", *r.Dimensions, dim).hint("leave it out")
	}
	return 0, unsupported("dimensions", "%d are asked for, the encoder has %d and its vectors may be cut to %s",
		*r.Dimensions, dim, strings.ReplaceAll(others, " ", ", "))
}

// Vectors is the input of AppendEmbeddings.
type Vectors struct {
	Model  string
	Data   []float32 // row-major, rows of Dim
	Dim    int
	Tokens int // of all texts
	Cut    int // truncated texts
	Mended int // texts with NULs, which became U+FFFD
	Base64 bool
}

// AppendEmbeddings appends the response of POST /v1/embeddings: {object, data, model, usage, sluice}. Numbers have as
// many digits as a float32 needs; in base64 they are little-endian. It avoids reflection, because the response to a
// batch has hundreds of thousands of numbers.
func AppendEmbeddings(b []byte, v Vectors) []byte {
	rows := 0
	if v.Dim > 0 {
		rows = len(v.Data) / v.Dim
	}
	b = append(b, `{"object":"list","data":[`...)
	raw := make([]byte, 4*v.Dim)
	for i := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"object":"embedding","index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"embedding":`...)
		row := v.Data[i*v.Dim : (i+1)*v.Dim]
		if v.Base64 {
			for j, x := range row {
				binary.LittleEndian.PutUint32(raw[4*j:], math.Float32bits(x))
			}
			b = append(b, '"')
			b = base64.StdEncoding.AppendEncode(b, raw)
			b = append(b, '"', '}')
			continue
		}
		b = append(b, '[')
		for j, x := range row {
			if j > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
		}
		b = append(b, ']', '}')
	}
	b = append(b, `],"model":`...)
	b = appendString(b, v.Model)
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(v.Tokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(v.Tokens), 10)
	b = append(b, `},"sluice":{"truncated":`...)
	b = strconv.AppendInt(b, int64(v.Cut), 10)
	b = append(b, `,"repaired":`...)
	b = strconv.AppendInt(b, int64(v.Mended), 10)
	return append(b, '}', '}')
}

func appendString(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil { // a string cannot fail
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
