// Package scorecards keeps what examinations of language models have found, by the digest of a model's file, or of its
// server's URL and its name there.
package scorecards

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"

	"github.com/sluice-rag/sluice/internal/models"
	"github.com/sluice-rag/sluice/llm/remote"
	"github.com/sluice-rag/sluice/rag/exam"
)

// Digest identifies a language model: a name of the manifest, a GGUF file, or the URL of its server.
func Digest(ctx context.Context, model string) (string, error) {
	if base, name, ok := remote.SplitName(model); ok {
		sum := sha256.Sum256([]byte(base + "#" + name))
		return hex.EncodeToString(sum[:]), nil
	}
	r, err := models.Default()
	if err != nil {
		return "", err
	}
	return r.Digest(ctx, model)
}

// Find returns the scorecard of a language model: one that was kept here, or the one that Sluice brings if that one
// cannot be used or has no results. nil: it has not been examined. A card that was edited, or is of another version of
// the examination, is exam.ErrCard.
func Find(ctx context.Context, model string) (*exam.Card, error) {
	digest, err := Digest(ctx, model)
	if err != nil {
		return nil, err
	}
	r, err := models.Default()
	if err != nil {
		return nil, err
	}
	kept, err := parsed(r.KeptCard, digest, digest)
	if kept.Examined() {
		return kept, nil
	}
	if brought, wrong := parsed(r.Card, model, digest); wrong == nil && brought != nil {
		return brought, nil
	}
	return kept, err
}

// parsed reads the card that source has by a name, for the model with a digest; nil if source has none.
func parsed(source func(name string) ([]byte, error), name, digest string) (*exam.Card, error) {
	text, err := source(name)
	if err != nil || text == nil {
		return nil, err
	}
	return exam.ParseCard(text, digest)
}

// Run examines a model and keeps its card. The answers of an examination that was interrupted are kept beside the cards
// until the next one has come to its end.
func Run(ctx context.Context, o exam.Options) (*exam.Card, error) {
	r, err := models.Default()
	if err != nil {
		return nil, err
	}
	if o.Answers, err = r.CardAnswers(o.Digest); err != nil {
		return nil, err
	}
	card, err := exam.Run(ctx, o)
	if card == nil {
		return nil, err
	}
	if kept := Keep(card); kept != nil || !card.Examined() {
		return card, errors.Join(err, kept)
	}
	if err = os.Remove(o.Answers); errors.Is(err, fs.ErrNotExist) { // another process has examined the model, too
		err = nil
	}
	return card, err
}

// Keep keeps a card.
func Keep(card *exam.Card) error {
	r, err := models.Default()
	if err != nil {
		return err
	}
	text, err := card.Text()
	if err != nil {
		return err
	}
	return r.SaveCard(card.Digest, text)
}
