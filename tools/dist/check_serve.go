package dist

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// service is a server that runs on the other system.
type service struct {
	address string
	key     string
	cmd     *exec.Cmd
	log     *bytes.Buffer // its standard error
}

// start starts a server and waits until it prints its address.
func (p place) start(ctx context.Context, args ...string) (*service, error) {
	s := &service{log: &bytes.Buffer{}, cmd: p.command(ctx, args...)}
	s.cmd.Stderr = s.log
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	var ready struct{ Listening string }
	if err == nil {
		err = json.Unmarshal([]byte(line), &ready)
	}
	if err != nil || ready.Listening == "" {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return nil,
			fmt.Errorf("%s: says %q instead of where it listens: %w\n%s", strings.Join(args, " "), line, err, s.log)
	}
	s.address = regexp.MustCompile(`//(0\.0\.0\.0|\[::\]):`).ReplaceAllString(ready.Listening, "//127.0.0.1:")
	return s, nil
}

// ask sends a request, a POST if there is a body, and looks for a text in the answer.
func (s *service) ask(ctx context.Context, path, body, want string) error {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, s.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	if r.Header.Set("Content-Type", "application/json"); s.key != "" {
		r.Header.Set("Authorization", "Bearer "+s.key)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(io.LimitReader(a.Body, 1<<20))
	if err != nil {
		return err
	}
	if a.StatusCode >= 300 || !regexp.MustCompile(want).Match(text) {
		return fmt.Errorf("%s %s: %s, and not %q:\n%.2000s", method, path, a.Status, want, text)
	}
	return nil
}

// end sends SIGTERM to the server and waits until it has ended, as it should.
func (s *service) end() error {
	pid := strconv.Itoa(s.cmd.Process.Pid)
	children, err := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children"))
	if err != nil {
		return err
	}
	for child := range strings.FieldsSeq(string(children)) {
		n, err := strconv.Atoi(child)
		if err == nil {
			err = syscall.Kill(n, syscall.SIGTERM)
		}
		if err != nil {
			return err
		}
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("after SIGTERM: %w\n%s", err, s.log)
	}
	return nil
}

// serve answers over HTTP from the store of the main job.
func (c *checker) serve(ctx context.Context) (err error) {
	s, err := c.user().start(ctx, path.Join(c.place, "first", c.top, "bin/sluice"), "serve",
		"--listen", "127.0.0.1:0", "--store", c.home+"/kb")
	if err != nil {
		return err
	}
	for _, x := range []struct{ path, body, want string }{
		{"/readyz", "", `"ready"`},
		{"/", "", `<title>Sluice</title>`},
		{"/v1/gate", `{"query":"How long do I boil an egg?"}`, `"retrieve":false`},
		{"/v1/retrieve", `{"query":"What is a tile?","k":1}`, `"score":`},
		{"/v1/chat/completions", `{"model":"sluice","max_tokens":16,"messages":[{"role":"user","content":` +
			`"What does the build tag native do?"}]}`, `"citations":\[\{`},
		{"/v1/calibration", "", `"effects":\[\{`},
	} {
		if err = s.ask(ctx, x.path, x.body, x.want); err != nil {
			break
		}
	}
	if err = errors.Join(err, s.end()); err != nil {
		return err
	}
	c.say("✓ sluice serve: page, gate, retrieval, an answer, SIGTERM")
	return nil
}
