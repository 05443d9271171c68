package models

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/sluice-rag/sluice/embed/onnx"
	"github.com/sluice-rag/sluice/internal/manifest"
)

// Elsewhere lists the models in the caches of Hugging Face's programs and of Ollama. What is damaged there, only begun
// or of no kind that Sluice reads is left out.
func (r *Registry) Elsewhere() (list []Info) {
	for _, dir := range hubCaches() {
		list = append(list, inCache(dir, false)...)
	}
	for _, store := range ollamaStores() {
		found, _ := fs.Glob(os.DirFS(filepath.Join(store, "manifests", "registry.ollama.ai")), "*/*/*")
		for _, f := range found {
			name, tag := path.Split(f)
			name = ollamaPrefix + strings.TrimPrefix(strings.TrimSuffix(name, "/"), "library/")
			if tag != "latest" {
				name += ":" + tag
			}
			ref, ok, err := parseReference(name)
			if !ok || err != nil {
				continue
			}
			if p, err := ref.inOllama(store); err == nil {
				list = append(list, p.info(name, manifest.Generator, "https://ollama.com/"+ref.owner+"/"+ref.name))
			}
		}
	}
	return list
}

// inCache lists the models in a cache with the layout of Hugging Face's programs, each by a name that finds it there.
func inCache(cache string, ours bool) (list []Info) {
	snapshots, _ := fs.Glob(os.DirFS(cache), "models--*/snapshots/*")
	for _, snapshot := range snapshots {
		dir := filepath.Join(cache, snapshot)
		base := filepath.Dir(filepath.Dir(dir))
		repo := strings.Split(filepath.Base(base), "--")
		names, err := within(base, dir)
		if err != nil || len(repo) != 3 {
			continue
		}
		at := ""
		if rev := revisionOf(base, filepath.Base(dir)); rev != "main" {
			at = "@" + rev
		}
		name, source := hubPrefix+repo[1]+"/"+repo[2], hubHost+"/"+repo[1]+"/"+repo[2]
		there := map[string]bool{}
		for _, f := range names {
			there[f] = true
		}
		add := func(name string, kind manifest.Kind, p place) {
			_, err := os.Stat(p.record())
			if _, ok, e := parseReference(name); ok && e == nil && (!ours || err == nil) {
				list = append(list, p.info(name, kind, source))
			}
		}
		if kind, ok := usable(dir, there); ok {
			add(name+at, kind, place{dir: dir, folder: true, files: names, ours: ours})
		}
		for _, f := range names {
			_, part, _, split := manifest.Part(f)
			if path.Ext(f) != ".gguf" || beside(f) || split && part > 1 {
				continue
			}
			if files, err := parts(f, there); err == nil {
				add(name+":"+f+at, manifest.Generator, place{dir: dir, files: files, ours: ours})
			}
		}
	}
	return list
}

// usable reports whether a folder with these files is a model that is read here, and of which kind.
func usable(dir string, there map[string]bool) (kind manifest.Kind, ok bool) {
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return "", false
	}
	ok = there["model.safetensors"] && onnx.Supported(c.ModelType)
	for _, f := range onnx.Exports() {
		ok = ok || there[f]
	}
	return cmp.Or(manifest.KindOf(c.Architectures), manifest.Encoder), ok
}

// revisionOf returns a revision by which a snapshot is found: main, another one that leads to it, or its commit.
func revisionOf(base, commit string) string {
	refs, revision := filepath.Join(base, "refs"), commit
	_ = filepath.WalkDir(refs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(refs, path)
		if to, e := readRef(path); err == nil && e == nil && to == commit && (revision == commit || rel == "main") {
			revision = filepath.ToSlash(rel)
		}
		return nil
	})
	return revision
}

// info describes a model for a list.
func (p place) info(name string, kind manifest.Kind, source string) Info {
	i := Info{Name: name, Kind: string(kind), Source: source, Dir: p.path(), ReadOnly: !p.ours}
	for _, f := range p.files {
		if st, err := os.Stat(filepath.Join(p.dir, filepath.FromSlash(f))); err == nil {
			i.Bytes += st.Size()
		}
	}
	return i
}
