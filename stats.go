package sluice

import (
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/llm"
)

// Stats holds what the models have computed since they were opened. A field is nil while its model is not open, and for
// models that do not count, such as those on a server.
type Stats struct {
	Encoder, Reranker, Classifier, Reader *embed.Stats
	Model                                 *llm.Stats
}

// Stats returns the counts of the models. It does not open models and never waits.
func (s *Sluice) Stats() (all Stats) {
	all.Encoder, all.Reranker, all.Classifier = counted(s.encoder), counted(s.reranker), counted(s.classifier)
	all.Reader = counted(s.reader)
	if m, ok := s.model.peek(); ok {
		if m, ok := m.(interface{ Stats() llm.Stats }); ok {
			all.Model = new(m.Stats())
		}
	}
	return all
}

func counted[T any](l *lazy[T]) *embed.Stats {
	if v, ok := l.peek(); ok {
		if m, ok := any(v).(interface{ Stats() embed.Stats }); ok {
			return new(m.Stats())
		}
	}
	return nil
}
