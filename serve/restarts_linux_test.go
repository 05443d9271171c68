package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// event is a client's request: a new version of a document, or its deletion.
type event struct {
	version int    // 0: deletion
	job     string // for a version; "" if the response was not seen
	fate    fate
	why     string // it failed
}

type fate int

const (
	pending fate = iota // acknowledged; the result is unknown yet
	certain             // done, or definitely acknowledged
	perhaps             // the response was not seen, the disk became full before the end was written, or COMMIT failed
	failed
)

// restarts is a server that is killed and restarted on a disk that is sometimes full, with what a client knows.
type restarts struct {
	t        *testing.T
	r        *rand.Rand
	dir      string
	cmd      *exec.Cmd
	url      string
	stderr   bytes.Buffer
	full     bool // the disk is full
	wasFull  bool // it was full since this start
	versions int
	events   map[string][]*event // by name
	counts   map[string]int
}

func (k *restarts) start() {
	k.t.Helper()
	k.cmd = exec.CommandContext(k.t.Context(), os.Args[0])
	k.cmd.Env = append(os.Environ(), serverEnv+"="+k.dir)
	k.stderr.Reset()
	k.cmd.Stderr = &k.stderr
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = k.cmd.Wait()
		k.t.Fatalf("the server says %q: %v\n%s", line, err, &k.stderr)
	}
	k.url, k.full, k.wasFull = "http://"+strings.TrimSpace(line), false, false
}

// fill limits the size of files: writes beyond it are short or fail. Negative: no limit.
func (k *restarts) fill(size int64) {
	limit := unix.Rlimit{Cur: uint64(size), Max: unix.RLIM_INFINITY}
	if k.full = size >= 0; k.full {
		k.wasFull = true
	} else {
		limit.Cur = unix.RLIM_INFINITY
	}
	if err := unix.Prlimit(k.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		k.t.Fatal(err)
	}
}

// ask sends a request; status is 0 if no whole response came.
func (k *restarts) ask(r *http.Request) (status int, body []byte) {
	target, err := url.Parse(k.url + r.URL.EscapedPath())
	if err != nil {
		k.t.Fatal(err)
	}
	r.RequestURI, r.URL, r.Host = "", target, ""
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if body, err = io.ReadAll(answer.Body); err != nil {
		return 0, nil
	}
	return answer.StatusCode, body
}

// act uploads the next version of a document, or deletes it.
func (k *restarts) act(name string) {
	e := &event{}
	var r *http.Request
	if k.r.IntN(4) == 0 {
		r = get("/v1/documents/" + url.PathEscape("uploads/"+name))
		r.Method = http.MethodDelete
	} else {
		k.versions++
		e.version = k.versions
		r = form(name, fmt.Sprintf("Version %d. %s", e.version, strings.Repeat("About ropes. ", k.r.IntN(10))))
	}
	status, body := k.ask(r)
	if bytes.Contains(body, []byte(k.dir)) {
		k.t.Errorf("an answer names the server's folder: %s", body)
	}
	switch {
	case status == 0 || bytes.Contains(body, []byte(outcomeUnknown)):
		e.fate = perhaps
	case status == http.StatusAccepted:
		var a jobAnswer
		if err := json.Unmarshal(body, &a); err != nil {
			k.t.Fatal(err)
		}
		e.job = a.Job.ID
	case status == http.StatusOK:
		e.fate = certain
	case status == http.StatusNotFound, e.version == 0 && status == http.StatusConflict, // no store yet
		k.wasFull && status == http.StatusInsufficientStorage: // nothing of it was done
		k.counts[fmt.Sprint("answered with ", status)]++
		return
	default:
		k.t.Fatalf("%d %s\n%s", status, body, &k.stderr)
	}
	k.events[name] = append(k.events[name], e)
}

// learn asks the server for the results of uploads; with wait, until all jobs have ended.
func (k *restarts) learn(wait bool) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		status, body := k.ask(get("/v1/jobs"))
		if status != http.StatusOK {
			k.t.Fatalf("%d %s\n%s", status, body, &k.stderr)
		}
		var list jobList
		if err := json.Unmarshal(body, &list); err != nil {
			k.t.Fatal(err)
		}
		jobs, open := map[string]jobState{}, 0
		for _, j := range list.Jobs {
			if jobs[j.ID] = j; !j.over() {
				open++
			}
		}
		for _, e := range k.pending() {
			switch j := jobs[e.job]; {
			case j.State == jobDone:
				e.fate = certain
			case j.State == jobFailed && j.Error.Code == outcomeUnknown:
				e.fate = perhaps
			case j.State == jobFailed:
				e.fate, e.why = failed, fmt.Sprintf("%s, %d passages", j.Error.Code, j.Committed)
			}
		}
		left, _ := os.ReadDir(filepath.Join(k.dir, "uploads"))
		if !wait || open+len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			k.t.Fatalf("%d jobs have not ended, %d uploads are left on the disk", open, len(left))
		}
	}
}

func (k *restarts) pending() (list []*event) {
	for _, all := range k.events {
		for _, e := range all {
			if e.fate == pending {
				list = append(list, e)
			}
		}
	}
	return list
}

// restart ends the server, by a kill or not, and starts it again. Jobs that are not in its queue then had ended before.
func (k *restarts) restart(kill bool) {
	k.t.Helper()
	sign := syscall.SIGTERM
	if kill {
		sign = syscall.SIGKILL
	}
	if err := k.cmd.Process.Signal(sign); err != nil {
		k.t.Fatal(err)
	}
	if err := k.cmd.Wait(); err != nil && !kill && !k.wasFull {
		k.t.Errorf("%v\n%s", err, &k.stderr)
	}
	wasFull := k.wasFull
	queued := map[string]bool{}
	kept, err := filepath.Glob(filepath.Join(k.dir, "uploads", "*", uploadFile))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, path := range kept {
		queued[filepath.Base(filepath.Dir(path))] = true
	}
	k.start()
	for _, e := range k.pending() {
		switch {
		case queued[e.job]:
			k.counts["resumed"]++
		case wasFull:
			e.fate = perhaps
		default:
			e.fate = certain
		}
	}
}

// allowed returns the versions that a document may have, 0 for none.
func allowed(all []*event) (versions []int) {
	for _, e := range slices.Backward(all) {
		switch e.fate {
		case failed:
			continue
		case perhaps:
			versions = append(versions, e.version)
			continue
		}
		return append(versions, e.version)
	}
	return append(versions, 0)
}

// check compares the documents with what the client knows.
func (k *restarts) check(round int) {
	k.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(k.events)) {
		version := 0
		status, body := k.ask(get("/v1/documents/" + url.PathEscape("uploads/"+name)))
		switch status {
		case http.StatusOK:
			var d documentAnswer
			if err := json.Unmarshal(body, &d); err != nil || len(d.Chunks) == 0 {
				k.t.Fatalf("%v: %s", err, body)
			}
			if _, err := fmt.Sscanf(d.Chunks[0].Text, "Version %d.", &version); err != nil {
				k.t.Fatalf("%v: %s", err, body)
			}
		case http.StatusNotFound, http.StatusConflict: // no store yet
		default:
			k.t.Fatalf("%d %s", status, body)
		}
		if may := allowed(k.events[name]); !slices.Contains(may, version) {
			for _, e := range k.events[name] {
				k.t.Logf("%s: %+v", name, *e)
			}
			k.t.Fatalf("round %d: %s is version %d, may be %v", round, name, version, may)
		}
		k.events[name] = []*event{{version: version, fate: certain}}
	}
}

// TestRestartsOnFullDisks checks, through kills, restarts and full disks, that after successive versions and deletions
// each document is the newest version that was acknowledged and did not fail, and that deletions last.
// SLUICE_KILL_ROUNDS sets the number of restarts (6).
func TestRestartsOnFullDisks(t *testing.T) {
	rounds := 6
	if v := os.Getenv("SLUICE_KILL_ROUNDS"); v != "" {
		var err error
		if rounds, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d restarts", seed, rounds)
	k := &restarts{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: filepath.Join(t.TempDir(), "store"),
		events: map[string][]*event{}, counts: map[string]int{}}
	k.start()
	for round := range rounds {
		for range 2 + k.r.IntN(8) {
			switch k.r.IntN(5) {
			case 0:
				k.fill([]int64{0, 300, 4096, int64(4096 * k.r.IntN(64))}[k.r.IntN(4)])
			case 1:
				k.fill(-1)
			default:
				k.act(fmt.Sprintf("%c.md", 'a'+k.r.IntN(3)))
			}
			if k.r.IntN(4) == 0 {
				time.Sleep(time.Duration(k.r.IntN(30)) * time.Millisecond)
			}
			k.learn(false)
		}
		if k.r.IntN(2) == 0 {
			k.learn(true)
		}
		k.restart(k.r.IntN(4) > 0)
		if k.r.IntN(3) == 0 {
			k.learn(true)
			k.check(round)
			k.counts["checked"]++
		}
	}
	k.learn(true)
	k.check(rounds)
	if err := k.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = k.cmd.Wait() // it was killed
	t.Logf("%d versions, %v", k.versions, k.counts)
}
