package knowledge

import (
	"context"
	"maps"
	"sync"

	"github.com/sluice-rag/sluice/rag/corpus"
)

// keptTexts limits the cached chunks of a snapshot, in bytes; of titles a quarter of that is cached.
const keptTexts = 16 << 20

// cache keeps values of a snapshot by their ids, which are immutable, so that frequent results are read from the
// database once.
type cache[V any] struct {
	mu    sync.RWMutex
	byID  map[string]V
	bytes int
}

// get calls found with the kept ones of the ids, and returns the other ids.
func (c *cache[V]) get(ids []string, found func(i int, v V)) (missing []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i, id := range ids {
		if v, ok := c.byID[id]; ok {
			found(i, v)
		} else {
			missing = append(missing, id)
		}
	}
	return missing
}

// keep keeps values of ids, each of so many bytes. The cache is emptied where it would grow beyond its limit.
func (c *cache[V]) keep(limit int, ids []string, of func(i int) (v V, bytes int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		v, size := of(i)
		if _, again := c.byID[id]; again || size > limit/16 {
			continue
		}
		if c.byID == nil || c.bytes+size > limit {
			c.byID, c.bytes = map[string]V{}, 0
		}
		c.byID[id] = v
		c.bytes += size
	}
}

func textBytes(c corpus.Chunk) int { return len(c.Text) + len(c.Heading) + 256 }

// Chunks returns the snapshot's chunks of ids in that order, with the texts that belong to its vectors, even if they
// were deleted or replaced since.
func (s *Snapshot) Chunks(ctx context.Context, ids []string) ([]corpus.Chunk, error) {
	if err := s.base.check(); err != nil {
		return nil, err
	}
	chunks, known := make([]corpus.Chunk, len(ids)), make([]bool, len(ids))
	unread := s.chunks.get(ids, func(i int, c corpus.Chunk) { chunks[i], known[i] = c, true })
	if len(unread) == 0 {
		return chunks, nil
	}
	read, err := s.View.Chunks(ctx, unread)
	if err != nil {
		return nil, s.base.unlessClosed(err)
	}
	s.chunks.keep(keptTexts, unread, func(i int) (corpus.Chunk, int) {
		return read[i], textBytes(read[i])
	})
	for i := range chunks {
		if !known[i] {
			chunks[i], read = read[0], read[1:]
		}
	}
	return chunks, nil
}

// Titles returns the titles of documents by their ids; documents that have no title or are not in the store are left
// out.
func (s *Snapshot) Titles(ctx context.Context, ids []string) (map[string]string, error) {
	if err := s.base.check(); err != nil {
		return nil, err
	}
	found := make(map[string]string, len(ids))
	unread := s.titles.get(ids, func(i int, title string) {
		if title != "" {
			found[ids[i]] = title
		}
	})
	if len(unread) > 0 {
		read, err := s.Store.Titles(ctx, unread)
		if err != nil {
			return nil, s.base.unlessClosed(err)
		}
		s.titles.keep(keptTexts/4, unread, func(i int) (string, int) {
			return read[unread[i]], len(unread[i]) + len(read[unread[i]]) + 64
		})
		maps.Copy(found, read)
	}
	return found, nil
}
