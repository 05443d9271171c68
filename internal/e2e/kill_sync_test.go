//go:build native

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestKilledCommands kills `ingest`, `ingest --sync`, `docs rm` and `docs compact` with SIGKILL at random moments, over
// and over on one folder and one store. After each, `docs check` finds no damage, what was printed as committed or
// removed is so, and a document that is not incomplete is of one version of its file, whole. At the end a sync makes
// the store the folder. SLUICE_KILL_ROUNDS sets the number of kills (6).
func TestKilledCommands(t *testing.T) {
	kills := 6
	if s := os.Getenv("SLUICE_KILL_ROUNDS"); s != "" {
		var err error
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("SLUICE_KILL_ROUNDS=%q: %v", s, err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	k := &killedFolder{t: t, bin: binary(t), dir: t.TempDir(), r: rand.New(rand.NewPCG(seed, 0)),
		files:    map[string]int{},
		promised: map[string]map[string]bool{}, took: map[string]time.Duration{}}
	k.folder, k.store = filepath.Join(k.dir, "notes"), filepath.Join(k.dir, "store")
	if err := os.Mkdir(k.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		k.write(fmt.Sprintf("f%d.md", i))
	}
	run(t, k.bin, "ingest", "--store", k.store, k.folder)
	done, ended := map[string]int{}, map[string]int{}
	for round := 0; sum(done) < kills && round < 6*kills; round++ {
		verb := []string{"ingest", "sync", "rm", "compact"}[k.r.IntN(4)]
		if k.round(verb) {
			done[verb]++
		} else {
			ended[verb]++
		}
	}
	if sum(done) < kills {
		t.Errorf("seed %d: only %d of %d kills", seed, sum(done), kills)
	}
	run(t, k.bin, "ingest", "--sync", "--store", k.store, k.folder)
	versions := k.check()
	if !maps.Equal(versions, k.files) {
		t.Errorf("seed %d: the store has %v, the folder %v", seed, versions, k.files)
	}
	t.Logf("seed %d: killed %v, ended before %v", seed, done, ended)
}

func sum(m map[string]int) (n int) {
	for _, x := range m {
		n += x
	}
	return n
}

// killedFolder is the model of TestKilledCommands.
type killedFolder struct {
	t                       *testing.T
	bin, dir, folder, store string
	r                       *rand.Rand
	files                   map[string]int             // name → version on disk
	promised                map[string]map[string]bool // document → ids of chunks that were printed as committed
	version                 int
	took                    map[string]time.Duration // how long a command last took that was not killed
}

// write makes a new version of a file: some lines that name it and its version, and how many there are.
func (k *killedFolder) write(name string) {
	k.version++
	n := 5 + k.r.IntN(60)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Line %d of %d in version %d of %s says that a box holds marbles.\n\n", i+1, n, k.version, name)
	}
	if err := os.WriteFile(filepath.Join(k.folder, name), []byte(b.String()), 0o644); err != nil {
		k.t.Fatal(err)
	}
	k.files[name] = k.version
	delete(k.promised, name)
}

// change changes some files, and lets one vanish or come.
func (k *killedFolder) change() {
	names := slices.Sorted(maps.Keys(k.files))
	for range 1 + k.r.IntN(4) {
		k.write(names[k.r.IntN(len(names))])
	}
	if gone := names[k.r.IntN(len(names))]; k.r.IntN(2) == 0 && len(names) > 6 {
		if err := os.Remove(filepath.Join(k.folder, gone)); err != nil {
			k.t.Fatal(err)
		}
		delete(k.files, gone)
		delete(k.promised, gone)
	} else {
		k.write(fmt.Sprintf("new%d.md", k.version))
	}
}

// round runs a command and kills it after a while; false when it ended before.
func (k *killedFolder) round(verb string) (killed bool) {
	t := k.t
	t.Helper()
	args := []string{"docs", "compact"}
	removed := ""
	switch verb {
	case "rm":
		there := k.check()
		if len(there) == 0 {
			return false
		}
		removed = slices.Sorted(maps.Keys(there))[k.r.IntN(len(there))]
		delete(k.promised, removed)
		args = []string{"docs", "rm", k.document(removed)}
	case "sync", "ingest":
		k.change()
		if args = []string{"ingest", "--json", "--commit-every", "8", k.folder}; verb == "sync" {
			args = append(args, "--sync")
		}
	}
	cmd := exec.CommandContext(t.Context(), k.bin, append(args, "--store", k.store)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	longest, known := k.took[verb]
	if !known {
		longest = 2 * time.Second
	}
	begun := time.Now()
	timer := time.AfterFunc(time.Duration(k.r.Int64N(int64(longest))), func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if timer.Stop(); err == nil {
		k.took[verb] = time.Since(begun)
	}
	if err != nil && cmd.ProcessState.Exited() {
		t.Fatalf("%v failed by itself: %v\n%s", args, err, stderr.String())
	}
	for lines := bufio.NewScanner(&stdout); lines.Scan(); {
		var line struct{ Committed []string }
		if json.Unmarshal(lines.Bytes(), &line) == nil { // else it is cut: its ids were not printed
			k.promise(line.Committed)
		}
	}
	versions := k.check()
	if _, there := versions[removed]; removed != "" && err == nil && there {
		t.Fatalf("%s was removed and is there", removed)
	}
	return err != nil
}

// document returns the id of a file's document.
func (k *killedFolder) document(name string) string { return filepath.Base(k.folder) + "/" + name }

// promise remembers ids; whose they are is known when the chunks are listed.
func (k *killedFolder) promise(ids []string) {
	if k.promised[""] == nil {
		k.promised[""] = map[string]bool{}
	}
	for _, id := range ids {
		k.promised[""][id] = true
	}
}

var numberedLine = regexp.MustCompile(`Line (\d+) of (\d+) in version (\d+) of (\S+) says`)

// check looks at the whole store, and returns the versions of the documents that are whole.
func (k *killedFolder) check() (versions map[string]int) {
	t := k.t
	t.Helper()
	run(t, k.bin, "docs", "check", "--store", k.store) // fails when it finds damage
	partial := map[string]bool{}
	eachObject(t, run(t, k.bin, "docs", "list", "--json", "--store", k.store), func(o struct {
		ID             string
		Partial        bool
		Document, Text string
	}) {
		partial[o.ID] = o.Partial
	})
	lines, held := map[string]map[int]bool{}, map[string]map[string]bool{}
	versions = map[string]int{}
	totals := map[string]int{}
	eachObject(t, run(t, k.bin, "docs", "list", "--chunks", "--json", "--store", k.store), func(o struct {
		ID             string
		Partial        bool
		Document, Text string
	}) {
		name := strings.TrimPrefix(o.Document, filepath.Base(k.folder)+"/")
		if held[name] == nil {
			held[name], lines[name] = map[string]bool{}, map[int]bool{}
		}
		held[name][o.ID] = true
		for _, m := range numberedLine.FindAllStringSubmatch(o.Text, -1) {
			line, _ := strconv.Atoi(m[1])
			totals[name], _ = strconv.Atoi(m[2])
			version, _ := strconv.Atoi(m[3])
			if old, known := versions[name]; known && old != version && !partial[o.Document] {
				t.Fatalf("%s mixes versions %d and %d", name, old, version)
			}
			versions[name] = version
			lines[name][line] = true
		}
	})
	for name := range versions {
		if partial[k.document(name)] {
			delete(versions, name)
		} else if len(lines[name]) != totals[name] {
			t.Fatalf("%s has %d of its %d lines, and is not incomplete", name, len(lines[name]), totals[name])
		}
	}
	k.settle(held)
	return versions
}

// settle sees that all promised chunks are there, and learns whose the new ones are.
func (k *killedFolder) settle(held map[string]map[string]bool) {
	k.t.Helper()
	fresh := k.promised[""]
	delete(k.promised, "")
	for name, ids := range held {
		for id := range ids {
			if fresh[id] {
				if k.promised[name] == nil {
					k.promised[name] = map[string]bool{}
				}
				k.promised[name][id] = true
				delete(fresh, id)
			}
		}
	}
	if len(fresh) > 0 {
		k.t.Fatalf("%d chunks that were committed are gone: %v", len(fresh), fresh)
	}
	for name, ids := range k.promised {
		for id := range ids {
			if !held[name][id] {
				k.t.Fatalf("chunk %s of %s was committed and is gone", id, name)
			}
		}
	}
}

// eachObject calls fn for each line of JSON.
func eachObject[T any](t *testing.T, text []byte, fn func(T)) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var o T
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		fn(o)
	}
}
