package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// asking is one request of a load, and what reads its answer; read may be nil.
type asking struct {
	url   string
	body  []byte
	read  func(io.Reader) error
	fresh bool // on a connection of its own, because llama-server sometimes closes one after its answer
}

// result is the measurement of a load.
type result struct {
	latencies []time.Duration // of the answered requests, sorted
	wall      time.Duration
	cpu       time.Duration // of the server's processes
}

func (r *result) percentile(p float64) float64 {
	if len(r.latencies) == 0 {
		return 0
	}
	return milliseconds(r.latencies[min(int(p*float64(len(r.latencies))), len(r.latencies)-1)])
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

var errStatus = errors.New("bench: the server did not answer as it should")

// drive sends requests over a number of connections until the time is over, or n are answered (n > 0). ask returns the
// i-th request.
func drive(ctx context.Context, connections, n int, within time.Duration, ask func(i int) asking) (*result, error) {
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var next atomic.Int64
	var all sync.WaitGroup
	each, errs := make([][]time.Duration, connections), make([]error, connections)
	begun := time.Now()
	for c := range connections {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if n > 0 && i >= n || n == 0 && time.Since(begun) >= within || ctx.Err() != nil {
					return
				}
				sent := time.Now()
				if errs[c] = send(ctx, client, ask(i)); errs[c] != nil {
					return
				}
				each[c] = append(each[c], time.Since(sent))
			}
		})
	}
	all.Wait()
	r := &result{wall: time.Since(begun), latencies: slices.Concat(each...)}
	slices.Sort(r.latencies)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(r.latencies) == 0 {
		return nil, fmt.Errorf("%w: none of its answers came within %v", errStatus, within)
	}
	return r, nil
}

func send(ctx context.Context, client *http.Client, a asking) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(a.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Close = a.fresh
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is of it
		return fmt.Errorf("%w: %s: %s: %s", errStatus, a.url, resp.Status, bytes.TrimSpace(text))
	}
	if a.read != nil {
		err = a.read(resp.Body)
	}
	_, drained := io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	return errors.Join(err, drained)
}
