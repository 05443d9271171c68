package models

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
	"github.com/sluice-rag/sluice/internal/regular"
)

// hubDir returns the folder of the models that were pulled by the names of their repositories, in the layout of Hugging
// Face's programs but with real files: ONNX Runtime refuses links that lead out of a graph's folder.
func (r *Registry) hubDir() string { return r.cache.Path("hub") }

// record returns the path of the model's record. It is written last: without it the model was not pulled as a whole.
func (p place) record() string {
	if p.folder {
		return filepath.Join(p.dir, recordName)
	}
	dir, file := path.Split(p.files[0])
	return filepath.Join(p.dir, filepath.FromSlash(dir), "."+file+".json")
}

// checkPulled compares a model that was pulled with its record, which settles the files of a folder.
func (r *Registry) checkPulled(ctx context.Context, ref reference, p *place, full bool) error {
	rec, err := readRecord(p.record())
	if err != nil {
		return err
	}
	if len(rec.Files) == 0 {
		return fmt.Errorf("%w: %s names no files; delete it and pull again", ErrCorrupt, p.record())
	}
	p.files = nil
	var files []manifest.File
	for _, f := range rec.Files {
		p.files = append(p.files, f.Path)
		files = append(files, manifest.File{Path: f.Path})
	}
	return checkFiles(ctx, ref.text, p.dir, p.record(), rec, files, full)
}

// pullReference returns where a model of the hub is, after downloading it if it is neither in the cache of another
// program nor in ours.
func (r *Registry) pullReference(ctx context.Context, ref reference, progress fetch.Progress) (string, error) {
	absent := func(err error) bool { return errors.Is(err, ErrNotPulled) || errors.Is(err, ErrCorrupt) }
	if p, err := r.find(ctx, ref, false); ref.ollama || !absent(err) {
		return p.path(), err
	}
	unlock, err := r.cache.Lock(ctx, "hub-"+ref.folder())
	if err != nil {
		return "", err
	}
	defer unlock()
	if p, err := r.find(ctx, ref, false); !absent(err) { // another process has pulled it in the meantime
		return p.path(), err
	}
	a, err := r.access()
	if err != nil {
		return "", err
	}
	p, err := r.fromRepository(ctx, ref, a, progress)
	if err != nil {
		return "", fmt.Errorf("pulling %w", a.explain(ref.text, a.base+"/"+ref.owner+"/"+ref.name, err))
	}
	return p.path(), nil
}

// fromRepository downloads what the reference asks for.
func (r *Registry) fromRepository(
	ctx context.Context, ref reference, a access, progress fetch.Progress,
) (place, error) {
	repo, err := r.ask(ctx, ref, a)
	if err != nil {
		return place{}, err
	}
	p := place{dir: filepath.Join(r.hubDir(), ref.folder(), "snapshots", repo.commit), ours: true}
	if p.files, err = ref.pick(repo.names()); err != nil {
		return p, err
	}
	b := bringer{Registry: r, ref: ref, repo: repo, token: a.token, progress: progress, brought: map[string]string{}}
	if p.folder = p.files == nil; p.folder {
		if p.files, err = b.folder(ctx); err != nil {
			return p, err
		}
	}
	if err := b.announce(p.files); err != nil {
		return p, err
	}
	for _, f := range p.files {
		if _, err := b.bring(ctx, f); err != nil {
			return p, err
		}
	}
	return p, b.finish(p)
}

// bringer downloads files of one repository.
type bringer struct {
	*Registry
	ref      reference
	repo     *repository
	token    string
	progress fetch.Progress
	brought  map[string]string // blobs, by the files' names
}

func (b *bringer) source(file string) source {
	f := b.repo.files[file]
	f.URL = hubHost + "/" + b.ref.owner + "/" + b.ref.name + "/resolve/" + b.repo.commit + "/" + file
	return f
}

// announce says what will be downloaded, and returns an error if the disk has no room for it.
func (b *bringer) announce(files []string) error {
	var wants []fetch.Want
	var size int64
	for _, f := range files {
		s := b.source(f)
		wants = append(wants, fetch.Want{URL: b.mirrored(s.URL), SHA256: s.SHA256, Size: s.Size})
		size += s.Size
	}
	if err := b.cache.Room(b.ref.text, wants); err != nil {
		return err
	}
	licence := ""
	if b.repo.licence != "" {
		licence = ", licence: " + b.repo.licence
	}
	b.cache.Log("%s: commit %s, %d files, %.1f MB%s (%s/%s/%s)", b.ref.text, b.repo.commit, len(files),
		float64(size)/1e6, licence, hubHost, b.ref.owner, b.ref.name)
	return nil
}

// bring downloads a file and returns its blob.
func (b *bringer) bring(ctx context.Context, file string) (blob string, err error) {
	if blob = b.brought[file]; blob == "" {
		blob, err = b.download(ctx, b.ref.text, b.token, b.source(file), b.progress)
		b.brought[file] = blob
	}
	return blob, err
}

// finish makes the model of the blobs, and records the commit that the revision led to.
func (b *bringer) finish(p place) error {
	if err := os.Remove(p.record()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	rec := &record{}
	for _, f := range p.files {
		blob, to := b.brought[f], filepath.Join(p.dir, filepath.FromSlash(f))
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) { // what does not pass the check
			return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
		}
		if err := rec.link(blob, p.dir, f); err != nil {
			return err
		}
	}
	if b.ref.revision != b.repo.commit {
		to := filepath.Join(b.hubDir(), b.ref.folder(), "refs", filepath.FromSlash(b.ref.revision))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
		}
		if err := writeAtomic(to, []byte(b.repo.commit)); err != nil {
			return err
		}
	}
	return writeJSON(p.record(), rec)
}

// reSettings matches the files beside the weights and the tokenizer that say how a model is to be read; 1_Pooling and
// the like are the modules of sentence-transformers.
var reSettings = regexp.MustCompile(`^(config|modules|sentence_bert_config|config_sentence_transformers)\.json$|` +
	`^model\.yaml$|^[0-9]+_[A-Za-z]+/config\.json$`)

// folder returns the files of a repository that a model of vectors, classes or spans consists of. Its config.json is
// downloaded first: it decides which weights are read.
func (b *bringer) folder(ctx context.Context) (files []string, err error) {
	names := b.repo.names()
	has := func(name string) bool { return slices.Contains(names, name) }
	if !has("config.json") {
		return nil, fmt.Errorf("%w: %s has neither GGUF files nor a config.json", ErrReference, b.ref.text)
	}
	blob, err := b.bring(ctx, "config.json")
	if err != nil {
		return nil, err
	}
	c, err := readConfig(blob)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: config.json: %.200v", ErrReference, b.ref.text, err)
	}
	export := ""
	for _, e := range slices.Backward(onnx.Exports()) {
		if has(e) {
			export = e
		}
	}
	tokenizer := []string{"tokenizer.json"}
	if !has("tokenizer.json") {
		tokenizer = []string{"tokenizer_config.json", "vocab.txt"}
	}
	for _, name := range names {
		if reSettings.MatchString(name) || slices.Contains(tokenizer, name) {
			files = append(files, name)
		}
	}
	switch {
	case !has(tokenizer[len(tokenizer)-1]):
		return nil, fmt.Errorf("%w: %s has neither tokenizer.json nor vocab.txt", ErrReference, b.ref.text)
	case has("model.safetensors") && onnx.Supported(c.ModelType):
		return append(files, "model.safetensors"), nil
	case export != "":
		for _, name := range names {
			if rest, ok := strings.CutPrefix(name, export); ok && (rest == "" || rest == "_data" || rest == ".data") {
				files = append(files, name)
			}
		}
		return files, nil
	case has("model.safetensors"), has("model.safetensors.index.json"):
		return nil, fmt.Errorf("%w: %s is of the architecture %.60q, which is not one of encoders; language models are "+
			"read from GGUF files, which other repositories have", ErrReference, b.ref.text, c.ModelType)
	}
	return nil, fmt.Errorf("%w: %s has no GGUF files, no model.safetensors and no model.onnx", ErrReference, b.ref.text)
}

// config is what of a config.json decides whether and how a folder is read.
type config struct {
	ModelType     string   `json:"model_type"`
	Architectures []string `json:"architectures"`
}

func readConfig(path string) (c config, err error) {
	raw, err := regular.ReadFile(path, maxAnswer)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}
