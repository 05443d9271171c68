package dist

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the format of md5sums; SHA256SUMS is what counts
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// debFolder is where a package has the archive's folder; /usr/bin/sluice leads to the program in it.
const debFolder = "usr/lib/sluice"

// deb is a package of Debian's format (deb(5)): an ar archive of a version, the control files, and the files.
type deb struct {
	name, version, arch, depends, description string // arch as Debian and Go name it
	modified                                  time.Time
	units                                     map[string][]byte // units of systemd, by name
}

// writeDeb packs the archive's folder as a package and returns its files as a .tar.gz. The bytes depend on the folder
// and the time alone.
func (d deb) writeDeb(to, dir string) (data []byte, err error) {
	names, err := files(dir)
	if err != nil {
		return nil, err
	}
	var sums bytes.Buffer
	size := int64(0)
	data, err = packed(d.modified, func(t *tarball) error {
		for _, name := range names {
			from, full := filepath.Join(dir, filepath.FromSlash(name)), path.Join(debFolder, name)
			if err := t.file(from, full); err != nil {
				return err
			}
			sum, n, err := md5Of(from)
			if err != nil {
				return err
			}
			size += n
			fmt.Fprintf(&sums, "%s  %s\n", sum, full)
		}
		for name, text := range d.units {
			if err := t.text("usr/lib/systemd/system/"+name, text); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  usr/lib/systemd/system/%s\n", md5.Sum(text), name) //nolint:gosec // as above
		}
		return t.link("usr/bin/sluice", "../lib/sluice/bin/sluice")
	})
	if err != nil {
		return nil, err
	}
	control, err := packed(d.modified, func(t *tarball) error {
		text := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: %s\nMaintainer: The Sluice developers "+
			"<noreply@example.org>\nInstalled-Size: %d\nDepends: %s\nSection: science\nPriority: optional\n"+
			"Description: %s\n", d.name, d.version, d.arch, (size+1023)/1024, d.depends, d.description)
		return errors.Join(t.text("control", []byte(text)), t.text("md5sums", sums.Bytes()))
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, part := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", control}, {"data.tar.gz", data}} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", part.name, d.modified.Unix(), 0, 0, "100644",
			len(part.data))
		out.Write(part.data)
		if len(part.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return data, os.WriteFile(to, out.Bytes(), 0o644)
}

func md5Of(name string) (sum string, size int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	h := md5.New()  //nolint:gosec // as above
	size, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), size, err
}
