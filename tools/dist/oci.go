package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/internal/buildinfo"
)

// What the image starts as: the user and group, folders that this user owns, and the environment.
const imageUser = 7420

var (
	imageFolders = []string{"var/lib/sluice/", "var/cache/sluice/"}
	imageEnv     = []string{"PATH=/usr/bin", "HOME=/var/lib/sluice", "SLUICE_CACHE=/var/cache/sluice",
		"SLUICE_STORE=/var/lib/sluice/store", "SLUICE_SERVE_LISTEN=0.0.0.0:7420",
		"SLUICE_SERVE_API_KEY_FILE=/var/lib/sluice/keys.txt"}
)

// image writes a container image for podman, docker and containerd, as a layout of the Open Container Initiative in a
// .tar, and returns its path. It has two layers: the compiler's C library, and the files of the package of Debian.
func (b *builder) image(ctx context.Context, files []byte, modified time.Time) (string, error) {
	base, err := b.base(ctx, modified)
	if err != nil {
		return "", err
	}
	created := modified.UTC().Format(time.RFC3339)
	to := filepath.Join(b.repo, "dist", fmt.Sprintf("sluice_%s_%s.oci.tar", buildinfo.Version, b.env.Arch))
	return to, writeImage(to, modified, map[string]any{
		"created": created, "architecture": b.env.Arch, "os": "linux",
		"config": map[string]any{
			"User": fmt.Sprintf("%d:%[1]d", imageUser), "Env": imageEnv, "WorkingDir": "/var/lib/sluice",
			"Entrypoint": []string{"/usr/bin/sluice"}, "Cmd": []string{"serve"}, "StopSignal": "SIGTERM",
			"ExposedPorts": map[string]any{"7420/tcp": struct{}{}},
			"Volumes":      map[string]any{"/var/lib/sluice": struct{}{}},
			"Labels": map[string]string{
				"org.opencontainers.image.title":       "sluice",
				"org.opencontainers.image.description": summary,
				"org.opencontainers.image.version":     buildinfo.Version,
				"org.opencontainers.image.licenses":    "Apache-2.0",
				"org.opencontainers.image.created":     created,
			},
		},
	}, base, files)
}

// base returns the layer with what the program needs of a system: glibc, names of users, and folders to write to.
func (b *builder) base(ctx context.Context, modified time.Time) ([]byte, error) {
	return packed(modified, func(t *tarball) error {
		for _, name := range slices.Sorted(maps.Keys(ofGlibc)) {
			from, err := b.ofCompiler(ctx, b.cc(), name)
			if err == nil && from != "" { // "": a loader of another architecture
				err = t.file(from, "usr/lib/"+name)
			}
			if err != nil {
				return err
			}
		}
		for _, name := range []string{"lib", "lib64"} { // where the loader is, and looks
			if err := t.link(name, "usr/lib"); err != nil {
				return err
			}
		}
		for _, f := range [][2]string{
			{"passwd", fmt.Sprintf("root:x:0:0::/:/none\nsluice:x:%d:%[1]d::/var/lib/sluice:/none\n", imageUser)},
			{"group", fmt.Sprintf("root:x:0:\nsluice:x:%d:\n", imageUser)},
			{"nsswitch.conf", "hosts: files dns\n"},
		} {
			if err := t.text("etc/"+f[0], []byte(f[1])); err != nil {
				return err
			}
		}
		err := t.add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777})
		for _, name := range imageFolders {
			err = errors.Join(err, t.add(tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, Uid: imageUser,
				Gid: imageUser}))
		}
		return err
	})
}

// descriptor names a blob of an image (image-spec, descriptor.md).
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// path returns where the blob is in the layout.
func (d descriptor) path() string { return strings.ReplaceAll("blobs/"+d.Digest, ":", "/") }

func digest(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// writeImage writes a configuration (image-spec, config.md), to which it adds the digests, and layers as .tar.gz. The
// file manifest.json is for docker before version 25.
func writeImage(to string, modified time.Time, config map[string]any, layers ...[]byte) error {
	const media = "application/vnd.oci.image."
	contents := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	add := func(kind string, content []byte) descriptor {
		d := descriptor{MediaType: media + kind, Digest: digest(content), Size: len(content)}
		contents[d.path()] = content
		return d
	}
	var all []descriptor
	var plain, paths []string
	for _, l := range layers {
		z, err := gzip.NewReader(bytes.NewReader(l))
		if err != nil {
			return err
		}
		unpacked, err := io.ReadAll(z)
		if err != nil {
			return err
		}
		d := add("layer.v1.tar+gzip", l)
		all, plain, paths = append(all, d), append(plain, digest(unpacked)), append(paths, d.path())
	}
	config["rootfs"] = map[string]any{"type": "layers", "diff_ids": plain}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	settings := add("config.v1+json", text)
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media + "manifest.v1+json",
		"config": settings, "layers": all})
	if err != nil {
		return err
	}
	const name = "sluice:latest"
	first := add("manifest.v1+json", manifest)
	first.Annotations = map[string]string{"org.opencontainers.image.ref.name": name,
		"io.containerd.image.name": "docker.io/library/" + name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": media + "index.v1+json",
		"manifests": []descriptor{first}})
	if err != nil {
		return err
	}
	old, err := json.Marshal([]any{map[string]any{"Config": settings.path(), "RepoTags": []string{name},
		"Layers": paths}})
	if err != nil {
		return err
	}
	contents["index.json"], contents["manifest.json"] = index, old
	var out bytes.Buffer
	t := &tarball{tar.NewWriter(&out), modified, map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		if err := t.text(name, contents[name]); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), os.WriteFile(to, out.Bytes(), 0o644))
}
