package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	thirdparty "github.com/sluice-rag/sluice/third_party"
)

var (
	// ErrUnknownModel is wrapped when a name is neither in the manifest nor a path that exists.
	ErrUnknownModel = errors.New("models: unknown model")
	// ErrNotPulled is wrapped when a model of the manifest is not on this machine.
	ErrNotPulled = errors.New("models: not pulled")
	// ErrCorrupt is wrapped when a file differs from its pin or record.
	ErrCorrupt = errors.New("models: corrupt")
)

// CorruptError names the file that is wrong.
type CorruptError struct {
	Model, Path    string
	Expected, Have string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("models: corrupt: %s: expected %s, has %s; repair it with: sluice models pull %s", e.Path,
		e.Expected, e.Have, e.Model)
}

func (e *CorruptError) Unwrap() error { return ErrCorrupt }

// Info is one line of List.
type Info struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Default bool   `json:"default"`
	Licence string `json:"licence"`
	Source  string `json:"source"`
	Pinned  bool   `json:"pinned"`          // every file has a sha256 in the manifest
	Bytes   int64  `json:"bytes,omitempty"` // on disk, or from the manifest; 0: unknown
	Dir     string `json:"dir,omitempty"`   // empty: not pulled; of a GGUF file of the hub or of Ollama, the file
	// ReadOnly is set for a model in another program's cache.
	ReadOnly bool `json:"read_only,omitempty"`
	// ChatTemplate is set for a generator whose file has none: Jinja source, or the name of one of llama.cpp's.
	ChatTemplate string `json:"-"`
}

// Registry knows the models of a manifest and those in a cache.
type Registry struct {
	cache    *fetch.Cache
	manifest *manifest.Manifest
	python   string
	hub      string // "https://host", instead of hubHost; empty: that one
}

// hubHost is where the manifest's URLs of models point, and EnvHub names the variable with a mirror of it, as the hub's
// own programs have it.
const (
	hubHost = "https://huggingface.co"
	EnvHub  = "HF_ENDPOINT"
)

// Open returns the registry over a cache. python is the interpreter whose pip fetches wheels; "" is python3 in the
// path.
func Open(cache *fetch.Cache, m *manifest.Manifest, python string) *Registry {
	python = cmp.Or(python, "python3")
	return &Registry{cache: cache, manifest: m, python: python}
}

// Default returns the registry of the built-in manifest over the user's cache.
func Default(opts ...fetch.Option) (*Registry, error) {
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		return nil, err
	}
	cache, err := fetch.Open("", opts...)
	if err != nil {
		return nil, err
	}
	r := Open(cache, m, os.Getenv("SLUICE_PYTHON"))
	r.hub = strings.TrimSuffix(os.Getenv(EnvHub), "/")
	return r, nil
}

// Multilingual names the encoder of the built-in manifest that is trained for a language (ISO 639-1), or "".
func Multilingual(language string) string {
	m, err := manifest.Parse(thirdparty.Manifest())
	if err != nil {
		return ""
	}
	for _, model := range m.Models {
		if e := model.Encoder; e != nil && slices.Contains(e.Languages, language) {
			return model.Name
		}
	}
	return ""
}

// Locate is Registry.Locate of the default registry.
func Locate(name string) (string, error) {
	r, err := Default()
	if err != nil {
		return "", err
	}
	return r.Locate(name)
}

// LocateGGUF is Registry.LocateGGUF of the default registry.
func LocateGGUF(name string) (string, error) {
	r, err := Default()
	if err != nil {
		return "", err
	}
	return r.LocateGGUF(name)
}

// List is Registry.List of the default registry.
func List() ([]Info, error) {
	r, err := Default()
	if err != nil {
		return nil, err
	}
	return r.List()
}

// dir returns the folder of a pulled model of the manifest.
func (r *Registry) dir(name string) string { return r.cache.Path("models", name) }

// Locate returns the folder of a model of the manifest, after a quick check of its files (size and modification time; a
// file that was touched is read). A path of an existing file or folder is returned as it is, made absolute. For
// hf:OWNER/REPO and ollama:NAME it is the file or folder in the cache of Hugging Face's programs or of Ollama, else the
// one that Pull has brought.
func (r *Registry) Locate(name string) (string, error) {
	if ref, ok, err := parseReference(name); err != nil {
		return "", err
	} else if ok {
		p, err := r.find(context.Background(), ref, false)
		return p.path(), err
	}
	m, ok := r.manifest.Model(name)
	if !ok {
		if _, err := os.Stat(name); name != "" && err == nil {
			return filepath.Abs(name)
		}
		return "", fmt.Errorf("%w: %q is neither a path that exists nor one of: %s", ErrUnknownModel, name,
			strings.Join(r.names(), ", "))
	}
	return r.check(context.Background(), m, false)
}

// LocateGGUF returns the .gguf file of a generator, which may also be given as a path of the file or its folder; of a
// model that is split, the first of its files.
func (r *Registry) LocateGGUF(name string) (string, error) {
	dir, err := r.Locate(name)
	if err != nil {
		return "", err
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return dir, err
	}
	found, err := fs.Glob(os.DirFS(dir), "*.gguf")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%w: %s holds no .gguf file", ErrUnknownModel, dir)
	}
	stem, _, of, split := manifest.Part(found[0])
	if !split && len(found) == 1 {
		return filepath.Join(dir, found[0]), nil
	}
	for _, f := range found {
		if s, _, n, ok := manifest.Part(f); !ok || s != stem || n != of {
			return "", fmt.Errorf("%w: %s holds %d .gguf files; give the path of one", ErrUnknownModel, dir, len(found))
		}
	}
	if len(found) != of {
		return "", fmt.Errorf("%w: %s holds %d of the %d files of a split model", ErrUnknownModel, dir, len(found), of)
	}
	return filepath.Join(dir, found[0]), nil // Glob sorts
}

// ChatTemplate returns what llm.Options.ChatTemplate must be for a model of the manifest whose file has no chat
// template; "" for all others, and for paths.
func (r *Registry) ChatTemplate(name string) string {
	m, _ := r.manifest.Model(name)
	return m.ChatTemplate
}

// List returns the models of the manifest, defaults first, then by kind and name, and after them those that were pulled
// by the names of their repositories.
func (r *Registry) List() ([]Info, error) {
	var list []Info
	for _, m := range r.manifest.Models {
		i := Info{Name: m.Name, Kind: string(m.Kind), Default: m.Default, Licence: m.Licence, Source: m.Source,
			Pinned: true, ChatTemplate: m.ChatTemplate}
		for _, f := range m.Files {
			i.Bytes += f.Size
			i.Pinned = i.Pinned && f.SHA256 != ""
		}
		if rec, err := readRecord(filepath.Join(r.dir(m.Name), recordName)); err == nil {
			i.Dir, i.Bytes = r.dir(m.Name), 0
			for _, f := range rec.Files {
				i.Bytes += f.Size
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		list = append(list, i)
	}
	rank := map[bool]int{true: -1} // of a default
	slices.SortStableFunc(list, func(a, b Info) int {
		return cmp.Or(rank[a.Default]-rank[b.Default], strings.Compare(a.Kind, b.Kind),
			strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)))
	})
	pulled := inCache(r.hubDir(), true)
	slices.SortFunc(pulled, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return append(list, pulled...), nil
}

func (r *Registry) names() []string {
	var names []string
	for _, m := range r.manifest.Models {
		names = append(names, m.Name)
	}
	return names
}

// Verify reads every file of a pulled model and compares it with its pin, or with what was recorded when it was first
// pulled; for a model in another program's cache with the digests by which that program names its files.
func (r *Registry) Verify(ctx context.Context, name string) error {
	if ref, ok, err := parseReference(name); err != nil {
		return err
	} else if ok {
		p, err := r.find(ctx, ref, true)
		if err != nil || p.ours {
			return err
		}
		return p.verifyTheirs(ctx, ref)
	}
	m, ok := r.manifest.Model(name)
	if !ok {
		return fmt.Errorf("%w: %q has no pins to verify; there are: %s", ErrUnknownModel, name,
			strings.Join(r.names(), ", "))
	}
	_, err := r.check(ctx, m, true)
	return err
}
