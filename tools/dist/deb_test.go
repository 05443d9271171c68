package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPackageOfDebian reads a package by the description of its format (deb(5), ar(5)), and by dpkg-deb where that is.
func TestPackageOfDebian(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sluice-1")
	write(t, filepath.Join(dir, "bin", "sluice"), "#!/bin/sh\necho here\n", 0o755)
	write(t, filepath.Join(dir, "lib", "a.so"), "odd", 0o644)
	d := deb{name: "sluice", version: "1.2.3", arch: "amd64", depends: "libc6 (>= 2.34)", description: "short\n long",
		modified: time.Unix(1700000000, 0), units: map[string][]byte{"sluice.service": []byte("[Unit]\n")}}
	to := filepath.Join(t.TempDir(), "a.deb")
	again := filepath.Join(t.TempDir(), "b.deb")
	for _, path := range []string{to, again} {
		if _, err := d.writeDeb(path, dir); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := os.ReadFile(again); err != nil || !bytes.Equal(raw, other) {
		t.Error("two packages of the same files differ", err)
	}
	rest, ok := bytes.CutPrefix(raw, []byte("!<arch>\n"))
	if !ok {
		t.Fatal("it is no ar archive")
	}
	parts := map[string][]byte{}
	var order []string
	for len(rest) > 0 {
		head := rest[:60]
		size, err := strconv.Atoi(strings.TrimSpace(string(head[48:58])))
		if err != nil || string(head[58:]) != "`\n" {
			t.Fatalf("%q: %v", head, err)
		}
		name := strings.TrimSpace(string(head[:16]))
		order, parts[name] = append(order, name), rest[60:60+size]
		rest = rest[60+size+size%2:]
	}
	if diff := cmp.Diff([]string{"debian-binary", "control.tar.gz", "data.tar.gz"}, order); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"usr/": "755", "usr/bin/": "755", "usr/lib/": "755",
		"usr/lib/sluice/": "755", "usr/lib/sluice/bin/": "755", "usr/lib/sluice/lib/": "755",
		"usr/lib/systemd/": "755", "usr/lib/systemd/system/": "755", "usr/lib/sluice/bin/sluice": "755",
		"usr/lib/sluice/lib/a.so": "644", "usr/lib/systemd/system/sluice.service": "644",
		"usr/bin/sluice": "777 ../lib/sluice/bin/sluice"}
	if diff := cmp.Diff(want, listed(t, parts["data.tar.gz"])); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"control": "644", "md5sums": "644"},
		listed(t, parts["control.tar.gz"])); diff != "" {
		t.Error(diff)
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("SKIP: dpkg-deb is not here")
	}
	root := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "dpkg-deb", "--extract", to, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "usr", "bin", "sluice")).Output()
	if err != nil || string(out) != "here\n" {
		t.Errorf("%v, %q", err, out)
	}
	out, err = exec.CommandContext(t.Context(), "dpkg-deb", "--field", to, "Package", "Version", "Depends").Output()
	if err != nil || string(out) != "Package: sluice\nVersion: 1.2.3\nDepends: libc6 (>= 2.34)\n" {
		t.Errorf("%v, %q", err, out)
	}
}

// listed returns the permissions of what a .tar.gz has, by name; of a link also where it leads.
func listed(t *testing.T, raw []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, there := all[h.Name]; there {
			t.Errorf("%s is there twice", h.Name)
		}
		all[h.Name] = strings.TrimSpace(strconv.FormatInt(h.Mode, 8) + " " + h.Linkname)
	}
}
