package dist

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rag/sluice/tools/setup"
)

// TestImage makes an image twice, unpacks its layers, and starts a program of this system's in them, which finds the
// C library of the image alone.
func TestImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIP: the files of the layers have owners; run the test as root")
	}
	env, err := setup.New(filepath.Join("..", ".."), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	repo := t.TempDir()
	write(t, filepath.Join(repo, "dist", "x"), "", 0o644)
	modified := time.Unix(1700000000, 0)
	stage := filepath.Join(t.TempDir(), "sluice-1")
	write(t, filepath.Join(stage, "a.c"), `#include <math.h>
#include <stdio.h>
int main(int n, char **args) { (void)args; printf("%.0f\n", pow(n, 0.)); return 0; }
`, 0o644)
	if err := os.Mkdir(filepath.Join(stage, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	compile(t, "gcc", filepath.Join(stage, "a.c"), "-o", filepath.Join(stage, "bin", "sluice"), "-lm")
	layer, err := deb{name: "sluice", modified: modified}.writeDeb(filepath.Join(repo, "dist", "a.deb"), stage)
	if err != nil {
		t.Fatal(err)
	}
	b := builder{repo: repo, env: env}
	path, err := b.image(t.Context(), layer, modified)
	if err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.image(t.Context(), layer, modified); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
		t.Error("two images of the same files differ", err)
	}
	root := filepath.Join(t.TempDir(), "root")
	settings, err := unpackImage(path, root)
	if err != nil {
		t.Fatal(err)
	}
	want := &imageConfig{User: "7420:7420", WorkingDir: "/var/lib/sluice", Env: imageEnv,
		Entrypoint: []string{"/usr/bin/sluice"}, Cmd: []string{"serve"}}
	if diff := cmp.Diff(want, settings); diff != "" {
		t.Error(diff)
	}
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := place{root: root, dir: settings.WorkingDir, user: imageUser}.run(t.Context(), 0, settings.Entrypoint[0])
	if err != nil && strings.Contains(err.Error(), "unshare failed") {
		t.Skip("SKIP: no namespaces here")
	}
	if err != nil || out != "1\n" {
		t.Errorf("%q %v", out, err)
	}
	broken := bytes.Replace(first, []byte(`"Entrypoint"`), []byte(`"entrypoint"`), 1)
	write(t, path, string(broken), 0o644)
	if _, err := unpackImage(path, filepath.Join(t.TempDir(), "root")); err == nil ||
		!strings.Contains(err.Error(), "has the digest") {
		t.Error("an image whose configuration was changed:", err)
	}
	t.Run("podman", func(t *testing.T) {
		if _, err := exec.LookPath("podman"); err != nil {
			t.Skip("SKIP: podman is not here, so no container runtime has read the image")
		}
		write(t, path, string(first), 0o644)
		if out, err := exec.CommandContext(t.Context(), "podman", "load", "-i", path).CombinedOutput(); err != nil {
			t.Errorf("podman: %v: %s", err, out)
		}
	})
}

// TestCommandNamesProcessor checks that the emulator in a place knows which processor it imitates.
func TestCommandNamesProcessor(t *testing.T) {
	t.Setenv("QEMU_CPU", "cortex-a72")
	cmd := place{root: "/", dir: "/", env: []string{"HOME=/"}}.command(t.Context(), "true")
	if diff := cmp.Diff([]string{"HOME=/", "QEMU_CPU=cortex-a72"}, cmd.Env); diff != "" {
		t.Error(diff)
	}
}

// TestLayers checks that a layer stays in its folder, and that one that removes something is refused.
func TestLayers(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"another folder": {Name: "../x", Typeflag: tar.TypeReg},
		"through a link": {Name: "out/x", Typeflag: tar.TypeReg},
		"a whiteout":     {Name: "etc/.wh.passwd", Typeflag: tar.TypeReg},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range []tar.Header{{Name: "out", Linkname: "..", Typeflag: tar.TypeSymlink}, h} {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := unpackLayer(&b, root); err == nil {
			t.Errorf("%s was taken", name)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	}
}
