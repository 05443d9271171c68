package knowledge

import (
	"context"
	"maps"
	"sync"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// keptTexts limits the cached chunks of a snapshot, in bytes.
const keptTexts = 16 << 20

// texts caches chunks and titles of a snapshot, which are immutable, so that frequent results are read from the
// database once.
type texts struct {
	mu    sync.RWMutex
	byID  map[string]corpus.Chunk
	bytes int

	titles     map[string]string // by document id; "": the document has no title
	titleBytes int
}

// get fills in the cached chunks and returns the indices of the others.
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

// keep caches chunks. It clears the cache if it grows beyond its limit.
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

// Chunks returns the snapshot's chunks of ids in that order, with the texts that belong to its vectors, even if they
// were deleted or replaced since.
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

// Titles returns the titles of documents by their ids; documents that have no title or are not in the store are left
// out.
func (s *Snapshot) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	if err := s.base.check(); err != nil {
		return nil, err
	}
	found := make(map[string]string, len(ids))
	unread := s.texts.known(ids, found)
	if len(unread) > 0 {
		read, err := s.Store.Titles(ctx, unread)
		if err != nil {
			return nil, s.base.unlessClosed(err)
		}
		s.texts.keepTitles(unread, read)
		maps.Copy(found, read)
	}
	return found, nil
}

// known fills in the cached titles and returns the ids of the other documents.
func (t *texts) known(ids []string, found map[string]string) (unread []string) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, id := range ids {
		title, ok := t.titles[id]
		switch {
		case !ok:
			unread = append(unread, id)
		case title != "":
			found[id] = title
		}
	}
	return unread
}

// keepTitles caches the titles of documents. It clears the cache if it grows beyond its limit.
func (t *texts) keepTitles(ids []string, titles map[string]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		size := len(id) + len(titles[id]) + 64
		if _, again := t.titles[id]; again || size > keptTexts/64 {
			continue
		}
		if t.titles == nil || t.titleBytes+size > keptTexts/4 {
			t.titles, t.titleBytes = map[string]string{}, 0
		}
		t.titles[id] = titles[id]
		t.titleBytes += size
	}
}
