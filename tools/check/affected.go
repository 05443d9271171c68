package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// listed is what `go list` tells of a package.
type listed struct {
	ImportPath   string
	GoFiles      []string
	CgoFiles     []string
	CFiles       []string
	CXXFiles     []string
	HFiles       []string
	SFiles       []string
	EmbedFiles   []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// list returns all packages by their paths.
func (r *runner) list(ctx context.Context, goflags string) (map[string]listed, error) {
	const fields = "-json=ImportPath,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,EmbedFiles,TestGoFiles,XTestGoFiles"
	out, err := r.command(ctx, goflags, "go", "list", fields, "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages[p.ImportPath] = p
	}
}

// affected returns which packages have other files in b than in a, their own or those of their tests, and how many have
// tests that were compiled from the same files. The latter say the same in both: what differs below them is tested in
// the packages that it belongs to, and all of it together by internal/e2e.
func affected(a, b map[string]listed) (others []string, same int) {
	for path, p := range b {
		switch {
		case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
		case slices.Equal(sources(a[path]), sources(p)):
			same++
		default:
			others = append(others, path)
		}
	}
	slices.Sort(others)
	return others, same
}

// sources returns the files of a package and of its tests.
func sources(p listed) []string {
	return slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.EmbedFiles,
		p.TestGoFiles, p.XTestGoFiles)
}
