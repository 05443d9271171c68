package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// place is where programs run: a folder that they take for the whole system, and what they are started with.
type place struct {
	root, dir string
	user      int // and group
	env       []string
}

// user is the ordinary user on the other system.
func (c *checker) user(env ...string) place {
	return place{c.Root, "/", user, append([]string{"HOME=" + c.home, "PATH=/usr/bin:/bin"}, env...)}
}

// command returns a command that runs in the place, with its own processes and /proc. QEMU_CPU is kept: it names the
// processor that the emulator imitates.
func (p place) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "--pid", "--fork", "--kill-child",
		"--mount-proc", "--root=" + p.root, "--wd=" + p.dir,
		fmt.Sprintf("--setgid=%d", p.user), fmt.Sprintf("--setuid=%d", p.user)}, args...)...)
	cmd.Env = p.env
	if processor := os.Getenv("QEMU_CPU"); processor != "" {
		cmd.Env = append(slices.Clip(p.env), "QEMU_CPU="+processor)
	}
	return cmd
}

// run returns what a command prints. The command must exit with the given code.
func (p place) run(ctx context.Context, code int, args ...string) (string, error) {
	out, err := p.command(ctx, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == code {
		err = nil
	} else if err == nil && code != 0 {
		err = fmt.Errorf("exit status 0 instead of %d", code)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// prints runs a program. It is an error if the output does not match the regular expression want.
func (p place) prints(ctx context.Context, code int, want, program string, args ...string) error {
	out, err := p.run(ctx, code, append([]string{program}, args...)...)
	if err == nil && !regexp.MustCompile(want).MatchString(out) {
		err = fmt.Errorf("sluice %s does not print %q:\n%s", strings.Join(args, " "), want, out)
	}
	return err
}

// bring copies a folder of this system to one of the place, and gives the place's user all that is below owned.
func (p place) bring(from, to, owned string) error {
	if err := os.CopyFS(filepath.Join(p.root, to), os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(filepath.Join(p.root, owned), func(name string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chown(name, p.user, p.user))
	})
}

// whole runs what a new user does first: doctor, ingest, a question, and a server, which is asked over HTTP and ended.
func (c *checker) whole(ctx context.Context, p place, what, program, key string, serve ...string) error {
	for _, v := range []struct {
		want string
		args []string
	}{
		{`onnxruntime .*/lib/sluice/lib/libonnxruntime\.so`, []string{"doctor"}},
		{`[1-9]\d* chunks`, []string{"ingest", "/srv/docs"}},
		{`\[1\]`, []string{"ask", "What does the build tag native do?"}},
	} {
		if err := p.prints(ctx, 0, v.want, program, v.args...); err != nil {
			return err
		}
	}
	s, err := p.start(ctx, append([]string{program}, serve...)...)
	if err != nil {
		return err
	}
	s.key = key
	err = s.ask(ctx, "/readyz", "", `"ready"`)
	if err == nil {
		err = s.ask(ctx, "/v1/chat/completions", `{"model":"sluice","max_tokens":16,"messages":[{"role":"user",`+
			`"content":"What does the build tag native do?"}]}`, `"citations":\[\{`)
	}
	if err = errors.Join(err, s.end()); err != nil {
		return err
	}
	c.say("✓ %s: doctor, ingest, ask, serve (/readyz, an answer, SIGTERM)", what)
	return nil
}

// beside returns the one file beside the archive whose name matches.
func (c *checker) beside(pattern string) (string, error) {
	found, err := filepath.Glob(filepath.Join(filepath.Dir(c.Archive), pattern))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d files %s beside %s: %w", len(found), pattern, c.Archive,
			errors.Join(err, fs.ErrNotExist))
	}
	return found[0], nil
}

// debian installs the package by dpkg, and removes it at the end.
func (c *checker) debian(ctx context.Context) (err error) {
	from, err := c.beside("sluice_*_" + c.Arch + ".deb")
	if err != nil {
		return err
	}
	root := place{c.Root, "/", 0, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	deb := c.place + "/sluice.deb"
	if err := copyFile(from, c.outside(deb)); err != nil {
		return err
	}
	if _, err := root.run(ctx, 0, "/usr/bin/dpkg", "--install", deb); err != nil {
		return err
	}
	defer func() {
		_, e := root.run(ctx, 0, "/usr/bin/dpkg", "--purge", "sluice")
		err = errors.Join(err, e, os.RemoveAll(c.outside("/srv/docs")))
	}()
	p := c.user("SLUICE_STORE=" + c.home + "/of-package")
	if err := p.bring(c.Documents, "/srv/docs", "/srv/docs"); err != nil {
		return err
	}
	return c.whole(ctx, p, "the package of Debian", "/usr/bin/sluice", "", "serve", "--listen", "127.0.0.1:0")
}

// image unpacks the layers of the container image into a folder of their own, and runs what it names there.
func (c *checker) image(ctx context.Context) error {
	from, err := c.beside("sluice_*_" + c.Arch + ".oci.tar")
	if err != nil {
		return err
	}
	root := c.outside(c.place + "/image")
	settings, err := unpackImage(from, root)
	if err != nil {
		return err
	}
	for name, device := range map[string]int{"null": 1<<8 | 3, "urandom": 1<<8 | 9} { // as every runtime makes them
		at := filepath.Join(root, "dev", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), syscall.Mknod(at, syscall.S_IFCHR, device),
			os.Chmod(at, 0o666)); err != nil {
			return err
		}
	}
	id, _, _ := strings.Cut(settings.User, ":")
	number, err := strconv.Atoi(id)
	if err != nil || number == 0 {
		return fmt.Errorf("%s: the user %q: %w", from, settings.User, err)
	}
	p := place{root, settings.WorkingDir, number, append(settings.Env, "SLUICE_SERVE_LISTEN=127.0.0.1:0")}
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "proc"), 0o755),
		p.bring(c.Models, "/var/cache/sluice/models", "/var/cache/sluice"),
		p.bring(c.Documents, "/srv/docs", "/srv/docs")); err != nil {
		return err
	}
	program := settings.Entrypoint[0]
	out, err := p.run(ctx, 0, program, "keys", "add", "--json", "admin")
	if err != nil {
		return err
	}
	var made struct{ Key string }
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return c.whole(ctx, p, "the root of the image", program, made.Key, settings.Cmd...)
}

// imageConfig is what an image starts.
type imageConfig struct {
	User, WorkingDir     string
	Env, Entrypoint, Cmd []string
}

// unpackImage writes the layers of an image to a folder, one over the other, and returns how it is started. The files
// belong to whom the layers say. Every blob has the digest that it is named by.
func unpackImage(from, to string) (*imageConfig, error) {
	blobs, err := readBlobs(from)
	if err != nil {
		return nil, err
	}
	var index struct{ Manifests []descriptor }
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var settings struct{ Config imageConfig }
	if err := json.Unmarshal(blobs["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%s: index.json: %d manifests: %w", from, len(index.Manifests), err)
	}
	if err := json.Unmarshal(blobs[index.Manifests[0].Digest], &manifest); err != nil {
		return nil, fmt.Errorf("%s: the manifest: %w", from, err)
	}
	if err := json.Unmarshal(blobs[manifest.Config.Digest], &settings); err != nil {
		return nil, fmt.Errorf("%s: the configuration: %w", from, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written by it
	for _, l := range manifest.Layers {
		z, err := gzip.NewReader(bytes.NewReader(blobs[l.Digest]))
		if err == nil {
			err = unpackLayer(z, root)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: layer %s: %w", from, l.Digest, err)
		}
	}
	return &settings.Config, nil
}

// readBlobs returns the files of a layout by their names, and blobs by their digests.
func readBlobs(from string) (map[string][]byte, error) {
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	all := map[string][]byte{}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", from, h.Name, err)
		}
		name, sum := h.Name, digest(text)
		if path.Dir(name) == "blobs/sha256" {
			if name = "sha256:" + path.Base(name); name != sum {
				return nil, fmt.Errorf("%s: %s has the digest %s", from, name, sum)
			}
		}
		all[name] = text
	}
}

// unpackLayer writes a layer over what is there. This image's layers remove nothing: a whiteout is an error.
func unpackLayer(r io.Reader, root *os.Root) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		switch {
		case strings.HasPrefix(path.Base(name), ".wh."):
			return fmt.Errorf("%s removes something", name)
		case h.Typeflag == tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case h.Typeflag == tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		default:
			var f *os.File
			if f, err = root.Create(name); err == nil {
				_, err = io.Copy(f, t)
				err = errors.Join(err, f.Close())
			}
		}
		if err == nil && h.Typeflag != tar.TypeSymlink {
			err = errors.Join(root.Chown(name, h.Uid, h.Gid), root.Chmod(name, h.FileInfo().Mode()))
		}
		if err != nil {
			return err
		}
	}
}
