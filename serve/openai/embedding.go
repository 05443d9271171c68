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
	// InputType is "query" or "document" (Cohere's "search_query" and "search_document" as well): some encoders read
	// them with prefixes of their own. Absent: document.
	InputType string `json:"input_type"`
	// Truncate false refuses a text that is longer than the encoder reads; else it is cut, and the answer says how many
	// were (text-embeddings-inference's name).
	Truncate *bool `json:"truncate"`

	User json.RawMessage `json:"user"` // without effect
}

// Inputs are the texts to embed. An empty one is an error, as it is to OpenAI and text-embeddings-inference.
func (r *EmbeddingRequest) Inputs(l Limits) ([]Input, *Error) {
	return inputs("input", r.Input, l.Texts, "texts")
}

// IsQuery tells what the texts are.
func (r *EmbeddingRequest) IsQuery() (bool, *Error) {
	switch r.InputType {
	case "query", "search_query":
		return true, nil
	case "", "document", "search_document", "passage":
		return false, nil
	}
	return false, invalid("input_type", "%.40q is neither query nor document", r.InputType)
}

// Base64 tells how the vectors are to be written.
func (r *EmbeddingRequest) Base64() (bool, *Error) {
	switch r.EncodingFormat {
	case "base64":
		return true, nil
	case "", "float":
		return false, nil
	}
	return false, invalid("encoding_format", "%.40q is neither float nor base64", r.EncodingFormat)
}

// Dim is how many dimensions the vectors are to have, of an encoder whose own have dim and may be cut to the others, as
// embed.Info has them.
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

// Vectors are what AppendEmbeddings writes.
type Vectors struct {
	Model  string
	Data   []float32 // row-major, rows of Dim
	Dim    int
	Tokens int // of all texts
	Cut    int // texts that were longer than the encoder reads
	Mended int // texts with NULs, which became U+FFFD
	Base64 bool
}

// AppendEmbeddings appends the answer of POST /v1/embeddings: {object, data, model, usage, sluice}. Numbers have as
// many digits as a float32 needs; in base64 they are little-endian. It goes without reflection: the answer to a batch
// has hundreds of thousands of numbers.
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
	if err != nil { // no string does that
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
