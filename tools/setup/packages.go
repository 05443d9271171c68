package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// packages are wheels, checked against their digests by pip, whose folder the cache has a link to.
type packages struct {
	name, requirements, says string // name: of the part and of the link
	doc                      string
}

func (p packages) recipe() recipe {
	return pinnedPython("python-"+p.name, p.requirements, p.name+": "+p.says)
}

func (p packages) key(ctx context.Context, e *Env) (string, error) {
	key, err := keyOf(p.recipe())(ctx, e)
	return fmt.Sprintf("%s, there: %t", key, exists(e.Cache.Path(p.name))), err
}

func (p packages) assemble(ctx context.Context, e *Env) error {
	out, err := outputsOf(p.recipe())(ctx, e)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(out[0], "lib", "python3*", "site-packages"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%w: %s: %d folders of packages: %w", ErrPart, p.name, len(found), err)
	}
	link := e.Cache.Path(p.name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be of another pin
		return err
	}
	return os.Symlink(found[0], link)
}

func (p packages) part() part {
	return part{name: p.name, doc: p.doc + ": $SLUICE_CACHE/" + p.name, key: p.key, assemble: p.assemble}
}

func postgresPart() part {
	return packages{"postgres", filepath.Join("internal", "test", "postgres", "requirements.txt"),
		"PostgreSQL with pgvector (14 MB)", "PostgreSQL with pgvector, for tests"}.part()
}

func flashlibPart() part {
	return packages{"flashlib", filepath.Join("bench", "peers", "flashlib-requirements.txt"),
		"a peer on GPUs (1 MB)", "flashlib, which `make gpu-bundle` packs"}.part()
}
