package setup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

var (
	// ErrPrerequisite is wrapped when the machine lacks a tool. The text names it and how to install it.
	ErrPrerequisite = errors.New("set-up: prerequisites are missing")
	// ErrPart is wrapped when a recipe fails.
	ErrPart = errors.New("set-up failed")
)

// EnvArch names the architecture to build for, as Go does; without it, this machine's.
const EnvArch = "SLUICE_ARCH"

// Env is the environment of recipes.
type Env struct {
	Repo     string // the repository's root
	Arch     string // GOARCH of what is built: amd64 or arm64
	Cache    *fetch.Cache
	Manifest *manifest.Manifest
	console  *console

	mu     sync.Mutex // of ready; held during the preflight
	ready  bool       // the preflight has passed
	stamps sync.Mutex // held while a stamp is written: two parts share one

	queries  sync.Mutex
	versions map[string]string // of tools, by command
}

// New returns the environment of the repository at repo, which reports its work on out.
func New(repo string, out io.Writer) (*Env, error) {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return nil, err
	}
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		return nil, err
	}
	con := newConsole(out)
	cache, err := fetch.Open("", fetch.WithLog(con.printf))
	if err != nil {
		return nil, err
	}
	arch := cmp.Or(os.Getenv(EnvArch), runtime.GOARCH)
	if machines[arch] == "" {
		return nil, fmt.Errorf("%w: %s=%s: amd64 and arm64 can be built for", ErrPrerequisite, EnvArch, arch)
	}
	return &Env{Repo: repo, Arch: arch, Cache: cache, Manifest: m, console: con,
		versions: map[string]string{}}, nil
}

// recipe makes one output folder in the cache.
type recipe struct {
	name    string
	version int // raise it when build changes what it makes
	inputs  func(context.Context, *Env) ([]string, error)
	build   func(ctx context.Context, e *Env, j job) error
}

// job is where a recipe works. work survives an interruption, out becomes the result.
type job struct{ name, work, out string }

// key returns the name of the recipe's output folder.
func (r recipe) key(ctx context.Context, e *Env) (string, error) {
	in, err := r.inputs(ctx, e)
	if err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrPart, r.name, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%d\x00", r.name, r.version)
	for _, s := range in {
		fmt.Fprintf(h, "%d\x00%s", len(s), s)
	}
	return r.name + "-" + hex.EncodeToString(h.Sum(nil)[:10]), nil
}

// output returns the recipe's output folder, building it when it is not there.
func (e *Env) output(ctx context.Context, r recipe) (string, error) {
	key, err := r.key(ctx, e)
	if err != nil {
		return "", err
	}
	dir := e.Cache.Path("out", key)
	if exists(dir) {
		return dir, nil
	}
	unlock, err := e.Cache.Lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(dir) { // another process made it meanwhile
		return dir, nil
	}
	work, err := e.Cache.Dir("build", key)
	if err != nil {
		return "", err
	}
	j := job{name: r.name, work: work, out: filepath.Join(work, ".out")}
	if err := os.RemoveAll(j.out); err != nil {
		return "", err
	}
	if err := os.MkdirAll(j.out, 0o755); err != nil {
		return "", err
	}
	if err := r.build(ctx, e, j); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrPart, r.name, err)
	}
	if now, err := r.key(ctx, e); err != nil || now != key { // an edit during the build
		return "", fmt.Errorf("%w: %s: its sources changed while they were compiled; run the set-up again",
			ErrPart, r.name)
	}
	if _, err := e.Cache.Dir("out"); err != nil {
		return "", err
	}
	if err := os.Rename(j.out, dir); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrPart, r.name, err)
	}
	return dir, os.RemoveAll(work)
}

// run executes a command in dir. Its output goes to logs/<job>.log; on failure the end of it is in the error.
func (e *Env) run(ctx context.Context, j job, dir string, env []string, name string, args ...string) error {
	logs, err := e.Cache.Dir("logs")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(logs, j.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "\n# %s\n$ %s %s\n", time.Now().Format(time.RFC3339), name, strings.Join(args, " "))
	follow := &follower{part: j.name, console: e.console}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out := io.MultiWriter(log, follow)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	start := time.Now()
	err = cmd.Run()
	if p := cmd.ProcessState; p != nil {
		fmt.Fprintf(log, "# %s, of CPU %s\n", took(time.Since(start)), took(p.UserTime()+p.SystemTime()))
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w\n%s\n(whole log: %s)", name, err, follow.tail(), log.Name())
	}
	return nil
}

// query returns the trimmed output of a quick command, remembered for this run.
func (e *Env) query(ctx context.Context, name string, args ...string) (string, error) {
	key := name + " " + strings.Join(args, " ")
	e.queries.Lock()
	v, ok := e.versions[key]
	e.queries.Unlock()
	if ok {
		return v, nil
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = e.Repo
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s: %w", key, err)
	}
	v = strings.TrimSpace(string(out))
	e.queries.Lock()
	defer e.queries.Unlock()
	e.versions[key] = v
	return v, nil
}

// module returns the folder of a Go module in the module cache, downloading it if need be.
func (e *Env) module(ctx context.Context, path string) (string, error) {
	if _, err := e.query(ctx, "go", "mod", "download", path); err != nil {
		return "", err
	}
	return e.query(ctx, "go", "list", "-m", "-f", "{{.Dir}}", path)
}

// compilers returns the C and C++ compilers and how they call themselves.
func (e *Env) compilers(ctx context.Context) (cc, cxx, id string, err error) {
	cc, cxx = cmp.Or(os.Getenv("CC"), e.Tool("gcc")), cmp.Or(os.Getenv("CXX"), e.Tool("g++"))
	a, err := e.query(ctx, cc, "--version")
	if err != nil {
		return "", "", "", err
	}
	b, err := e.query(ctx, cxx, "--version")
	return cc, cxx, a + "\n" + b, err
}

// machines are the architectures that can be built for, as GNU tools and Rust name them.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// Machine returns the name that GNU tools and wheels have for e.Arch.
func (e *Env) Machine() string { return machines[e.Arch] }

// Tool returns the name of a compiler or of one of binutils for e.Arch: for another one than this machine's, Debian's.
func (e *Env) Tool(name string) string {
	if e.Arch == runtime.GOARCH {
		return name
	}
	return machines[e.Arch] + "-linux-gnu-" + name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
