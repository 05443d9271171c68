package serve

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/embed"
	"github.com/sluice-rag/sluice/engine/cores"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// classes is an encoder that records for each call whether it was a batch job.
type classes struct {
	*doubles.Encoder
	mu    sync.Mutex
	batch []bool
	hold  chan struct{} // if not nil, batch jobs wait for it
}

func (c *classes) Embed(ctx context.Context, texts []string, role embed.Role) (*embed.Embeddings, error) {
	c.mu.Lock()
	c.batch = append(c.batch, cores.IsBatch(ctx))
	hold := c.hold
	c.mu.Unlock()
	if hold != nil && cores.IsBatch(ctx) {
		<-hold
	}
	return c.Encoder.Embed(ctx, texts, role)
}

// TestLargeRequestsForEmbeddingsAreBatchJobs checks that requests with many texts or bytes are batch jobs, that one
// above their limit gets a 429, and that small requests are answered meanwhile.
func TestLargeRequestsForEmbeddingsAreBatchJobs(t *testing.T) {
	c := &classes{Encoder: doubles.NewEncoder()}
	w := newWorldWith(t, func(o *sluice.Config) { o.Embedder = c })
	send := func(texts ...string) (int, string) {
		list, err := json.Marshal(texts)
		if err != nil {
			t.Error(err)
		}
		return do(t, w, post("/v1/embeddings", `{"model":"words","input":`+string(list)+`}`))
	}
	c.batch = nil
	many := slices.Repeat([]string{"a ship"}, bulkTexts+1)
	for _, x := range []struct {
		texts []string
		batch bool
	}{{many[:1], false}, {many[:bulkTexts], false}, {many, true}, {[]string{strings.Repeat("a ", bulkBytes)}, true}} {
		if status, body := send(x.texts...); status != http.StatusOK {
			t.Fatal(status, body)
		}
		if got := c.batch[len(c.batch)-1]; got != x.batch {
			t.Errorf("%d texts, %d bytes: batch job %v", len(x.texts), len(x.texts[0]), got)
		}
	}
	before := len(c.batch)
	c.hold = make(chan struct{})
	var g sync.WaitGroup
	for range bulkRequests {
		g.Go(func() {
			if status, body := send(many...); status != http.StatusOK {
				t.Error(status, body)
			}
		})
	}
	for n := 0; n < before+bulkRequests; {
		c.mu.Lock()
		n = len(c.batch)
		c.mu.Unlock()
	}
	if status, body := send(many...); status != http.StatusTooManyRequests ||
		!strings.Contains(body, "the limit is 16") {
		t.Error(status, body)
	}
	if status, body := send("a ship"); status != http.StatusOK {
		t.Error(status, body)
	}
	close(c.hold)
	g.Wait()
}
