package models

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/manifest"
)

// ErrReference is wrapped when a name that begins with "hf:" or "ollama:" is not well formed, or when it fits no file
// or several.
var ErrReference = errors.New("models: reference")

const (
	hubPrefix    = "hf:"
	ollamaPrefix = "ollama:"
	maxReference = 512     // bytes of a name
	maxManifest  = 1 << 20 // bytes of one of Ollama's manifests, and of a file in the hub's refs
	mostListed   = 40      // files that an error lists
)

// reference is a model of Hugging Face's hub or of Ollama.
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
	reSHA256   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	quantOrder = []string{"Q4_K_M", "Q4_0", "Q4_K_S", "Q5_K_M", "Q6_K", "Q8_0", "MXFP4", "F16", "BF16", "F32"}
)

// IsReference reports whether a name is of the form hf:… or ollama:…, well formed or not.
func IsReference(name string) bool {
	return strings.HasPrefix(name, hubPrefix) || strings.HasPrefix(name, ollamaPrefix)
}

// parseReference reads hf:OWNER/REPO[:CHOICE][@REVISION] and ollama:[NAMESPACE/]NAME[:TAG]. ok is false for any other
// name.
func parseReference(text string) (ref reference, ok bool, err error) {
	if !IsReference(text) {
		return ref, false, nil
	}
	if len(text) > maxReference {
		return ref, true, fmt.Errorf("%w: a name of %d bytes; %d at most", ErrReference, len(text), maxReference)
	}
	rest, hub := strings.CutPrefix(text, hubPrefix)
	rest = strings.TrimPrefix(rest, ollamaPrefix)
	form := "ollama:[NAMESPACE/]NAME[:TAG]"
	ref = reference{text: text, owner: "library", choice: "latest", ollama: !hub}
	if hub {
		form, ref.owner, ref.choice, ref.revision = "hf:OWNER/REPO[:QUANTISATION or FILE][@REVISION]", "", "", "main"
		if before, revision, given := strings.Cut(rest, "@"); given {
			rest, ref.revision = before, revision
		}
	}
	bad := fmt.Errorf("%w: %q is not of the form %s", ErrReference, text, form)
	if before, choice, given := strings.Cut(rest, ":"); given {
		rest, ref.choice = before, choice
		ref.custom = true
		if choice == "" {
			return ref, true, bad
		}
	}
	ref.name = rest
	if owner, name, given := strings.Cut(rest, "/"); given {
		ref.owner, ref.name = owner, name
	}
	if hub && (ref.owner == "" || ref.revision == "") || !rePart.MatchString(ref.owner) ||
		!rePart.MatchString(ref.name) || ref.revision != "" && !plain(ref.revision) ||
		ref.choice != "" && !plain(ref.choice) {
		return ref, true, bad
	}
	return ref, true, nil
}

// plain reports whether each part of a path has letters, digits and . _ - only, and begins with none of . and -.
func plain(path string) bool {
	for part := range strings.SplitSeq(path, "/") {
		if !rePart.MatchString(part) {
			return false
		}
	}
	return true
}

// folder returns the name of the repository's folder in a cache of the hub.
func (ref reference) folder() string { return "models--" + ref.owner + "--" + ref.name }

// choiceError says that a reference fits none, or several, of the files that there are.
type choiceError struct {
	ref     reference
	several bool
	files   []string
}

func (e *choiceError) Error() string {
	if len(e.files) == 0 {
		return fmt.Sprintf("%v: %s: there are no GGUF files", ErrReference, e.ref.text)
	}
	text, list := "fits none of the files; there are", e.files
	if e.several {
		text = "fits several files, name one of them"
	}
	more := ""
	if len(list) > mostListed {
		more = fmt.Sprintf(" and %d more", len(list)-mostListed)
		list = list[:mostListed]
	}
	return fmt.Sprintf("%v: %s %s: %s%s", ErrReference, e.ref.text, text, strings.Join(list, ", "), more)
}

func (e *choiceError) Unwrap() error { return ErrReference }

// pick returns the GGUF files that a reference asks for among the files of a repository, all parts of a split model in
// their order. It returns nil if the reference asks for the repository as a folder.
func (ref reference) pick(files []string) ([]string, error) {
	ggufs := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return path.Ext(f) != ".gguf" })
	if !ref.custom && (len(ggufs) == 0 || slices.Contains(files, "model.safetensors")) {
		return nil, nil
	}
	name, err := ref.choose(ggufs)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, f := range ggufs {
		there[f] = true
	}
	parts, err := parts(name, there)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrReference, ref.text, err)
	}
	return parts, nil
}

// parts returns the files of the model that begins in a GGUF file.
func parts(first string, there map[string]bool) ([]string, error) {
	stem, _, of, split := manifest.Part(first)
	if !split {
		return []string{first}, nil
	}
	var parts []string
	for i := range of {
		part := fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, of)
		if !there[part] {
			return nil, fmt.Errorf("of %d files %s is missing", of, part)
		}
		parts = append(parts, part)
	}
	return parts, nil
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
	first = slices.DeleteFunc(first, beside)
	kinds := quantOrder
	if ref.custom {
		kinds = []string{ref.choice}
	} else if len(first) == 1 {
		return first[0], nil
	}
	for _, kind := range kinds {
		re := regexp.MustCompile(`(?i)(^|[^A-Za-z0-9])` + regexp.QuoteMeta(kind) + `(-\d{5}-of-\d{5})?\.gguf$`)
		fit := slices.DeleteFunc(slices.Clone(first), func(f string) bool { return !re.MatchString(f) })
		if len(fit) == 1 {
			return fit[0], nil
		}
		if len(fit) > 1 {
			return "", &choiceError{ref, true, fit}
		}
	}
	return "", &choiceError{ref, false, first}
}

// beside reports whether a GGUF file only goes with a model: what reads pictures for it, or the statistics of its
// quantisation.
func beside(file string) bool {
	base := strings.ToLower(path.Base(file))
	return strings.Contains(base, "mmproj") || strings.Contains(base, "imatrix")
}
