package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/regular"
)

// ErrReference is wrapped when a name that begins with "hf:" or "ollama:" is not well formed, or when it fits no file
// or several.
var ErrReference = errors.New("models: reference")

const (
	hubPrefix    = "hf:"
	ollamaPrefix = "ollama:"
	maxManifest  = 1 << 20 // bytes of one of Ollama's manifests, and of a file in the hub's refs
)

// reference is a model that another program's cache may hold.
type reference struct {
	text           string
	owner, name    string
	choice         string // of the hub: a quantisation or a file; of Ollama: the tag
	revision       string // of the hub only
	ollama, custom bool
}

var (
	rePart     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	reCommit   = regexp.MustCompile(`^[0-9a-f]{40}$`)
	reOllama   = regexp.MustCompile(`^sha256:([0-9a-f]{64})$`)
	quantOrder = []string{"Q4_K_M", "Q4_0", "Q4_K_S", "Q5_K_M", "Q6_K", "Q8_0", "MXFP4", "F16", "BF16", "F32"}
)

// parseReference reads hf:OWNER/REPO[:CHOICE][@REVISION] and ollama:[NAMESPACE/]NAME[:TAG]. ok is false for any other
// name.
func parseReference(text string) (ref reference, ok bool, err error) {
	rest, hub := strings.CutPrefix(text, hubPrefix)
	if !hub {
		if rest, ok = strings.CutPrefix(text, ollamaPrefix); !ok {
			return ref, false, nil
		}
	}
	form := "ollama:[NAMESPACE/]NAME[:TAG]"
	ref = reference{text: text, owner: "library", choice: "latest", ollama: !hub}
	if hub {
		form, ref.owner, ref.choice, ref.revision = "hf:OWNER/REPO[:QUANTISATION or FILE][@REVISION]", "", "", "main"
		if before, revision, given := strings.Cut(rest, "@"); given {
			rest, ref.revision = before, revision
		}
	}
	if before, choice, given := strings.Cut(rest, ":"); given {
		rest, ref.choice = before, choice
		ref.custom = true
		if choice == "" {
			return ref, true, fmt.Errorf("%w: %q is not of the form %s", ErrReference, text, form)
		}
	}
	ref.name = rest
	if owner, name, given := strings.Cut(rest, "/"); given {
		ref.owner, ref.name = owner, name
	}
	if hub && (ref.owner == "" || ref.revision == "") {
		return ref, true, fmt.Errorf("%w: %q is not of the form %s", ErrReference, text, form)
	}
	parts := []string{ref.owner, ref.name}
	parts = append(parts, strings.Split(ref.revision, "/")...)
	parts = append(parts, strings.Split(ref.choice, "/")...)
	for i, p := range parts {
		if !rePart.MatchString(p) && (i < 2 || p != "") {
			return ref, true, fmt.Errorf("%w: %q is not of the form %s", ErrReference, text, form)
		}
	}
	return ref, true, nil
}

// hubCaches returns the folders in which Hugging Face's programs keep what they download.
func hubCaches() []string {
	if dir := os.Getenv("HF_HUB_CACHE"); dir != "" {
		return []string{dir}
	}
	if dir := os.Getenv("HF_HOME"); dir != "" {
		return []string{filepath.Join(dir, "hub")}
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); dir != "" {
		return []string{filepath.Join(dir, "huggingface", "hub")}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	return []string{filepath.Join(home, ".cache", "huggingface", "hub")}
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

// locate returns the file or the folder of the model in the cache of the program that brought it. Nothing is written
// there.
func (ref reference) locate() (string, error) {
	look, places, bring := ref.inHub, hubCaches(), "hf download "+ref.owner+"/"+ref.name
	if ref.ollama {
		look, places = ref.inOllama, ollamaStores()
		bring = "ollama pull " + strings.TrimPrefix(ref.text, ollamaPrefix)
	}
	for _, dir := range places {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		if path, err := look(dir); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	return "", fmt.Errorf("%w: %s is not in %s; bring it with: %s", ErrNotPulled, ref.text,
		strings.Join(places, " or "), bring)
}

func (ref reference) inOllama(store string) (string, error) {
	path := filepath.Join(store, "manifests", "registry.ollama.ai", ref.owner, ref.name, ref.choice)
	raw, err := regular.ReadFile(path, maxManifest)
	if err != nil {
		return "", err
	}
	var m struct {
		Layers []struct{ MediaType, Digest string }
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return "", fmt.Errorf("%w: %s: %w", ErrReference, path, err)
	}
	for _, l := range m.Layers {
		sum := reOllama.FindStringSubmatch(l.Digest)
		if l.MediaType != "application/vnd.ollama.image.model" || sum == nil {
			continue
		}
		blob := filepath.Join(store, "blobs", "sha256-"+sum[1])
		_, err := os.Stat(blob)
		return blob, err
	}
	return "", fmt.Errorf("%w: %s has no layer with a model and a SHA-256", ErrReference, path)
}

func (ref reference) inHub(cache string) (string, error) {
	base := filepath.Join(cache, "models--"+ref.owner+"--"+ref.name)
	commit := ref.revision
	if !reCommit.MatchString(commit) {
		path := filepath.Join(base, "refs", filepath.FromSlash(ref.revision))
		raw, err := regular.ReadFile(path, maxManifest)
		if err != nil {
			return "", err
		}
		if commit = strings.TrimSpace(string(raw)); !reCommit.MatchString(commit) {
			return "", fmt.Errorf("%w: %s has no commit", ErrReference, path)
		}
	}
	dir := filepath.Join(base, "snapshots", commit)
	found, err := within(base, dir)
	if err != nil {
		return "", err
	}
	ggufs := slices.DeleteFunc(slices.Clone(found), func(f string) bool { return filepath.Ext(f) != ".gguf" })
	if !ref.custom && (len(ggufs) == 0 || slices.Contains(found, "model.safetensors")) {
		return dir, nil
	}
	name, err := ref.choose(ggufs)
	if err != nil {
		return "", err
	}
	if stem, _, of, split := manifest.Part(name); split {
		for i := range of {
			part := fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, of)
			if !slices.Contains(ggufs, part) {
				return "", fmt.Errorf("%w: %s: of %d files %s is missing in %s", ErrNotPulled, ref.text, of, part, dir)
			}
		}
	}
	return filepath.Join(dir, name), nil
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

// choose returns the file, or the first of a split model's files, that the reference asks for.
func (ref reference) choose(ggufs []string) (string, error) {
	var first []string
	for _, f := range ggufs {
		if _, part, _, split := manifest.Part(f); !split || part == 1 {
			first = append(first, f)
		}
	}
	if slices.Contains(first, ref.choice) {
		return ref.choice, nil
	}
	kinds := quantOrder
	if ref.custom {
		kinds = []string{ref.choice}
	} else if len(first) == 1 {
		return first[0], nil
	}
	for _, kind := range kinds {
		re := regexp.MustCompile(`(?i)(^|[^A-Za-z0-9])` + regexp.QuoteMeta(kind) + `(-\d{5}-of-\d{5})?\.gguf$`)
		var fit []string
		for _, f := range first {
			if re.MatchString(f) {
				fit = append(fit, f)
			}
		}
		if len(fit) == 1 {
			return fit[0], nil
		}
	}
	return "", fmt.Errorf("%w: %s fits no single file of the cache; there are: %s", ErrReference, ref.text,
		strings.Join(first, ", "))
}
