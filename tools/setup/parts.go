package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/filehash"
)

// part is something that `setup` puts in place in the repository.
type part struct {
	name string
	doc  string
	// recipes returns the output folders that the part is made of, building what is missing.
	recipes func(context.Context, *Env) ([]string, error)
	// files maps patterns inside the outputs to names or folders (ending in /) in the repository.
	files []install
	// after runs when the files are in place; what it writes belongs to others' folders (stamps).
	after func(context.Context, *Env) error
	// key describes the result without building it.
	key func(context.Context, *Env) (string, error)
	// assemble puts in place what is not copied into the repository (models, modules, launchers).
	assemble func(ctx context.Context, e *Env, outputs []string) error
	// lane groups parts that run one after the other, concurrently with other lanes: network transfers ("") do not
	// delay work that keeps cores busy, and if one compiler uses one core, another lane uses the rest.
	lane string
}

type install struct{ from, to string }

// state is the note that a part leaves in build/out: if it still holds, there is nothing to do.
type state struct {
	Key   string      `json:"key"`
	Files []fileState `json:"files"`
}

type fileState struct {
	Path  string    `json:"path"`
	Size  int64     `json:"size"`
	MTime time.Time `json:"mtime"`
}

// ensure puts one part in place and reports whether there was anything to do.
func (e *Env) ensure(ctx context.Context, p part) (bool, error) {
	key, err := p.key(ctx, e)
	if err == nil && e.inPlace(p, key) {
		return false, nil
	}
	if err := e.checkTools(ctx); err != nil { // only now, so that a set-up with nothing to do is quick
		return true, err
	}
	if err != nil {
		return true, fmt.Errorf("%w: %s: %w", ErrPart, p.name, err)
	}
	start := time.Now()
	files, err := e.install(ctx, p)
	if err == nil && p.files == nil {
		key, err = p.key(ctx, e) // the key describes the installed files, and these have changed
	}
	if err != nil {
		return true, err
	}
	if p.after != nil {
		if err := p.after(ctx, e); err != nil {
			return true, fmt.Errorf("%w: %s: %w", ErrPart, p.name, err)
		}
	}
	if err := e.note(p, key, files); err != nil {
		return true, err
	}
	e.console.printf("%-12s done in %s", p.name, took(time.Since(start)))
	return true, nil
}

// checkTools runs the preflight at most once.
func (e *Env) checkTools(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ready {
		return nil
	}
	err := e.Preflight(ctx, false)
	e.ready = err == nil
	return err
}

// install builds the outputs, copies their files into the repository, and assembles the rest.
func (e *Env) install(ctx context.Context, p part) (files []string, err error) {
	var outputs []string
	if p.recipes != nil {
		if outputs, err = p.recipes(ctx, e); err != nil {
			return nil, err
		}
	}
	for _, in := range p.files {
		var found []string
		for _, dir := range outputs {
			m, err := filepath.Glob(filepath.Join(dir, in.from))
			if err != nil {
				return nil, err
			}
			found = append(found, m...)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%w: %s: no output matches %s", ErrPart, p.name, in.from)
		}
		for _, f := range found {
			to := in.to
			if strings.HasSuffix(to, "/") {
				to += filepath.Base(f)
			}
			if err := copyFile(f, filepath.Join(e.Repo, to)); err != nil {
				return nil, fmt.Errorf("%w: %s: %w", ErrPart, p.name, err)
			}
			files = append(files, to)
		}
	}
	if p.assemble != nil {
		err = p.assemble(ctx, e, outputs)
	}
	return files, err
}

func (e *Env) statePath(p part) string {
	return filepath.Join(e.Repo, "build", "out", "setup", p.name+".json")
}

func (e *Env) inPlace(p part, key string) bool {
	text, err := os.ReadFile(e.statePath(p))
	var s state
	if err != nil || json.Unmarshal(text, &s) != nil || s.Key != key {
		return false
	}
	for _, f := range s.Files {
		st, err := os.Stat(filepath.Join(e.Repo, f.Path))
		if err != nil || st.Size() != f.Size || !st.ModTime().Equal(f.MTime) {
			return false
		}
	}
	return true
}

func (e *Env) note(p part, key string, files []string) error {
	s := state{Key: key}
	for _, f := range files {
		st, err := os.Stat(filepath.Join(e.Repo, f))
		if err != nil {
			return err
		}
		s.Files = append(s.Files, fileState{f, st.Size(), st.ModTime()})
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(e.statePath(p), strings.NewReader(string(text)+"\n"), 0o644)
}

// linked is a file that a Go package links or opens, below third_party.
type linked struct{ path, about string }

// stamp writes the digests of linked files to <pkg>/stamp/native.digest. Go embeds that file in the package that links
// them, because its build cache does not look into archives: so a changed archive is a changed package. An unchanged
// stamp keeps its modification time; a file that is not there yet is left out.
func (e *Env) stamp(pkg string, files ...linked) error {
	e.stamps.Lock()
	defer e.stamps.Unlock()
	var b strings.Builder
	for _, f := range files {
		sum, err := filehash.Sum(context.Background(), filepath.Join(e.Repo, "third_party", f.path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s sha256:%s %s\n", filepath.Base(f.path), sum, f.about)
	}
	path := filepath.Join(e.Repo, pkg, "stamp", "native.digest")
	old, err := os.ReadFile(path)
	if err == nil && string(old) == b.String() {
		return nil
	}
	return WriteFile(path, strings.NewReader(b.String()), 0o644)
}

// placed returns a part that assemble puts at places in the cache, out of what recipes make. It is assembled again
// where one of these is not there.
func placed(name, doc string, places []string,
	assemble func(ctx context.Context, e *Env, outputs, places []string) error, rs ...recipe) part {
	at := func(e *Env) (paths []string) {
		for _, p := range places {
			paths = append(paths, e.Cache.Path(filepath.FromSlash(p)))
		}
		return paths
	}
	return part{name: name, doc: doc, recipes: outputsOf(rs...),
		key: func(ctx context.Context, e *Env) (string, error) {
			key, err := keyOf(rs...)(ctx, e)
			return there(key, at(e)...), err
		},
		assemble: func(ctx context.Context, e *Env, outputs []string) error { return assemble(ctx, e, outputs, at(e)) }}
}

// there appends to a key, for each file, whether it exists.
func there(key string, paths ...string) string {
	for _, p := range paths {
		key += fmt.Sprintf(" %s: %t", p, exists(p))
	}
	return key
}

// parts are all parts.
func parts() []part { return append(productParts(), otherParts()...) }

// Parts lists what Run knows, with a line of explanation each.
func Parts() []string {
	var lines []string
	for _, p := range parts() {
		lines = append(lines, fmt.Sprintf("%-12s %s", p.name, p.doc))
	}
	return lines
}

// Run installs the named parts (none: everything the product needs) and reports what it did.
func (e *Env) Run(ctx context.Context, names ...string) error {
	all := parts()
	var chosen []part
	for _, n := range names {
		i := slices.IndexFunc(all, func(p part) bool { return p.name == n })
		if i < 0 {
			return fmt.Errorf("set-up: no part %q; there are:\n  %s", n, strings.Join(Parts(), "\n  "))
		}
		chosen = append(chosen, all[i])
	}
	if len(names) == 0 {
		chosen = productParts()
	}
	start := time.Now()
	unlock, err := e.lockRepo(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	did, errs := e.ensureAll(ctx, chosen)
	if ctx.Err() != nil {
		return fmt.Errorf("set-up was interrupted; the next run goes on from here: %w", ctx.Err())
	}
	for _, err := range errs {
		if errors.Is(err, ErrPrerequisite) {
			return err
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	if did == 0 {
		e.console.printf("set-up: everything is in place (%s)", took(time.Since(start)))
		return nil
	}
	e.console.printf("set-up: %d of %d parts assembled in %s, %s downloaded; cache: %s",
		did, len(chosen), took(time.Since(start)), size(e.Cache.Downloaded()), e.Cache.Root())
	return nil
}

// ensureAll puts parts in place, all lanes at the same time, and counts what there was to do.
func (e *Env) ensureAll(ctx context.Context, parts []part) (did int, errs []error) {
	lanes := map[string][]part{}
	for _, p := range parts {
		lanes[p.lane] = append(lanes[p.lane], p)
	}
	var mu sync.Mutex
	var running sync.WaitGroup
	for _, lane := range lanes {
		running.Go(func() {
			for _, p := range lane {
				if ctx.Err() != nil {
					return
				}
				worked, err := e.ensure(ctx, p)
				if err != nil && ctx.Err() == nil && !errors.Is(err, ErrPrerequisite) {
					e.console.printf("%-12s FAILED", p.name)
				}
				mu.Lock()
				if worked {
					did++
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if errors.Is(err, ErrPrerequisite) {
					return
				}
			}
		})
	}
	running.Wait()
	return did, errs
}

// lockRepo keeps two set-ups of one clone apart.
func (e *Env) lockRepo(ctx context.Context) (func(), error) {
	local, err := fetch.Open(filepath.Join(e.Repo, "build", "out"), fetch.WithLog(e.console.printf))
	if err != nil {
		return nil, err
	}
	return local.Lock(ctx, "setup")
}

// keyOf joins the keys of recipes without building them.
func keyOf(rs ...recipe) func(context.Context, *Env) (string, error) {
	return func(ctx context.Context, e *Env) (string, error) {
		var keys []string
		for _, r := range rs {
			k, err := r.key(ctx, e)
			if err != nil {
				return "", err
			}
			keys = append(keys, k)
		}
		return strings.Join(keys, " "), nil
	}
}

// outputsOf builds recipes that do not depend on each other, two at a time: where one has work for one core, the other
// takes the rest.
func outputsOf(rs ...recipe) func(context.Context, *Env) ([]string, error) {
	return func(ctx context.Context, e *Env) ([]string, error) {
		dirs := make([]string, len(rs))
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(2)
		for i, r := range rs {
			g.Go(func() (err error) {
				dirs[i], err = e.output(ctx, r)
				return err
			})
		}
		return dirs, g.Wait()
	}
}
