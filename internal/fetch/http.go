package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// reportEvery is the interval between calls of a Progress.
	reportEvery = 200 * time.Millisecond
	// worthwhile is the number of bytes after which a broken attempt resets the count of retries: a file of many
	// gigabytes may break more often than a small one.
	worthwhile = 1 << 20
)

// HTTP returns the path of the wanted file, downloading it if it is not in the cache. An interrupted download is
// resumed where it stopped, also by a later process, if the server still has the same version of the file. If the
// content does not match its pin, or the digest that the hub states, the file is deleted and the error is ErrMismatch.
func (c *Cache) HTTP(ctx context.Context, w Want, progress Progress) (string, error) {
	if path, ok := c.Blob(w); ok {
		return path, nil
	}
	key := w.key()
	unlock, err := c.Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, ok := c.Blob(w); ok { // another process has downloaded it in the meantime
		return path, nil
	}
	dir, err := c.Dir("partial")
	if err != nil {
		return "", err
	}
	part := partial{filepath.Join(dir, key)}
	err = c.retry(ctx, w.Name, func() (fruitful bool, err error) {
		before := part.size()
		stated, err := c.attempt(ctx, w, part, progress)
		if err == nil && w.SHA256 == "" {
			w.SHA256 = stated
		}
		return part.size()-before >= worthwhile, err
	})
	if err != nil {
		return "", err
	}
	defer part.forget()
	return c.adopt(part.path, w)
}

// attempt makes one request for the missing rest of part and appends the answer. It returns the digest that the hub
// states.
func (c *Cache) attempt(ctx context.Context, w Want, part partial, progress Progress) (stated string, err error) {
	have, version := part.size(), part.version()
	if have > 0 && version == "" && w.SHA256 == "" { // mixed versions of the file could not be detected
		part.drop()
		have = 0
	}
	if w.Size > 0 && have >= w.Size { // complete or damaged: adopt finds out which
		return "", nil
	}
	ctx, watch, cancel := c.watch(ctx)
	defer cancel()
	header := http.Header{}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
		if version != "" {
			header.Set("If-Range", version)
		}
	}
	resp, err := c.get(ctx, w, header)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	from, done, err := part.answer(resp, w.URL, have, version)
	if err != nil || done {
		return statedDigest(resp), err
	}
	if whole := from + resp.ContentLength; w.Size > 0 && resp.ContentLength >= 0 && whole != w.Size {
		part.drop()
		return "", &MismatchError{w.Name, "size", strconv.FormatInt(w.Size, 10), strconv.FormatInt(whole, 10)}
	}
	total := w.Size
	if total == 0 && resp.ContentLength > 0 {
		total = from + resp.ContentLength
	}
	// Only the missing bytes count: a restart from 0 drops the existing part, which frees its space.
	if err := c.room(w.Name, total-have); err != nil {
		return "", err
	}
	flag := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if from == 0 {
		flag = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if err := part.begin(versionOf(resp)); err != nil {
			return "", err
		}
	}
	body := &watched{resp.Body, watch, c.stall}
	err = c.receive(body, part.path, flag, meter{w.Name, from, total, time.Time{}, progress}, w.Size)
	if errors.Is(err, ErrIncomplete) {
		err = broken(ctx, w.URL, err)
	}
	return statedDigest(resp), err
}

// watched resets the timeout on every read.
type watched struct {
	io.Reader
	watch *time.Timer
	stall time.Duration
}

func (r *watched) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.watch.Reset(r.stall)
	}
	return n, err
}

// receive copies a response body to the file. A failed read may be retried, a failed write may not.
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
		case limit > 0 && m.done > limit: // larger than the pin allows: do not fill the disk
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

var reSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

// statedDigest returns the SHA-256 that Hugging Face's hub states for a large file in the response that redirects to
// its storage (X-Linked-Etag; for small files it is a git digest), or "".
func statedDigest(resp *http.Response) string {
	for r := resp; r != nil; r = r.Request.Response {
		if sum := strings.Trim(r.Header.Get("X-Linked-Etag"), `"`); reSHA256.MatchString(sum) {
			return sum
		}
		if r.Request == nil {
			break
		}
	}
	return ""
}

// meter calls a Progress at intervals.
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
