package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/regular"
)

var reOllama = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)

// hubHome returns the folder of Hugging Face's programs, or "".
func hubHome() string {
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return filepath.Join(dir, "huggingface")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".cache", "huggingface")
}

// hubCaches returns the folders in which Hugging Face's programs keep what they download.
func hubCaches() []string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return []string{dir}
	}
	if home := hubHome(); home != "" {
		return []string{filepath.Join(home, "hub")}
	}
	return nil
}

// ollamaStores returns the folders in which Ollama keeps models: the user's, and that of the system's service.
func ollamaStores() []string {
	if dir := os.Getenv("OLLAMA_MODELS"); dir != "" {
		return []string{dir}
	}
	var dirs []string
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".ollama", "models"))
	}
	return append(dirs, "/usr/share/ollama/.ollama/models")
}

// place is where a model of the hub or of Ollama is.
type place struct {
	dir    string   // of the repository's snapshot
	files  []string // by their names in dir, the one to open first; of a folder in another program's cache: none
	folder bool     // the model is the folder
	ours   bool     // Sluice has pulled it
}

func (p place) path() string {
	if p.folder || len(p.files) == 0 {
		return p.dir
	}
	return filepath.Join(p.dir, filepath.FromSlash(p.files[0]))
}

// find returns where the model is: in the cache of the program that brought it, where nothing is written, else in ours,
// after the check of its files.
func (r *Registry) find(ctx context.Context, ref reference, full bool) (place, error) {
	look, places := ref.inHub, hubCaches()
	if ref.ollama {
		look, places = ref.inOllama, ollamaStores()
	}
	var others *choiceError
	for _, dir := range places {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return place{}, err
		}
		if p, err := look(dir); !errors.Is(err, fs.ErrNotExist) {
			return p, err
		} else if others == nil {
			errors.As(err, &others)
		}
	}
	bring := "sluice models pull " + ref.text
	if ref.ollama {
		bring = "ollama pull " + strings.TrimPrefix(ref.text, ollamaPrefix)
	} else {
		p, err := ref.inHub(r.hubDir())
		if p.ours = true; err == nil {
			err = r.checkPulled(ctx, ref, &p, full)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return p, err
		} else if others == nil {
			errors.As(err, &others)
		}
	}
	here := ""
	if others != nil && len(others.files) > 0 {
		here = ", where there are only " + strings.Join(others.files[:min(len(others.files), mostListed)], ", ")
	}
	return place{}, fmt.Errorf("%w: %s is not in %s%s; get it with: %s", ErrNotPulled, ref.text,
		strings.Join(places, " or "), here, bring)
}

func (ref reference) inOllama(store string) (p place, err error) {
	path := filepath.Join(store, "manifests", "registry.ollama.ai", ref.owner, ref.name, ref.choice)
	raw, err := regular.ReadFile(path, maxManifest)
	if err != nil {
		return p, err
	}
	var m struct {
		Layers []struct{ MediaType, Digest string }
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return p, fmt.Errorf("%w: %s: %w", ErrReference, path, err)
	}
	for _, l := range m.Layers {
		sum := reOllama.FindStringSubmatch(l.Digest)
		if l.MediaType != "application/vnd.ollama.image.model" || sum == nil {
			continue
		}
		p = place{dir: filepath.Join(store, "blobs"), files: []string{"sha256-" + sum[1]}}
		_, err := os.Stat(p.path())
		return p, err
	}
	return p, fmt.Errorf("%w: %s has no layer with a model and a SHA-256", ErrReference, path)
}

// inHub looks into a cache with the layout of Hugging Face's programs, which ours has, too.
func (ref reference) inHub(cache string) (p place, err error) {
	base := filepath.Join(cache, ref.folder())
	commit := ref.revision
	if !reCommit.MatchString(commit) {
		if commit, err = readRef(filepath.Join(base, "refs", filepath.FromSlash(ref.revision))); err != nil {
			return p, err
		}
	}
	p.dir = filepath.Join(base, "snapshots", commit)
	names, err := within(base, p.dir)
	if err != nil {
		return p, err
	}
	return p, p.pick(ref, names)
}

// pick sets which of the files of a snapshot the reference asks for. What is not there as a whole is fs.ErrNotExist.
func (p *place) pick(ref reference, names []string) (err error) {
	var choice *choiceError
	p.files, err = ref.pick(names)
	switch {
	case errors.As(err, &choice) && choice.several:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	case p.files != nil:
		return nil
	}
	p.folder = true
	weights := append(onnx.Exports(), "model.safetensors") // without one of them only a part of the model is there
	isWeights := func(name string) bool { return slices.Contains(weights, name) }
	if !slices.Contains(names, "config.json") || !slices.ContainsFunc(names, isWeights) {
		return fmt.Errorf("%w: %s has no weights that are read here", fs.ErrNotExist, p.dir)
	}
	return nil
}

func readRef(path string) (commit string, err error) {
	raw, err := regular.ReadFile(path, maxManifest)
	if err != nil {
		return "", err
	}
	if commit = strings.TrimSpace(string(raw)); !reCommit.MatchString(commit) {
		return "", fmt.Errorf("%w: %s has no commit", ErrReference, path)
	}
	return commit, nil
}

// within returns the names of the files of a snapshot. A link that leads out of the model's folder is an error.
func within(base, dir string) (names []string, err error) {
	real, err := filepath.EvalSymlinks(base)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		to, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) { // a download that is not finished
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasPrefix(to, real+string(filepath.Separator)) {
			return fmt.Errorf("%w: %s leads out of the cache, to %s", ErrReference, path, to)
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// verifyTheirs reads the files of a model in another program's cache and compares them with the digests by which that
// program names them.
func (p place) verifyTheirs(ctx context.Context, ref reference) error {
	names := p.files
	if p.folder {
		var err error
		if names, err = within(filepath.Dir(filepath.Dir(p.dir)), p.dir); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		file := filepath.Join(p.dir, filepath.FromSlash(name))
		to, err := filepath.EvalSymlinks(file)
		if err != nil {
			return err
		}
		w := fetch.Want{Name: file}
		switch sum := strings.TrimPrefix(filepath.Base(to), "sha256-"); {
		case reSHA256.MatchString(sum):
			w.SHA256 = sum
		case reCommit.MatchString(sum):
			w.Git = sum
		default:
			continue // a copy, where links are not possible
		}
		var m *fetch.MismatchError
		if err := fetch.Verify(file, w); errors.As(err, &m) {
			return fmt.Errorf("%w: %s: %s: expected %s %s, has %s; the program that brought it can bring it again",
				ErrCorrupt, ref.text, file, m.What, m.Want, m.Got)
		} else if err != nil {
			return err
		}
	}
	return nil
}
