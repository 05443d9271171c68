package openai

import (
	"encoding/json"
	"fmt"
)

// RerankV2Request is the body of POST /v2/rerank (Cohere's API, version 2).
type RerankV2Request struct {
	Model     string          `json:"model"`
	Query     *string         `json:"query"`
	Documents json.RawMessage `json:"documents"` // strings
	TopN      *int            `json:"top_n" bounds:"1,65536"`

	RelevantSpans json.RawMessage `json:"relevant_spans"` // refused: a cross-encoder scores no parts

	// Without effect: the reranker's context window decides, and truncated documents are counted.
	MaxTokensPerDoc *int `json:"max_tokens_per_doc" bounds:"-2147483648,2147483647"`
	Priority        *int `json:"priority" bounds:"-2147483648,2147483647"`
}

// RerankRequest is the body of POST /v1/rerank (Cohere's API, version 1), with the additions of version 2.
type RerankRequest struct {
	RerankV2Request // Documents are strings or {"text": …}

	ReturnDocuments *bool    `json:"return_documents"`
	RankFields      []string `json:"rank_fields"`                                        // ["text"] or empty
	MaxChunksPerDoc *int     `json:"max_chunks_per_doc" bounds:"-2147483648,2147483647"` // without effect, as above
}

// check validates the fields that both versions share.
func (r *RerankV2Request) check() *Error {
	switch {
	case r.Query == nil:
		return missing("query")
	case !given(r.Documents):
		return missing("documents")
	case given(r.RelevantSpans):
		return unsupported("relevant_spans", "it is not supported")
	}
	return nil
}

// Texts returns the documents to rerank.
func (r *RerankV2Request) Texts(l Limits) ([]string, *Error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if first(r.Documents) != '[' {
		return nil, wrongType("documents", "an array of strings", r.Documents)
	}
	list, err := texts("documents", r.Documents, l.Texts, "documents")
	if err == nil && len(list) == 0 {
		err = empty("documents")
	}
	return list, err
}

// Texts returns the documents to rerank.
func (r *RerankRequest) Texts(l Limits) ([]string, *Error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	for i, f := range r.RankFields {
		if f != "text" {
			return nil, unsupported(fmt.Sprintf("rank_fields[%d]", i), "%.40q is not supported, only \"text\" is", f)
		}
	}
	list, err := array("documents", r.Documents, l.Texts, "documents")
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, invalid("documents", "it is empty")
	}
	out := make([]string, len(list))
	for i, raw := range list {
		param := fmt.Sprintf("documents[%d]", i)
		if first(raw) == '"' {
			if out[i], err = text(param, raw); err != nil {
				return nil, err
			}
			continue
		}
		var d struct { // other fields belong to the client
			Text json.RawMessage `json:"text"`
		}
		if first(raw) != '{' || json.Unmarshal(raw, &d) != nil {
			return nil, wrongType(param, `a string or {"text": …}`, raw)
		}
		if !given(d.Text) {
			return nil, missing(param + ".text")
		}
		if out[i], err = text(param+".text", d.Text); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RerankResponse is the response of POST /v1/rerank.
type RerankResponse struct {
	ID      string       `json:"id"`
	Model   string       `json:"model"`
	Results []Ranked     `json:"results"` // best first
	Meta    RerankMeta   `json:"meta"`
	Usage   *Usage       `json:"usage"`
	Sluice  RerankCounts `json:"sluice"`
}

// RerankV2Response is the response of POST /v2/rerank.
type RerankV2Response struct {
	ID      string       `json:"id"`
	Results []Ranked     `json:"results"` // best first
	Meta    RerankV2Meta `json:"meta"`
}

// RerankV2Meta has the fields that Cohere's clients read.
type RerankV2Meta struct {
	RerankMeta

	Tokens struct {
		Input int `json:"input_tokens"`
	} `json:"tokens"`
	Warnings []string `json:"warnings,omitempty"` // about truncated or repaired texts
}

// Ranked is a document with its score.
type Ranked struct {
	Index    int             `json:"index"` // in the request
	Score    float64         `json:"relevance_score"`
	Document *RankedDocument `json:"document,omitempty"`
}

// RankedDocument is the document as the reranker read it, if return_documents asks for it.
type RankedDocument struct {
	Text string `json:"text"`
}

// RerankMeta has the fields that Cohere's clients read.
type RerankMeta struct {
	APIVersion struct {
		Version string `json:"version"`
	} `json:"api_version"`
	BilledUnits struct {
		SearchUnits int `json:"search_units"`
	} `json:"billed_units"`
}

// RerankCounts counts truncated and repaired texts.
type RerankCounts struct {
	Truncated      int `json:"truncated"`
	QueryTruncated int `json:"query_truncated"`
	Repaired       int `json:"repaired"`
}

// ClassifyRequest is the body of POST /v1/classify, as in vLLM.
type ClassifyRequest struct {
	Model string          `json:"model"`
	Input json.RawMessage `json:"input"`                  // a string or an array of strings
	TopK  *int            `json:"top_k" bounds:"1,65536"` // labels of each text, best first; absent: all
}

// Texts returns the texts to classify.
func (r *ClassifyRequest) Texts(l Limits) ([]string, *Error) {
	if !given(r.Input) {
		return nil, missing("input")
	}
	list, err := texts("input", r.Input, l.Texts, "texts")
	if err == nil && len(list) == 0 {
		err = empty("input")
	}
	return list, err
}

// ClassifyResponse is the response of POST /v1/classify.
type ClassifyResponse struct {
	ID      string         `json:"id"`
	Object  string         `json:"object"` // "list"
	Created int64          `json:"created"`
	Model   string         `json:"model"`
	Kind    string         `json:"kind"` // what the model labels: "texts", "spans" or "domains" (a router)
	Data    []Classified   `json:"data"`
	Usage   *Usage         `json:"usage,omitempty"`
	Sluice  ClassifyCounts `json:"sluice"`
}

// ClassifyCounts counts truncated and repaired texts.
type ClassifyCounts struct {
	Truncated int `json:"truncated"`
	Repaired  int `json:"repaired"`
}

// Classified is the result for one text.
type Classified struct {
	Index  int     `json:"index"`
	Label  string  `json:"label,omitempty"` // the best one; absent if the model abstains
	Score  float64 `json:"score"`           // its probability
	Labels []Label `json:"labels,omitempty"`
	Spans  []Span  `json:"spans,omitempty"`
}

// Label is a label with its probability.
type Label struct {
	Label string  `json:"label"`
	Score float64 `json:"score"`
}

// Span is a labelled part of a text.
type Span struct {
	Label string  `json:"label"`
	Start int     `json:"start"` // in bytes of the text
	End   int     `json:"end"`
	Text  string  `json:"text"`
	Score float64 `json:"score"`
}

// Models is the response of GET /v1/models.
type Models struct {
	Object string  `json:"object"` // "list"
	Data   []Model `json:"data"`
}

// Model is a model that requests may name.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Root    string `json:"root,omitempty"` // for an alias: the model that it stands for (vLLM's name)
	Kind    string `json:"kind"`           // purpose: "rag", "chat", "embedding", "rerank", "classify"
	// MaxModelLen is the maximum number of tokens of a request, if it is known (vLLM's name).
	MaxModelLen int `json:"max_model_len,omitempty"`
}

// TokenizeRequest is the body of POST /tokenize; the text is "content" for llama-server's clients, "prompt" for vLLM's.
type TokenizeRequest struct {
	Model   string  `json:"model"`
	Content *string `json:"content"`
	Prompt  *string `json:"prompt"`

	AddSpecial       *bool `json:"add_special"`        // true, as it is when absent, or an error
	AddSpecialTokens *bool `json:"add_special_tokens"` // the same
}

// Text returns the text to tokenize.
func (r *TokenizeRequest) Text() (string, *Error) {
	switch {
	case r.AddSpecial != nil && !*r.AddSpecial:
		return "", unsupported("add_special", "only true is supported")
	case r.AddSpecialTokens != nil && !*r.AddSpecialTokens:
		return "", unsupported("add_special_tokens", "only true is supported")
	case r.Content != nil && r.Prompt != nil:
		return "", invalid("content", "it is given together with prompt, its other name")
	case r.Content != nil:
		return *r.Content, nil
	case r.Prompt != nil:
		return *r.Prompt, nil
	}
	return "", missing("content")
}

// Tokenized is the response of POST /tokenize.
type Tokenized struct {
	Model       string  `json:"model"`
	Count       int     `json:"count"`
	MaxModelLen int     `json:"max_model_len"`
	Tokens      []int32 `json:"tokens,omitempty"` // absent if the model only counts them
}
