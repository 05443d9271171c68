package dist

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// ErrCheck is wrapped if the archive does not work as expected on the other system.
var ErrCheck = errors.New("dist: check")

// CheckOptions configures where the archive is tested.
type CheckOptions struct {
	Archive   string
	Root      string // of the other system; created by debootstrap if it does not exist
	Suite     string // of Debian, for debootstrap
	Arch      string // of the archive, as Debian and Go name it
	Models    string // a folder of downloaded models, which are copied
	Documents string // a folder that is ingested
	Log       io.Writer
}

// user is the ordinary user that runs all commands on the other system.
const user = 1000

// checker tests one archive in one root. Paths that begin with / are paths inside the root.
type checker struct {
	CheckOptions
	place string // folder of all files there; removed at the end
	home  string
	top   string  // name of the archive's folder
	glibc Version // of the other system
}

// Check unpacks the archive on the other system and runs the main commands there as an ordinary user, then again from
// another folder. It requires root privileges, for chroot.
func Check(ctx context.Context, o CheckOptions) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: chroot needs root", ErrCheck)
	}
	c := &checker{CheckOptions: o, place: "/srv/sluice-check", home: "/srv/sluice-check/home"}
	if err := c.system(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.outside(c.place)); err != nil {
		return err
	}
	defer os.RemoveAll(c.outside(c.place))
	for _, step := range []func(context.Context) error{c.unpack, c.bring, c.job, c.serve, c.debian, c.image,
		c.pull, c.moved, c.withoutRuntime} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrCheck, err)
		}
	}
	return nil
}

// outside returns the path on this system of a path inside the root.
func (c *checker) outside(p string) string { return filepath.Join(c.Root, filepath.FromSlash(p)) }

func (c *checker) say(format string, args ...any) { fmt.Fprintf(c.Log, format+"\n", args...) }

// system creates the root if necessary, and checks what it contains.
func (c *checker) system(ctx context.Context) error {
	if _, err := os.Stat(c.outside("/usr/bin")); errors.Is(err, fs.ErrNotExist) {
		c.say("debootstrap --variant=minbase --arch=%s %s %s", c.Arch, c.Suite, c.Root)
		if _, err := output(ctx, ".", "debootstrap", "--variant=minbase", "--arch="+c.Arch, c.Suite,
			c.Root); err != nil {
			return fmt.Errorf("%w: %w", ErrCheck, err)
		}
	}
	for _, tool := range []string{"gcc", "cc", "g++", "ld", "as", "go", "cargo", "python3", "pip"} {
		if _, err := os.Stat(c.outside("/usr/bin/" + tool)); err == nil {
			return fmt.Errorf("%w: %s has %s: it is no bare system", ErrCheck, c.Root, tool)
		}
	}
	release, err := os.ReadFile(c.outside("/etc/os-release"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheck, err)
	}
	name := regexp.MustCompile(`PRETTY_NAME="(.*)"`).FindSubmatch(release)
	glibc, err := c.user().run(ctx, 0, "/usr/bin/ldd", "--version")
	if err != nil || len(name) == 0 {
		return fmt.Errorf("%w: %s: what system is it? %w", ErrCheck, c.Root, err)
	}
	first, _, _ := strings.Cut(glibc, "\n")
	c.say("on %s: %s, without compilers and Python", name[1], first)
	_, c.glibc, err = parseVersion("GLIBC_" + first[strings.LastIndex(first, " ")+1:])
	return err
}

// unpack compares the archive with its digests, and its name with the requirements of the binaries.
func (c *checker) unpack(ctx context.Context) error {
	dir := c.outside(c.place + "/first")
	var err error
	if c.top, err = unpack(c.Archive, dir); err != nil {
		return err
	}
	folder := filepath.Join(dir, c.top)
	if err := verifySums(ctx, folder); err != nil {
		return err
	}
	needs, err := ReadNeeds(filepath.Join(folder, "bin", "sluice"))
	if err != nil {
		return err
	}
	if err := needs.checkProgram(); err != nil {
		return err
	}
	glibc, err := glibcOf(filepath.Join(folder, "bin", "sluice"), filepath.Join(folder, "lib"))
	if err != nil {
		return err
	}
	if name := filepath.Base(c.Archive); name != c.top+"-glibc"+glibc.String()+".tar.gz" {
		return fmt.Errorf("%w: %s needs glibc %s", ErrNeeds, name, glibc)
	}
	c.say("the digests are right, and the binaries need glibc %s", glibc)
	return nil
}

// bring copies models and documents to where the user finds them.
func (c *checker) bring(context.Context) error {
	return errors.Join(c.user().bring(c.Models, c.home+"/.cache/sluice/models", c.home),
		c.user().bring(c.Documents, c.home+"/docs", c.home))
}

// verb runs the program in a folder and looks for a text in its output.
func (c *checker) verb(ctx context.Context, folder string, code int, want string, args ...string) error {
	start := time.Now()
	if err := c.user().prints(ctx, code, want, path.Join(folder, "bin/sluice"), args...); err != nil {
		return err
	}
	c.say("✓ sluice %s (%.1f s)", strings.Join(args, " "), time.Since(start).Seconds())
	return nil
}

// job runs the main commands of the product.
func (c *checker) job(ctx context.Context) error {
	folder, store := c.place+"/first/"+c.top, c.home+"/kb"
	for _, v := range []struct {
		code int
		want string
		args []string
	}{
		{0, `onnxruntime .*` + regexp.QuoteMeta(folder) + `/lib/libonnxruntime\.so`, []string{"doctor"}},
		{0, `[1-9]\d* chunks`, []string{"ingest", "--store", store, c.home + "/docs"}},
		{0, `cut-off`, []string{"calibrate", "--store", store, "--sample", "12"}},
		{0, `(?s)\[1\].*open: score`,
			[]string{"ask", "--store", store, "--trace", "What does the build tag native do?"}},
		{3, `closed`, []string{"gate", "--store", store, "--explain", "How long do I boil an egg?"}},
		{0, `✓ store`, []string{"doctor", "--store", store}},
		{0, `__start_sluice`, []string{"completion", "bash"}},
	} {
		if err := c.verb(ctx, folder, v.code, v.want, v.args...); err != nil {
			return err
		}
	}
	return nil
}

// pull downloads the default encoder from a substitute for the hub: the models' folder over HTTP.
func (c *checker) pull(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	hub := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		owner, file, ok := strings.Cut(r.URL.Path, "/resolve/")
		_, file, versioned := strings.Cut(file, "/")
		if !ok || !versioned || !filepath.IsLocal(file) {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, filepath.Join(c.Models, path.Base(owner), file))
	}), ReadHeaderTimeout: time.Minute}
	go func() { _ = hub.Serve(listener) }()
	defer hub.Close()
	const model = "all-MiniLM-L6-v2"
	user := c.user("HF_ENDPOINT=http://"+listener.Addr().String(), "SLUICE_CACHE="+c.home+"/another-cache")
	program := c.place + "/first/" + c.top + "/bin/sluice"
	for _, verb := range []string{"pull", "verify"} {
		if _, err := user.run(ctx, 0, program, "models", verb, model); err != nil {
			return err
		}
		c.say("✓ sluice models %s %s, without pip, from a stand-in for the hub", verb, model)
	}
	return nil
}

// moved runs the program from another folder, with a space in its name, and through a symbolic link.
func (c *checker) moved(ctx context.Context) error {
	folder := c.place + "/another place/sluice"
	if err := os.MkdirAll(c.outside(path.Dir(folder)), 0o755); err != nil {
		return err
	}
	if err := os.Rename(c.outside(c.place+"/first/"+c.top), c.outside(folder)); err != nil {
		return err
	}
	if err := c.verb(ctx, folder, 0, regexp.QuoteMeta(folder)+`/lib/libonnxruntime\.so`, "doctor"); err != nil {
		return err
	}
	oldest := map[string]string{"amd64": "avx2", "arm64": "neon"}[c.Arch]
	if err := c.user("SLUICE_ISA="+oldest).prints(ctx, 0, "llama.cpp on "+oldest, folder+"/bin/sluice",
		"doctor"); err != nil {
		return err
	}
	c.say("✓ SLUICE_ISA=%s sluice doctor", oldest)
	store := c.home + "/kb"
	if err := c.verb(ctx, folder, 0, `\[1\]`, "ask", "--store", store,
		"What does the build tag native do?"); err != nil {
		return err
	}
	linked := c.place + "/linked"
	if err := os.MkdirAll(c.outside(linked+"/bin"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(folder+"/bin/sluice", c.outside(linked+"/bin/sluice")); err != nil {
		return err
	}
	return c.verb(ctx, linked, 0, `"score":`, "retrieve", "--json", "--store", store, "--k", "1", "What is a tile?")
}

// withoutRuntime removes the system's C++ library, and embeds with the one in the archive.
func (c *checker) withoutRuntime(ctx context.Context) (err error) {
	folder := c.place + "/another place/sluice"
	needs, err := ReadNeeds(c.outside(folder + "/lib/" + fallbackFolder + "/" + fallbackLibraries[1]))
	if err != nil {
		return err
	}
	if v := needs.Versions["GLIBC"]; c.glibc.less(v) {
		c.say("the archive's own libstdc++ needs glibc %s; not tried", v)
		return nil
	}
	var hidden []string
	for _, name := range fallbackLibraries[1:] { // the package manager needs this one, unlike the C library
		found, err := filepath.Glob(c.outside("/usr/lib*/*/" + name + "*"))
		if err != nil {
			return err
		}
		hidden = append(hidden, found...)
	}
	for _, p := range hidden {
		if err := os.Rename(p, p+".hidden"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Rename(p+".hidden", p)) }()
	}
	c.say("without %d files of the system's libstdc++", len(hidden))
	return c.verb(ctx, folder, 0, `"score":`, "retrieve", "--json", "--store", c.home+"/kb", "--k", "1",
		"What is a tile?")
}
