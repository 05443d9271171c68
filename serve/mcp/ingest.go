package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Text is a document that a client puts in.
type Text struct {
	ID    string `json:"id,omitempty" doc:"id of the document; without one it comes from the text"`
	Text  string `json:"text"`
	Title string `json:"title,omitempty"`
	Topic string `json:"topic,omitempty"`
}

// Ingested is the result of the tool ingest.
type Ingested struct {
	Store     string    `json:"store"`
	Documents int       `json:"documents"` // stored to their end
	Passages  int       `json:"passages"`
	Skipped   []Skipped `json:"skipped"` // not stored, and why
}

// Skipped is a document that was not stored.
type Skipped struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// maxTexts is the most documents of one call; maxID is the most characters of an id.
const (
	maxTexts = 1000
	maxID    = 1000
)

// texts are the arguments of the tool ingest.
type texts struct {
	Documents []Text `json:"documents" doc:"at most 1000"`
}

func (t *tools) ingest(ctx context.Context, c *call, in texts) (out Ingested, err error) {
	if n := len(in.Documents); n == 0 || n > maxTexts {
		return out, argument("documents: %d are given, 1 to %d are taken", n, maxTexts)
	}
	for i, d := range in.Documents {
		if err := d.Check(); err != nil {
			return out, argument("documents[%d].%v", i, err)
		}
	}
	out, err = t.Ingest(ctx, c.base, in.Documents, c.of)
	out.Store = c.base.Name
	if out.Skipped == nil {
		out.Skipped = []Skipped{}
	}
	return out, err
}

// Check returns an error for a document that cannot be stored.
func (d Text) Check() error {
	if err := empty("text", d.Text); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(d.ID); n > maxID {
		return argument("id: it has %d characters, at most %d are taken", n, maxID)
	}
	if strings.ContainsFunc(d.ID, func(c rune) bool { return c < ' ' }) {
		return argument("id: %.80q has control characters", d.ID)
	}
	return nil
}

// Named returns the document with an id, which comes from the text if it has none.
func (d Text) Named() Text {
	if d.ID == "" {
		sum := sha256.Sum256([]byte(d.Text))
		d.ID = "text-" + hex.EncodeToString(sum[:8])
	}
	return d
}
