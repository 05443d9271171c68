package sluice

import (
	"context"
	"errors"
	"iter"

	"github.com/sluice-rag/sluice/rag/answer"
	"github.com/sluice-rag/sluice/rag/prompt"
)

// Ask answers a question by the graph that answer.Options.Flow names, as answer.Run describes. The shortest graph is
// gate → contexts or own knowledge → answer.
func (s *Sluice) Ask(ctx context.Context, question string, o answer.Options) (*answer.Answer, error) {
	return during(ctx, s, func(ctx context.Context) (*answer.Answer, error) {
		s.asking.Add(1)
		defer s.asking.Add(-1)
		in := s.input(o)
		in.Question = question
		a, err := answer.Run(ctx, s.base, in)
		if err == nil {
			s.recordAnswer(ctx, question, a)
		}
		return a, err
	})
}

// AskEach answers several questions at a time (answer.Options.Parallel) and passes the answers to emit in the order of
// the questions, as answer.Each describes.
func (s *Sluice) AskEach(
	ctx context.Context, questions <-chan answer.Question, o answer.Options,
	emit func(answer.Question, *answer.Answer) error,
) error {
	return run(ctx, s, func(ctx context.Context) error {
		return answer.Each(ctx, s.base, s.input(o), questions, func(q answer.Question, a *answer.Answer) error {
			s.recordAnswer(ctx, q.Text, a)
			return emit(q, a)
		})
	})
}

func (s *Sluice) input(o answer.Options) answer.Input {
	in := answer.Input{Options: o, Model: s.model.get, Named: s.others.get, Templates: s.cfg.Templates}
	if s.cfg.Generator == nil { // the caller is responsible for the quality of its own model
		in.Cards = s.card
	}
	if s.web != nil {
		in.Web = s.passagesOfWeb
	}
	return in
}

// AnswerPart is a part of an answer that AskStream yields. Exactly one field is set.
type AnswerPart struct {
	Trace   *answer.Trace     // first part: what is known before the model's first word
	Sources []prompt.Citation // second part, if the prompt has passages
	Text    string            // then pieces that add up to Answer.Answer
	Answer  *answer.Answer    // last part: the whole answer with its trace
}

// errEnough stops an answer after its reader has left the loop.
var errEnough = errors.New("sluice: the loop has ended")

// AskStream is Ask as an iterator; leaving the loop stops the answer. answer.Options.Start, Sources and Stream are
// called as well. An error comes last, together with the answer as far as it was made.
func (s *Sluice) AskStream(ctx context.Context, question string, o answer.Options) iter.Seq2[AnswerPart, error] {
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
		o.Start = func(t answer.Trace) {
			if start != nil {
				start(t)
			}
			_ = give(AnswerPart{Trace: &t}) // the next piece stops the answer
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
		a, err := s.Ask(ctx, question, o)
		if !ended {
			yield(AnswerPart{Answer: a}, err)
		}
	}
}
