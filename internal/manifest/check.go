package manifest

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	reDigest  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	reCommit  = regexp.MustCompile(`^[0-9a-f]{40}$`)
	reName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	rePart    = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)
	reVersion = regexp.MustCompile(`^v?[0-9][A-Za-z0-9.+-]*$`)
)

func (m *Manifest) check() error {
	if m.Schema != Schema {
		return fmt.Errorf("schema is %d, this program reads %d", m.Schema, Schema)
	}
	seen := map[string]bool{}
	for _, p := range m.Packages {
		if seen[p.Name] {
			return fmt.Errorf("package %q is listed twice", p.Name)
		}
		seen[p.Name] = true
		if err := m.checkPackage(p); err != nil {
			return fmt.Errorf("package %q: %w", p.Name, err)
		}
	}
	if err := m.checkNative(); err != nil {
		return fmt.Errorf("native: %w", err)
	}
	for _, name := range m.Python.Packages {
		if p, ok := m.Package(name); !ok || len(p.Wheels) == 0 {
			return fmt.Errorf("python: no wheel of package %q", name)
		}
	}
	return m.checkModels()
}

func (m *Manifest) checkPackage(p Package) error {
	if err := named(p.Name, p.Version, p.Licence); err != nil {
		return err
	}
	if (p.Sdist != nil) == (len(p.Wheels) > 0) {
		return errors.New("needs either wheels or an sdist")
	}
	if (p.Sdist != nil) != (len(p.Backend) > 0) {
		return errors.New("an sdist, and only an sdist, names its build back-end")
	}
	for _, name := range p.Backend {
		if b, ok := m.Package(name); !ok || len(b.Wheels) == 0 {
			return fmt.Errorf("no wheel of back-end %q", name)
		}
	}
	for _, b := range p.Wheels {
		if _, err := ParseWheel(b.File); err != nil {
			return err
		}
	}
	blobs := p.Wheels
	if p.Sdist != nil {
		blobs = []Blob{*p.Sdist}
	}
	for _, b := range blobs {
		if !local(b.File) || strings.Contains(b.File, "/") {
			return fmt.Errorf("bad file name %q", b.File)
		}
		if !reDigest.MatchString(b.SHA256) || b.Size <= 0 {
			return fmt.Errorf("%s: needs sha256 and size", b.File)
		}
	}
	return nil
}

func (m *Manifest) checkNative() error {
	n := m.Native
	if p, ok := m.Package(n.ONNXRuntime.Package); !ok || len(p.Wheels) == 0 {
		return fmt.Errorf("onnxruntime: no wheel of package %q", n.ONNXRuntime.Package)
	}
	for arch, library := range n.ONNXRuntime.Libraries {
		if err := checkFile(library, true); err != nil {
			return fmt.Errorf("onnxruntime: %s: %w", arch, err)
		}
		if library.SHA256 == "" {
			return fmt.Errorf("onnxruntime: the library for %s needs sha256 and size", arch)
		}
	}
	if p, ok := m.Package(n.CUDA.Package); !ok || len(p.Wheels) == 0 {
		return fmt.Errorf("cuda: no wheel of package %q", n.CUDA.Package)
	}
	if err := checkFile(n.CUDA.Header, true); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	if p, ok := m.Package(n.Llama.Package); !ok || p.Sdist == nil {
		return fmt.Errorf("llama: no sdist of package %q", n.Llama.Package)
	}
	if !local(n.Llama.Tree) || !reCommit.MatchString(n.Llama.Commit) {
		return fmt.Errorf("llama: bad tree %q or commit %q", n.Llama.Tree, n.Llama.Commit)
	}
	for _, x := range []Module{n.Tokenizers, {n.Llama.Module, n.Llama.Version, n.Llama.Licence}} {
		if !local(x.Module) || !strings.HasPrefix(x.Version, "v") || x.Licence == "" {
			return fmt.Errorf("module %q needs a path, a version and a licence", x.Module)
		}
	}
	return nil
}

func (m *Manifest) checkModels() error {
	seen, defaults := map[string]bool{}, map[Kind]string{}
	for _, x := range m.Models {
		if key := strings.ToLower(x.Name); seen[key] {
			return fmt.Errorf("model %q is listed twice", x.Name)
		} else {
			seen[key] = true
		}
		if err := m.checkModel(x); err != nil {
			return fmt.Errorf("model %q: %w", x.Name, err)
		}
		if x.Default && defaults[x.Kind] != "" {
			return fmt.Errorf("two default %ss: %s and %s", x.Kind, defaults[x.Kind], x.Name)
		}
		if x.Default {
			defaults[x.Kind] = x.Name
		}
	}
	return nil
}

func (m *Manifest) checkModel(x Model) error {
	if err := named(x.Name, "0", x.Licence); err != nil {
		return err
	}
	if u, err := url.Parse(x.Source); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("source %q is not an https URL", x.Source)
	}
	switch x.Kind {
	case Encoder:
		e := x.Encoder
		if e == nil || !slices.Contains([]string{"mean", "cls", "last"}, e.Pooling) || e.MaxTokens < 3 {
			return errors.New("an encoder needs pooling (mean or cls, or last for a GGUF file) and max_tokens (3 or more)")
		}
	case Generator, Classifier, TokenClassifier, Reranker, Entailment, Reader, OCR:
		if x.Encoder != nil {
			return fmt.Errorf("a %s has no encoder settings", x.Kind)
		}
	default:
		return fmt.Errorf("kind %q is not encoder, generator, classifier, token-classifier, reranker, entailment, "+
			"reader or ocr", x.Kind)
	}
	if x.ChatTemplate != "" && x.Kind != Generator {
		return fmt.Errorf("a %s has no chat template", x.Kind)
	}
	if x.NullAnswer != nil && x.Kind != Reader {
		return fmt.Errorf("a %s has no null answer", x.Kind)
	}
	if x.MaxTokens < 0 || x.MaxTokens > 0 && (x.Kind == Encoder || x.Kind == Generator) {
		return fmt.Errorf("max_tokens %d of a %s; it is for classifiers and models of pairs, and positive", x.MaxTokens,
			x.Kind)
	}
	if p, ok := m.Package(x.Package); x.Package != "" && (!ok || len(p.Wheels) != 1) {
		return fmt.Errorf("package %q must have one wheel", x.Package)
	}
	if len(x.Files) == 0 {
		return errors.New("has no files")
	}
	paths := map[string]bool{"model.yaml": true} // written by the pull itself
	for _, f := range x.Files {
		if err := checkFile(f, x.Package != ""); err != nil {
			return err
		}
		if paths[f.Path] {
			return fmt.Errorf("file %q is listed twice or reserved", f.Path)
		}
		paths[f.Path] = true
	}
	return checkParts(x.Files)
}

// checkParts wants all parts of a model that is split, by llama.cpp's naming.
func checkParts(files []File) error {
	for _, f := range files {
		stem, _, of, ok := Part(f.Path)
		if !ok {
			continue
		}
		for i := 1; i <= of; i++ {
			want := fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i, of)
			if !slices.ContainsFunc(files, func(f File) bool { return f.Path == want }) {
				return fmt.Errorf("%s is one of %d parts, and %s is not listed", f.Path, of, want)
			}
		}
	}
	return nil
}

// Part reads the name of a part of a split GGUF file, such as dir/name-00001-of-00002.gguf: stem dir/name, part 1 of 2.
func Part(path string) (stem string, part, of int, ok bool) {
	m := rePart.FindStringSubmatch(path)
	if m == nil {
		return "", 0, 0, false
	}
	part, _ = strconv.Atoi(m[2])
	of, _ = strconv.Atoi(m[3])
	return m[1], part, of, part >= 1 && part <= of && of <= mostParts
}

// mostParts is far beyond the parts of any model.
const mostParts = 1000

// checkFile accepts a pinned member of a wheel, which may have a URL too, or a URL with or without a pin.
func checkFile(f File, inPackage bool) error {
	if !local(f.Path) {
		return fmt.Errorf("path %q leaves its folder", f.Path)
	}
	if f.SHA256 != "" && !reDigest.MatchString(f.SHA256) || f.Size < 0 || (f.SHA256 != "") != (f.Size > 0) {
		return fmt.Errorf("%s: sha256 (64 hexadecimal digits) and size go together", f.Path)
	}
	if inPackage {
		if !local(f.Member) || f.SHA256 == "" {
			return fmt.Errorf("%s: a member of a package needs its name there, sha256 and size", f.Path)
		}
		if f.URL == "" {
			return nil
		}
	} else if f.Member != "" {
		return fmt.Errorf("%s: a member of no package", f.Path)
	}
	u, err := url.Parse(f.URL)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return fmt.Errorf("%s: url %q is not an http(s) URL", f.Path, f.URL)
	}
	return nil
}

func named(name, version, licence string) error {
	switch {
	case !reName.MatchString(name):
		return fmt.Errorf("bad name %q", name)
	case !reVersion.MatchString(version):
		return fmt.Errorf("bad version %q", version)
	case licence == "":
		return errors.New("has no licence")
	}
	return nil
}

// local reports whether p is a clean relative slash path that stays below its root.
func local(p string) bool {
	return p != "" && p != "." && p == path.Clean(p) && !path.IsAbs(p) && p != ".." &&
		!strings.HasPrefix(p, "../") && !strings.ContainsAny(p, "\\\x00:")
}
