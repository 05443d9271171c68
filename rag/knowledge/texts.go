package knowledge

import (
	"context"
	"sync"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// keptTexts is how many bytes of chunks a snapshot keeps that were found.
const keptTexts = 16 << 20

// texts are chunks of a snapshot, which do not change. What is found again and again is read from the database once.
type texts struct {
	mu    sync.RWMutex
	byID  map[string]corpus.Chunk
	bytes int
}

// get fills in the chunks that are kept, and returns the places of the others.
func (t *texts) get(ids []string, chunks []corpus.Chunk) (missing []int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for i, id := range ids {
		c, ok := t.byID[id]
		if !ok {
			missing = append(missing, i)
			continue
		}
		chunks[i] = c
	}
	return missing
}

// keep keeps chunks; when there are too many, it begins anew.
func (t *texts) keep(chunks []corpus.Chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range chunks {
		size := len(c.Text) + len(c.Heading) + 256
		if _, again := t.byID[c.ID]; again || size > keptTexts/16 {
			continue
		}
		if t.byID == nil || t.bytes+size > keptTexts {
			t.byID, t.bytes = map[string]corpus.Chunk{}, 0
		}
		t.byID[c.ID] = c
		t.bytes += size
	}
}

// Chunks returns the snapshot's chunks of ids in that order, with the texts that belong to its vectors, also when they
// have been deleted or replaced since.
func (s *Snapshot) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	if err := s.base.check(); err != nil {
		return nil, err
	}
	chunks := make([]corpus.Chunk, len(ids))
	missing := s.texts.get(ids, chunks)
	if len(missing) == 0 {
		return chunks, nil
	}
	unread := make([]string, len(missing))
	for i, at := range missing {
		unread[i] = ids[at]
	}
	read, err := s.View.Chunks(ctx, unread)
	if err != nil {
		return nil, s.base.unlessClosed(err)
	}
	for i, at := range missing {
		chunks[at] = read[i]
	}
	s.texts.keep(read)
	return chunks, nil
}
