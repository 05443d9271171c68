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

// listed is what `go list -test -deps` tells of a package, or of the test program of one, whose path ends in ".test".
type listed struct {
	ImportPath string
	Standard   bool
	Deps       []string
	GoFiles    []string
	CgoFiles   []string
	CFiles     []string
	CXXFiles   []string
	HFiles     []string
	SFiles     []string
	EmbedFiles []string
}

// list returns all packages and test programs by their paths.
func (r *runner) list(ctx context.Context, goflags string) (map[string]listed, error) {
	const fields = "-json=ImportPath,Standard,Deps,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,EmbedFiles"
	out, err := r.command(ctx, goflags, "go", "list", "-test", "-deps", fields, "./...").Output()
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

// affected returns which packages have tests that are another program in b than in a, because the test, or something
// that it needs, is of other files; and how many have tests that are the same program.
func affected(a, b map[string]listed) (others []string, same int) {
	for path := range b {
		pkg, ok := strings.CutSuffix(path, ".test")
		if !ok {
			continue
		}
		if _, ok := a[path]; ok && slices.Equal(sources(a, path), sources(b, path)) {
			same++
			continue
		}
		others = append(others, pkg)
	}
	slices.Sort(others)
	return others, same
}

// sources returns the files of a test program, but for those of the standard library.
func sources(packages map[string]listed, path string) (files []string) {
	for _, name := range append([]string{path}, packages[path].Deps...) {
		p := packages[name]
		if p.Standard {
			continue
		}
		for _, list := range [][]string{p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.EmbedFiles} {
			for _, f := range list {
				files = append(files, name+" "+f)
			}
		}
	}
	slices.Sort(files)
	return files
}
