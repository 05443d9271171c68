package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// listed has the fields of `go list` for a package.
type listed struct {
	ImportPath   string
	Dir          string
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
	const fields = "-json=ImportPath,Dir,GoFiles,CgoFiles,CFiles,CXXFiles,HFiles,SFiles,EmbedFiles,TestGoFiles," +
		"XTestGoFiles"
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

// affected returns which packages have other files in b than in a, their own or their tests', and how many have tests
// that were compiled from the same files. The latter give the same result in both: what differs below them is tested in
// its own packages, and all of it together by internal/e2e. For the same reason, grown has only the new test files of a
// package that has no other changes: the other tests have run.
func affected(a, b map[string]listed) (others []string, grown map[string][]string, same int) {
	grown = map[string][]string{}
	for path, p := range b {
		before, after := tests(a[path]), tests(p)
		switch {
		case len(after) == 0:
		case !slices.Equal(sources(a[path]), sources(p)) || len(before) == 0:
			others = append(others, path)
		case slices.Equal(before, after):
			same++
		case slices.ContainsFunc(before, func(f string) bool { return !slices.Contains(after, f) }):
			others = append(others, path)
		default:
			for _, f := range after {
				if !slices.Contains(before, f) {
					grown[path] = append(grown[path], filepath.Join(p.Dir, f))
				}
			}
		}
	}
	slices.Sort(others)
	return others, grown, same
}

// sources returns the files of a package, tests the files of its tests.
func sources(p listed) []string {
	return slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.CXXFiles, p.HFiles, p.SFiles, p.EmbedFiles)
}
func tests(p listed) []string { return slices.Concat(p.TestGoFiles, p.XTestGoFiles) }

// onlyIn returns the packages that have a file in a which they have not in b.
func onlyIn(a, b map[string]listed) (packages []string) {
	for path, p := range a {
		theirs := slices.Concat(sources(b[path]), tests(b[path]))
		if slices.ContainsFunc(slices.Concat(sources(p), tests(p)),
			func(f string) bool { return !slices.Contains(theirs, f) }) {
			packages = append(packages, path)
		}
	}
	slices.Sort(packages)
	return packages
}

// declared returns the names of the tests, examples and fuzz targets of Go files.
func declared(files []string) (names []string, err error) {
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		for _, m := range reDeclared.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

var reDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
