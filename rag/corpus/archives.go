package corpus

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
	"golang.org/x/text/encoding/charmap"

	"github.com/sluice-rag/sluice/rag/corpus/doc"
)

// ArchiveLimits bounds what is unpacked from one archive, nested archives included. The zero value is
// DefaultArchiveLimits.
type ArchiveLimits struct {
	MaxBytes   int64 `key:"max_archive_gib" unit:"GiB" bounds:"1,65536" doc:"what comes out of an archive at most, GiB; the files in it up to there are read"`
	MaxEntries int   `key:"max_archive_entries" bounds:"1,1000000000" doc:"files, folders and links in an archive at most"`
	MaxRatio   int   `key:"max_archive_ratio" bounds:"2,1000000" doc:"bytes that come out for each byte of an archive at most, behind the first 64 MiB"`
	Nesting    int   `key:"archive_nesting" bounds:"0,8" doc:"how deep archives in archives are read; 0 reads none in another"`
}

// DefaultArchiveLimits returns the default limits.
func DefaultArchiveLimits() ArchiveLimits {
	return ArchiveLimits{MaxBytes: 4 << 30, MaxEntries: 100_000, MaxRatio: 250, Nesting: 1}
}

const (
	maxDictionary = 64 << 20 // bytes that xz and zstd may refer back to; their levels up to 9 and 19 stay within them
	freeBytes     = 64 << 20 // may be unpacked from an archive whatever its ratio
)

// archiveNames are the endings of archives that are read, for messages.
const archiveNames = "zip, tar, tgz, gz, bz2, xz and zst"

// openPacked unpacks a stream.
type openPacked func(io.Reader) (io.ReadCloser, error)

// archiveReader says how an archive is read: unpacked first, where unpack is not nil, and then as a ZIP file, a tar
// file or, if it is neither, one file of the same name without its last ending.
type archiveReader struct {
	unpack   openPacked
	zip, tar bool
}

// archiveKind returns how a file with this name is read as an archive, or nil if it is not an archive.
func archiveKind(name string) *archiveReader {
	name = strings.ToLower(name)
	for _, k := range []struct {
		ending string
		archiveReader
	}{
		{".zip", archiveReader{zip: true}}, {".tar", archiveReader{tar: true}},
		{".tgz", archiveReader{unpack: ungzip, tar: true}}, {".gz", archiveReader{unpack: ungzip}},
		{".tbz2", archiveReader{unpack: unbzip2, tar: true}}, {".tbz", archiveReader{unpack: unbzip2, tar: true}},
		{".bz2", archiveReader{unpack: unbzip2}},
		{".txz", archiveReader{unpack: unxz, tar: true}}, {".xz", archiveReader{unpack: unxz}},
		{".tzst", archiveReader{unpack: unzstd, tar: true}}, {".zst", archiveReader{unpack: unzstd}},
	} {
		if rest, ok := strings.CutSuffix(name, k.ending); ok {
			k.tar = k.tar || k.unpack != nil && strings.HasSuffix(rest, ".tar")
			return &k.archiveReader
		}
	}
	return nil
}

func ungzip(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }

func unbzip2(r io.Reader) (io.ReadCloser, error) { return io.NopCloser(bzip2.NewReader(r)), nil }

func unxz(r io.Reader) (io.ReadCloser, error) {
	x, err := xz.NewReader(r, maxDictionary)
	return io.NopCloser(x), err
}

func unzstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxDictionary), zstd.WithDecoderMaxMemory(2*maxDictionary))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}

// unpacking is the state of reading an archive file and the archives nested in it.
type unpacking struct {
	l       *loader
	limits  ArchiveLimits
	packed  int64 // bytes of the file
	out     int64 // bytes unpacked so far
	entries int
}

// archive reads the files in an archive, each as if it lay in a folder of the archive's name.
func (l *loader) archive(at found, kind *archiveReader) error {
	u := &unpacking{l: l, limits: l.o.Archives, packed: max(at.size, 1)}
	err := u.read(at, kind, 0)
	if errors.Is(err, doc.ErrArchive) {
		return l.skip(at.path, err, true)
	}
	return err
}

// read reads an archive at a depth of nesting.
func (u *unpacking) read(at found, kind *archiveReader, depth int) error {
	if err := u.l.cancelled(); err != nil {
		return err
	}
	f, err := at.open()
	if err != nil {
		return u.l.skip(at.path, reason(err), true)
	}
	defer f.Close()
	if kind.zip {
		return u.readZip(at, f, depth)
	}
	var r io.Reader = cancelled{u.l.ctx, f}
	if kind.unpack != nil {
		x, err := kind.unpack(bufio.NewReaderSize(r, 64<<10))
		if err != nil {
			return u.broken(at, err)
		}
		defer x.Close()
		r = &counted{u, x}
	}
	if kind.tar {
		return u.readTar(at, r, depth)
	}
	inner := filepath.Base(at.path)
	inner = strings.TrimSuffix(inner, filepath.Ext(inner))
	if why := u.l.walk.chosen(at.name + "/" + inner); why != nil {
		return u.l.skip(at.path, why, false)
	}
	return u.member(at.in(inner, -1, at.modified, r), depth)
}

// broken skips an archive that cannot be read to its end.
func (u *unpacking) broken(at found, err error) error {
	if stop := u.l.cancelled(); stop != nil {
		return stop
	}
	if errors.Is(err, doc.ErrArchive) {
		return err
	}
	return u.l.skip(at.path, fmt.Errorf("%w: a broken archive: %w", ErrFormat, err), true)
}

// counted counts the bytes unpacked from an archive and fails beyond a limit.
type counted struct {
	u *unpacking
	r io.Reader
}

func (c *counted) Read(b []byte) (int, error) {
	if err := c.u.l.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(b)
	c.u.out += int64(n)
	switch limits := c.u.limits; {
	case c.u.out > limits.MaxBytes:
		return n, fmt.Errorf("%w: %w: more than %d bytes (ingest.max_archive_gib) come out of it: at least %d", doc.ErrArchive,
			ErrTooLarge, limits.MaxBytes, c.u.out)
	case c.u.out > freeBytes && c.u.out/c.u.packed >= int64(limits.MaxRatio):
		return n, fmt.Errorf("%w: %w: more than %d bytes (ingest.max_archive_ratio) come out for each of its own: %d of "+
			"%d", doc.ErrArchive, ErrTooLarge, limits.MaxRatio, c.u.out, c.u.packed)
	}
	return n, err
}

// entry counts a file, folder or link in an archive.
func (u *unpacking) entry() error {
	if u.entries++; u.entries > u.limits.MaxEntries {
		return fmt.Errorf("%w: %w: more than %d entries (ingest.max_archive_entries)", doc.ErrArchive, ErrTooLarge,
			u.limits.MaxEntries)
	}
	return u.l.cancelled()
}

// member reads a file in an archive.
func (u *unpacking) member(at found, depth int) error {
	kind := archiveKind(at.path)
	switch {
	case kind == nil:
		return u.l.each(at)
	case depth >= u.limits.Nesting:
		return u.l.skip(at.path, fmt.Errorf("%w: an archive %d deep in another, at most %d are read "+
			"(ingest.archive_nesting)", ErrUnknown, depth+1, u.limits.Nesting), false)
	}
	return u.read(at, kind, depth+1)
}

// ArchiveOf returns the existing archive file that a document's path (Document.Path) leads into: "/a/b.zip" for
// "/a/b.zip/c.md"; "" for a path that is a file's own, or whose archive does not exist.
func ArchiveOf(path string) string {
	for i := 0; i < len(path); i++ {
		if path[i] != '/' || archiveKind(path[:i]) == nil {
			continue
		}
		if st, err := os.Stat(path[:i]); err == nil && st.Mode().IsRegular() {
			return path[:i]
		}
	}
	return ""
}

// memberPath returns the path of a file in an archive, with slashes. It refuses a path that leads out of the folder
// that the archive is unpacked to.
func memberPath(name string) (string, error) {
	clean := strings.ReplaceAll(name, `\`, "/")
	clean = strings.TrimPrefix(clean, "./")
	switch {
	case clean == "" || !utf8.ValidString(clean) || strings.ContainsFunc(clean, func(r rune) bool { return r < ' ' }):
		return "", fmt.Errorf("%w: %q is no name of a file", ErrFormat, name)
	case strings.HasPrefix(clean, "/") || len(clean) > 1 && clean[1] == ':' || len(clean) > maxPath ||
		slices.Contains(strings.Split(clean, "/"), ".."):
		return "", fmt.Errorf("%w: %q leads out of the archive", ErrFormat, name)
	}
	return strings.Join(slices.DeleteFunc(strings.Split(clean, "/"),
		func(part string) bool { return part == "" || part == "." }), "/"), nil
}

// maxPath bounds the path of a file in an archive, in bytes: it becomes an id.
const maxPath = 4096

// wanted reports whether a file in an archive, by its path there, is read; other files are skipped. seen holds the
// files before it.
func (u *unpacking) wanted(at found, name string, seen map[string]bool) (inner string, ok bool, err error) {
	inner, err = memberPath(name)
	path := at.path + "/" + strings.ToValidUTF8(strings.ReplaceAll(name, "\x00", "\ufffd"), "\ufffd")
	if err != nil {
		return "", false, u.l.skip(path, err, true)
	}
	for part := range strings.SplitSeq(inner, "/") {
		switch {
		case strings.HasPrefix(part, ".") && !u.l.o.Hidden:
			return "", false, u.l.skip(path, ErrHidden, false)
		case !u.l.o.NoIgnore && (doc.OneOf(part, litter) || part == "__MACOSX"):
			return "", false, u.l.skip(path, fmt.Errorf("%w: in a folder of packages, caches or versions", ErrIgnored),
				false)
		}
	}
	if why := u.l.walk.chosen(at.name + "/" + inner); why != nil {
		return "", false, u.l.skip(path, why, false)
	}
	if seen[inner] {
		return "", false, u.l.skip(path, fmt.Errorf("%w: the archive has several files of this name; the first is read",
			ErrDuplicate), true)
	}
	seen[inner] = true
	return inner, true, nil
}

// readTar reads a tar file as a stream. Entries that are not regular files, such as links, are skipped.
func (u *unpacking) readTar(at found, r io.Reader, depth int) error {
	seen := map[string]bool{}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return u.broken(at, err)
		}
		if err := u.entry(); err != nil {
			return err
		}
		name := h.Name
		if !utf8.ValidString(name) {
			name = oldName(name)
		}
		switch h.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg:
		default:
			err := fmt.Errorf("%w: a link or device in an archive", ErrUnknown)
			if err := u.l.skip(at.path+"/"+doc.Clean(name), err, false); err != nil {
				return err
			}
			continue
		}
		inner, ok, err := u.wanted(at, name, seen)
		if err == nil && ok {
			err = u.member(at.in(inner, h.Size, h.ModTime, t), depth)
		}
		if err != nil {
			return err
		}
	}
}

// oldName decodes a name that is not UTF-8 from the character set of ZIP files.
func oldName(name string) string {
	text, err := charmap.CodePage437.NewDecoder().String(name)
	if err != nil {
		return name
	}
	return text
}

// readZip reads a ZIP file in place, or in memory if it is in another archive.
func (u *unpacking) readZip(at found, f io.Reader, depth int) error {
	var from io.ReaderAt
	size := at.size
	if file, ok := f.(*os.File); ok {
		st, err := file.Stat()
		if err != nil {
			return u.broken(at, err)
		}
		from, size = file, st.Size()
	} else {
		raw, err := io.ReadAll(io.LimitReader(f, u.l.o.MaxFileBytes+1))
		if err != nil {
			return u.broken(at, err)
		}
		if int64(len(raw)) > u.l.o.MaxFileBytes {
			return u.l.skip(at.path, fmt.Errorf("%w of %d bytes (ingest.max_file_mib): at least %d", ErrTooLarge,
				u.l.o.MaxFileBytes, len(raw)), true)
		}
		from, size = strings.NewReader(string(raw)), int64(len(raw))
	}
	list := &doc.Bounded{R: from, Left: doc.MaxDirectory}
	z, err := zip.NewReader(list, size)
	if err != nil {
		return u.broken(at, err)
	}
	list.Left = 1 << 62
	seen := map[string]bool{}
	for _, f := range z.File {
		if err := u.zipEntry(at, f, seen, depth); err != nil {
			return err
		}
	}
	return nil
}

// zipEntry reads one file of a ZIP file.
func (u *unpacking) zipEntry(at found, f *zip.File, seen map[string]bool, depth int) error {
	if err := u.entry(); err != nil {
		return err
	}
	name := f.Name
	if f.NonUTF8 && !utf8.ValidString(name) {
		name = oldName(name)
	}
	if strings.HasSuffix(name, "/") || strings.HasSuffix(name, `\`) {
		return nil // a folder
	}
	path := at.path + "/" + doc.Clean(name)
	if !f.Mode().IsRegular() {
		return u.l.skip(path, fmt.Errorf("%w: a link or device in an archive", ErrUnknown), false)
	}
	inner, ok, err := u.wanted(at, name, seen)
	if err != nil || !ok {
		return err
	}
	if f.Flags&1 != 0 {
		return u.l.skip(path, fmt.Errorf("%w: encrypted; unpack it with its password", ErrFormat), true)
	}
	r, err := f.Open()
	if err != nil {
		return u.l.skip(path, fmt.Errorf("%w: %w", ErrFormat, err), true)
	}
	defer r.Close()
	size := int64(-1)
	if f.UncompressedSize64 < 1<<62 {
		size = int64(f.UncompressedSize64)
	}
	modified := f.Modified
	if modified.Before(time.Unix(0, 0)) {
		modified = time.Time{}
	}
	return u.member(at.in(inner, size, modified, &counted{u, r}), depth)
}
