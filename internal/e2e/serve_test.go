//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
)

// server is a running `sluice serve`.
type server struct {
	cmd    *exec.Cmd
	url    string
	stderr *bytes.Buffer // to be read after it has ended
	rest   *bufio.Reader // standard output after the first line
}

// startServer starts `sluice serve` at a free port with further arguments, and returns when it is ready. It is killed
// at the test's end if it still runs.
func startServer(t *testing.T, bin string, args ...string) *server {
	t.Helper()
	s := &server{stderr: &bytes.Buffer{}}
	// SIGKILL at the end of the test
	s.cmd = exec.CommandContext(t.Context(), bin, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	s.rest = bufio.NewReader(out)
	line, err := s.rest.ReadBytes('\n')
	var said struct{ Listening string }
	if err != nil || json.Unmarshal(line, &said) != nil || !strings.HasPrefix(said.Listening, "http") {
		_ = s.cmd.Wait()
		t.Fatalf("the server says %q, %v\n%s", line, err, s.stderr)
	}
	s.url = said.Listening
	return s
}

// end sends SIGTERM and waits; it returns what Wait does.
func (s *server) end(t *testing.T) error {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(s.rest)
	if len(rest) > 0 {
		t.Errorf("standard output goes on with %q", rest)
	}
	return s.cmd.Wait()
}

// post sends JSON with a key, "" for none, and returns status and body.
func (s *server) post(t *testing.T, key, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// writeFile writes a file of the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServe: two stores, keys, another process that writes, and a good end.
func TestServe(t *testing.T) {
	bin := binary(t)
	sea, second := filepath.Join(t.TempDir(), "sea"), filepath.Join(t.TempDir(), "second")
	run(t, bin, "ingest", "-q", "--no-chunk", "--store", sea, writeFile(t, "a.jsonl", doubles.Contexts))
	run(t, bin, "calibrate", "-q", "--store", sea, "--queries", writeFile(t, "q.jsonl", doubles.Questions))
	const key, other = "0123456789abcdef0123", "fedcba9876543210fedc"
	keys := writeFile(t, "keys", key+"\n"+other+" second\n")
	s := startServer(t, bin, "--store", "sea="+sea, "--store", "second="+second, "--api-key-file", keys)

	const question = `{"query":"When does a deferred function run, in which order?"`
	status, body := s.post(t, key, "/v1/gate", question+`}`)
	if status != 200 || !strings.Contains(body, `"context_id":"defer"`) {
		t.Errorf("%d %s", status, body)
	}
	for _, c := range []struct {
		key, body string
		status    int
	}{{"", question + `}`, 401}, {other, question + `,"store":"sea"}`, 404}, {other, question + `}`, 409}} {
		if status, body := s.post(t, c.key, "/v1/gate", c.body); status != c.status {
			t.Errorf("%d %s, want %d", status, body, c.status)
		}
	}
	run(t, bin, "ingest", "-q", "--no-chunk", "--store", second, writeFile(t, "b.jsonl", doubles.Contexts))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		status, body := s.post(t, other, "/v1/retrieve", question+`,"k":1}`)
		if status == 200 && strings.Contains(body, "surrounding function returns") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d %s", status, body)
		}
	}
	if err := s.end(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
	for line := range strings.Lines(s.stderr.String()) {
		if !json.Valid([]byte(line)) || strings.Contains(line, key) {
			t.Errorf("a line of the log: %s", line)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	bin := binary(t)
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"the world, without keys": {[]string{"--listen", "0.0.0.0:0"}, 2, "other machines can reach the server"},
		"no port":                 {[]string{"--listen", "127.0.0.1"}, 2, "no address with a port"},
		"the same name twice": {[]string{"--store", "a=" + dir, "--store", "a=" + dir}, 2,
			`two knowledge bases are named "a"`},
		"a bad name": {[]string{"--store", "a b=" + dir}, 2, `named "a b"`},
		"no keys":    {[]string{"--api-key-file", writeFile(t, "none", "# none\n")}, 2, "holds none"},
		"a short key": {[]string{"--api-key-file", writeFile(t, "short", "\nabc\n")}, 2,
			"line 2: the key has 3 characters"},
		"a key for another store": {[]string{"--api-key-file", writeFile(t, "other", "0123456789abcdef moon\n")}, 2,
			`"moon"`},
		"half of TLS": {[]string{"--tls-cert", "x"}, 2, "both --tls-cert and --tls-key"},
		"no model": {[]string{"--model", filepath.Join(dir, "none.gguf"), "--store", dir}, 2,
			"none.gguf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			args := append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)
			out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("%v, want exit code %d and %q\n%s", err, c.code, c.says, out)
			}
		})
	}
}

// TestServeTLS: the certificate is the one that was given, and plain HTTP is refused.
func TestServeTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	certificate, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	s := startServer(t, binary(t), "--store", filepath.Join(t.TempDir(), "store"), "--tls-cert",
		writeFile(t, "cert.pem", block("CERTIFICATE", certificate)), "--tls-key",
		writeFile(t, "key.pem", block("PRIVATE KEY", private)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(block("CERTIFICATE", certificate)))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	defer client.CloseIdleConnections()
	get := func(url string) (int, error) {
		resp, err := client.Get(url) //nolint:noctx // the test ends with it
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	if status, err := get(s.url + "/readyz"); err != nil || status != http.StatusOK ||
		!strings.HasPrefix(s.url, "https://") {
		t.Errorf("%s: %d, %v", s.url, status, err)
	}
	plain := "http" + strings.TrimPrefix(s.url, "https") + "/readyz"
	if status, err := get(plain); err == nil && status == http.StatusOK {
		t.Error("plain HTTP is answered as well")
	}
	if err := s.end(t); err != nil {
		t.Errorf("%v\n%s", err, s.stderr)
	}
}
