package sluice

import (
	"context"
	"errors"
	"iter"

	"github.com/sluice-rag/sluice/rag/prompt"
)

// AnswerPart is a part of an answer as AskStream yields it: one of the fields is there.
type AnswerPart struct {
	Trace   *Trace            // the first part: what is known before the model's first word
	Sources []prompt.Citation // the second, if the prompt has passages
	Text    string            // then pieces, which add up to Answer.Answer
	Answer  *Answer           // the last part: the whole answer with its trace
}

// errEnough ends an answer whose reader has had enough.
var errEnough = errors.New("sluice: the loop has ended")

// AskStream is Ask as an iterator, which ends the answer when its loop ends. AskOptions.Start, Sources and Stream are
// called as well. An error is the last thing that it yields, with what there is of the answer.
func (s *Sluice) AskStream(ctx context.Context, question string, o AskOptions) iter.Seq2[AnswerPart, error] {
	return func(yield func(AnswerPart, error) bool) {
		ended := false
		give := func(p AnswerPart) error {
			if !ended && !yield(p, nil) {
				ended = true
			}
			if ended {
				return errEnough
			}
			return nil
		}
		start, sources, stream := o.Start, o.Sources, o.Stream
		o.Start = func(t Trace) {
			if start != nil {
				start(t)
			}
			_ = give(AnswerPart{Trace: &t}) // the next piece ends the answer
		}
		o.Sources = func(c []prompt.Citation) {
			if sources != nil {
				sources(c)
			}
			if !ended {
				_ = give(AnswerPart{Sources: c})
			}
		}
		o.Stream = func(piece string) error {
			if stream != nil && !ended {
				if err := stream(piece); err != nil {
					return err
				}
			}
			return give(AnswerPart{Text: piece})
		}
		answer, err := s.Ask(ctx, question, o)
		if !ended {
			yield(AnswerPart{Answer: answer}, err)
		}
	}
}
