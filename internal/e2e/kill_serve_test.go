//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestServeKilled kills a server with SIGKILL while it ingests uploads and streams answers, and starts it again over
// the same store: every document that was acknowledged with 202 is there in the end.
func TestServeKilled(t *testing.T) {
	bin := binary(t)
	kills := 2
	if length := soakTime(t); length > time.Minute {
		kills = int(length / (30 * time.Second))
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d, %d kills", seed, kills)
	s, store := soakServer(t, bin)
	promised := map[string]bool{}
	for round := range kills {
		killed := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { s.streamUntil(killed) })
		var mu sync.Mutex
		first := make(chan struct{})
		once := sync.OnceFunc(func() { close(first) })
		all.Go(func() {
			for batch := 0; ; batch++ {
				ids, ok := s.upload(round, batch)
				if !ok {
					select {
					case <-killed:
						return
					case <-time.After(20 * time.Millisecond): // too many uploads wait
						continue
					}
				}
				mu.Lock()
				for _, id := range ids {
					promised[id] = true
				}
				mu.Unlock()
				once()
			}
		})
		<-first
		time.Sleep(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait() // it was killed
		close(killed)
		all.Wait()
		s = startServer(t, bin, "--store", store, "--stale-tolerance", "1", "--log-level", "error")
	}
	var missing []string
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if missing = missingDocuments(t, bin, store, promised); len(missing) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d acknowledged documents are gone, first %q", len(missing), len(promised), missing[0])
	}
	t.Logf("%d documents were acknowledged, %d are there", len(promised), len(promised)-len(missing))
	if err := s.end(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}

// upload hands some texts in, and returns their ids if they were acknowledged.
func (s *server) upload(round, batch int) (ids []string, ok bool) {
	var texts []string
	for i := range 40 {
		id := fmt.Sprintf("up-%d-%d-%d", round, batch, i)
		ids = append(ids, id)
		text := fmt.Sprintf("Box %d of batch %d in round %d holds %d marbles.", i, batch, round, 7*i+batch)
		texts = append(texts, fmt.Sprintf(`{"id":%q,"text":%q}`, id, text))
	}
	body := `{"documents":[` + strings.Join(texts, ",") + `]}`
	resp, err := http.Post(s.url+"/v1/documents", "application/json", strings.NewReader(body)) //nolint:noctx // short
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	_, err = io.Copy(io.Discard, resp.Body)
	return ids, err == nil && resp.StatusCode == http.StatusAccepted
}

// streamUntil has answers streamed until the server is gone.
func (s *server) streamUntil(gone <-chan struct{}) {
	for {
		select {
		case <-gone:
			return
		default:
		}
		//nolint:noctx // the server's end ends it
		resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(
			`{"model":"default","stream":true,"max_tokens":30,"messages":[{"role":"user","content":"Count the marbles."}]}`))
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body) // it may break off
		_ = resp.Body.Close()
	}
}

// missingDocuments returns the promised documents that the store does not have.
func missingDocuments(t *testing.T, bin, store string, promised map[string]bool) (missing []string) {
	t.Helper()
	held := map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(run(t, bin, "docs", "list", "--store", store, "--json")))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var document struct{ ID string }
		if err := json.Unmarshal(lines.Bytes(), &document); err != nil {
			t.Fatal(err)
		}
		held[document.ID] = true
	}
	for id := range promised {
		if !held[id] {
			missing = append(missing, id)
		}
	}
	return missing
}
