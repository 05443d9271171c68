package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice"
	"github.com/sluice-rag/sluice/internal/test/postgres"
	"github.com/sluice-rag/sluice/internal/testmodels/doubles"
	"github.com/sluice-rag/sluice/internal/testmodels/overlay"
)

// composed is what the test needs of compose.yaml.
type composed struct {
	Services map[string]struct {
		Environment map[string]string
	}
	Configs map[string]struct{ Content string }
}

// at starts a server of a store at an address, and returns what ends it.
func at(t *testing.T, address, cache, name string, fill bool) (stop func() error) {
	t.Helper()
	t.Setenv("SLUICE_CACHE", cache)
	w, log := &world{encoder: doubles.NewEncoder(), dir: t.TempDir()}, slog.New(slog.DiscardHandler)
	s, err := sluice.Open(t.Context(), sluice.Config{Store: name, Embedder: w.encoder,
		Generator: doubles.NewModel(""), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	if fill {
		w.fill(t, s)
	}
	server, err := New(overlay.On(DefaultConfig(), Config{Bases: []Base{{"sea", s}}, Logger: log}))
	if err == nil {
		err = server.Warm(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	return sync.OnceValue(func() error {
		cancel()
		return errors.Join(<-ended, s.Close())
	})
}

// freeAddress returns one that nobody listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// balanced runs nginx with the configuration of compose.yaml, with other addresses.
func balanced(t *testing.T, nginx, content string, addresses ...string) {
	t.Helper()
	dir := t.TempDir()
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	content = strings.NewReplacer(append(addresses, "$$", "$")...).Replace(content)
	file, log := filepath.Join(dir, "nginx.conf"), filepath.Join(dir, "error.log")
	if err := os.WriteFile(file, fmt.Appendf(nil, `daemon off; %s pid %s/pid; events {}
		http { access_log off; client_body_temp_path %[2]s/body; proxy_temp_path %[2]s/proxy;
		fastcgi_temp_path %[2]s/f; uwsgi_temp_path %[2]s/u; scgi_temp_path %[2]s/s; %s }`, user, dir, content),
		0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(nginx, "-p", dir, "-c", file, "-e", log)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("%s", text)
		}
	})
}

// The parts of compose.yaml, without containers: PostgreSQL, two servers of its store, and nginx with its
// configuration. While one server after the other is restarted, no request fails.
func TestCompose(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("SKIP: nginx is not installed")
	}
	text, err := os.ReadFile("../tools/dist/share/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c composed
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	database := postgres.Start(t)
	there, err := url.Parse(database.URL())
	if err != nil {
		t.Fatal(err)
	}
	addresses, replace := map[string]string{}, []string{"listen 7420", "listen " + freeAddress(t)}
	stops, stores := map[string]func() error{}, map[string]string{}
	for i, name := range []string{"one", "two"} {
		s := c.Services[name]
		u, err := url.Parse(s.Environment["SLUICE_STORE"])
		if err != nil || u.Host != "database" {
			t.Fatal(u, err)
		}
		u.Host, u.Path, u.User = there.Host, there.Path, there.User
		stores[name], addresses[name] = u.String(), freeAddress(t)
		replace = append(replace, "server "+name+":7420", "server "+addresses[name])
		stops[name] = at(t, addresses[name], t.TempDir(), stores[name], i == 0)
		defer func() { _ = stops[name]() }()
	}
	balanced(t, nginx, c.Configs["balancer"].Content, replace...)
	balancer := "http://" + strings.TrimPrefix(replace[1], "listen ")
	ask := func() error {
		r, err := client(t).Post(balancer+"/v1/gate", "application/json",
			bytes.NewReader([]byte(`{"queries":["When does a deferred function run?"]}`)))
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if raw, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
			return fmt.Errorf("%d %s %w", r.StatusCode, raw, err)
		}
		return nil
	}
	until(t, "the balancer does not answer", func() bool { return ask() == nil })
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var asked atomic.Int64
	for range 2 {
		asking.Go(func() {
			for ; ctx.Err() == nil; asked.Add(1) {
				if err := ask(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for name := range stops {
		if err := stops[name](); err != nil {
			t.Error(err)
		}
		stops[name] = at(t, addresses[name], t.TempDir(), stores[name], false)
		time.Sleep(3 * time.Second) // longer than the balancer leaves a server out
	}
	stop()
	asking.Wait()
	t.Logf("%d requests through the balancer", asked.Load())
}
