package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// reportEvery spaces the calls of a Progress.
const reportEvery = 200 * time.Millisecond

// HTTP returns the path of the wanted file, downloading it if it is not in the cache. A download that breaks is resumed where
// it stopped, also by a later process; one that ends with other content is deleted and fails with ErrMismatch.
func (c *Cache) HTTP(ctx context.Context, w Want, progress Progress) (string, error) {
	if path, ok := c.Blob(w); ok {
		return path, nil
	}
	key := w.SHA256
	if key == "" {
		sum := sha256.Sum256([]byte(w.URL))
		key = "url-" + hex.EncodeToString(sum[:])
	}
	unlock, err := c.Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, ok := c.Blob(w); ok { // another process brought it meanwhile
		return path, nil
	}
	dir, err := c.Dir("partial")
	if err != nil {
		return "", err
	}
	part := filepath.Join(dir, key)
	pause := c.backoff
	for try := 0; ; try++ {
		err = c.attempt(ctx, w, part, progress)
		if err == nil {
			return c.adopt(part, w)
		}
		if !errors.Is(err, ErrIncomplete) || ctx.Err() != nil || try == c.retries {
			return "", fmt.Errorf("%s: %w", w.Name, err)
		}
		c.log("%s: %v; trying again in %v", w.Name, err, pause)
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// attempt makes one request for what is missing of part and appends the answer.
func (c *Cache) attempt(ctx context.Context, w Want, part string, progress Progress) error {
	have := int64(0)
	if st, err := os.Stat(part); err == nil {
		have = st.Size()
	}
	if w.Size > 0 && have >= w.Size { // complete or damaged: adopt finds out which
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	defer resp.Body.Close()
	flag := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	switch {
	case resp.StatusCode == http.StatusOK: // the server ignores ranges, or everything was asked for
		flag, have = os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0
	case resp.StatusCode == http.StatusPartialContent && rangeStart(resp) == have:
	case resp.StatusCode == http.StatusPartialContent, resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		// What lies here is not a beginning of what lies there: start afresh.
		_ = os.Remove(part)
		return fmt.Errorf("%w: %s for %s", ErrIncomplete, resp.Status, req.Header.Get("Range"))
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusRequestTimeout:
		return fmt.Errorf("%w: %s", ErrIncomplete, resp.Status)
	default:
		return fmt.Errorf("%w: %s answers %s", ErrHTTP, w.URL, resp.Status)
	}
	total := w.Size
	if total == 0 && resp.ContentLength > 0 {
		total = have + resp.ContentLength
	}
	return c.receive(resp.Body, part, flag, meter{w.Name, have, total, time.Time{}, progress}, w.Size)
}

// receive copies a response body to the file. A read that fails is worth another try, a write that fails is not.
func (c *Cache) receive(body io.Reader, part string, flag int, m meter, limit int64) (err error) {
	f, err := c.create(part, flag)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrWrite, err)
	}
	defer func() {
		if e := f.Close(); e != nil && err == nil {
			err = fmt.Errorf("%w: %w", ErrWrite, e)
		}
	}()
	buf := make([]byte, 256<<10)
	for {
		n, rerr := body.Read(buf)
		if n > 0 {
			c.download.Add(int64(n))
			if _, werr := f.Write(buf[:n]); werr != nil {
				return fmt.Errorf("%w: %s after %d bytes: %w", ErrWrite, part, m.done, werr)
			}
			m.add(int64(n))
		}
		switch {
		case limit > 0 && m.done > limit: // more than the pin allows: do not fill the disk with it
			return nil
		case rerr == io.EOF && m.total > 0 && m.done < m.total:
			return fmt.Errorf("%w: %d of %d bytes", ErrIncomplete, m.done, m.total)
		case rerr == io.EOF:
			m.report()
			return nil
		case rerr != nil:
			return fmt.Errorf("%w: %w", ErrIncomplete, rerr)
		}
	}
}

// rangeStart returns the first byte of a partial answer, or -1.
func rangeStart(resp *http.Response) int64 {
	var from int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-", &from); err != nil {
		return -1
	}
	return from
}

// meter calls a Progress now and then.
type meter struct {
	name        string
	done, total int64
	last        time.Time
	progress    Progress
}

func (m *meter) add(n int64) {
	m.done += n
	if time.Since(m.last) >= reportEvery {
		m.report()
	}
}

func (m *meter) report() {
	m.last = time.Now()
	if m.progress != nil {
		m.progress(m.name, m.done, m.total)
	}
}
