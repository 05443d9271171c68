//go:build native && linux && amd64

package e2e

import (
	"bufio"
	"bytes"
	endian "encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watched holds, for a process and its children, every socket of the Internet's families, every address that one is
// connected or bound to, and every file that is opened for writing, made, linked or renamed. The kernel asks this test
// before each of those system calls (seccomp with user notification, seccomp_unotify(2)), whichever library makes them.
type watched struct {
	asked bool // calls were seen; otherwise a forbidden socket would have ended the process
	mu    sync.Mutex
	calls []call
	err   error // of reading a call's arguments
}

// call is one system call: its name and the path or address that it names.
type call struct{ name, what string }

func (c call) String() string { return c.name + " " + c.what }

const watchedEnv = "SLUICE_TEST_WATCHED"

// TestMain starts the program that a test watches in the place of the tests: see watch.
func TestMain(m *testing.M) {
	if mode := os.Getenv(watchedEnv); mode != "" {
		_ = os.Unsetenv(watchedEnv)
		fmt.Fprintln(os.Stderr, becomeWatched(mode, os.Args[1:]))
		os.Exit(125)
	}
	os.Exit(m.Run())
}

// The ways of watching. If the kernel does not support user notification (another filter with a listener is in force,
// or the kernel is older than 5.9), a process that opens an Internet socket is killed, a server only for a datagram
// socket, and files are not seen.
const (
	modeAsk        = "ask"
	modeKill       = "kill"
	modeKillServer = "kill-server"
)

// becomeWatched installs the filter on this thread and becomes the program: what it starts inherits the filter.
// Descriptor 3 tells the test the listener's number, 4 says that the test has it.
func becomeWatched(mode string, command []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	action, flags := uint32(unix.SECCOMP_RET_USER_NOTIF), uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	if mode != modeAsk {
		action, flags = unix.SECCOMP_RET_KILL_PROCESS, 0
	}
	program := filterOf(action, mode == modeKillServer)
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		fd = 0
	}
	tell, told := os.NewFile(3, "tell"), os.NewFile(4, "told")
	if _, err := fmt.Fprintf(tell, "%d %d\n", fd, errno); err != nil {
		return err
	}
	if _, err := told.Read(make([]byte, 1)); err != nil {
		return err
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	return unix.Exec(command[0], command, os.Environ())
}

// filterOf returns the BPF program: sockets of AF_INET and AF_INET6 get the action. With user notification so do the
// calls that name an address, those that make or rename files, and opens for writing. Calls of the 32-bit interfaces
// and io_uring, by which the others could be made unseen, are refused. With streams, sockets of SOCK_STREAM are let
// through.
func filterOf(action uint32, streams bool) []unix.SockFilter {
	const (
		load, equal, set, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
			unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		number, arch, argument = 0, 4, 16 // in struct seccomp_data
		refuse                 = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		writes                 = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	)
	p := []unix.SockFilter{
		{Code: load, K: arch}, {Code: equal, K: unix.AUDIT_ARCH_X86_64, Jt: 1}, {Code: ret, K: refuse},
		{Code: load, K: number},
	}
	// on a call with that number, the rest of the block runs; each block ends the program
	on := func(call uint32, block ...unix.SockFilter) {
		p = append(p, unix.SockFilter{Code: equal, K: call, Jf: uint8(len(block))})
		p = append(p, block...)
	}
	allow := unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW}
	do := unix.SockFilter{Code: ret, K: action}
	stream := uint32(0xf) // no type of socket
	if streams {
		stream = unix.SOCK_STREAM
	}
	on(unix.SYS_SOCKET, unix.SockFilter{Code: load, K: argument}, unix.SockFilter{Code: equal, K: unix.AF_INET, Jt: 1},
		unix.SockFilter{Code: equal, K: unix.AF_INET6, Jf: 4}, unix.SockFilter{Code: load, K: argument + 8},
		unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		unix.SockFilter{Code: equal, K: stream, Jt: 1}, do, allow)
	on(unix.SYS_IO_URING_SETUP, unix.SockFilter{Code: ret, K: refuse})
	if action == unix.SECCOMP_RET_USER_NOTIF {
		for _, nr := range []uint32{unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKDIRAT,
			unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINK, unix.SYS_LINKAT, unix.SYS_SYMLINK,
			unix.SYS_SYMLINKAT, unix.SYS_MKNOD, unix.SYS_MKNODAT, unix.SYS_OPENAT2} {
			on(nr, do)
		}
		for nr, flags := range map[uint32]uint32{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2} {
			on(nr, unix.SockFilter{Code: load, K: argument + 8*flags}, unix.SockFilter{Code: set, K: writes, Jf: 1}, do,
				allow)
		}
	}
	return append(p, allow)
}

// watch runs a command to its end, or until during has returned, whereupon the process is interrupted. It fails the
// test when the command cannot be watched at all: then nothing would be shown by the test's success.
func watch(t *testing.T, cmd *exec.Cmd, during func()) *watched {
	t.Helper()
	w := &watched{asked: true}
	err := w.run(cmd, modeAsk, during)
	if errors.Is(err, errNoListener) {
		t.Logf("only sockets are watched, not files: %v", err)
		w.asked = false
		mode := modeKill
		if during != nil {
			mode = modeKillServer
		}
		err = w.run(cmd, mode, during)
	}
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return w
}

var errNoListener = errors.New("the kernel asks nobody about system calls")

func (w *watched) run(cmd *exec.Cmd, mode string, during func()) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	tell, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer tell.Close() //nolint:errcheck // only read
	told, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close() //nolint:errcheck // one byte, or none
	started := exec.Command(program, append([]string{cmd.Path}, cmd.Args[1:]...)...)
	started.Env = append(slices.Clone(cmd.Env), watchedEnv+"="+mode)
	started.Dir, started.Stdin, started.Stdout, started.Stderr = cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr
	started.ExtraFiles = []*os.File{child, told}
	err = started.Start()
	_, _ = child.Close(), told.Close()
	if err != nil {
		return err
	}
	end := func(err error) error {
		_ = started.Process.Kill()
		_ = started.Wait()
		return err
	}
	line, err := bufio.NewReader(tell).ReadString('\n')
	var fd, errno int
	if _, e := fmt.Sscan(line, &fd, &errno); err != nil || e != nil {
		return end(fmt.Errorf("the child says %q: %w, %w", line, err, e))
	}
	if errno != 0 {
		return end(fmt.Errorf("%w: %w", errNoListener, unix.Errno(errno)))
	}
	asked := make(chan struct{})
	if mode == modeAsk {
		listener, err := takeDescriptor(started.Process.Pid, fd)
		if err != nil {
			return end(fmt.Errorf("%w: %w", errNoListener, err))
		}
		go func() { defer close(asked); w.answer(listener) }()
	} else {
		close(asked)
	}
	if _, err := release.Write([]byte{1}); err != nil {
		return end(err)
	}
	if during != nil {
		during()
		_ = started.Process.Signal(os.Interrupt)
	}
	err = started.Wait()
	<-asked
	return errors.Join(err, w.err)
}

// takeDescriptor copies a descriptor of another process.
func takeDescriptor(pid, fd int) (int, error) {
	p, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(p) //nolint:errcheck // only looked through
	return unix.PidfdGetfd(p, fd, 0)
}

// notification and response are struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id        uint64
	pid       uint32
	flags     uint32
	number    int32
	arch      uint32
	at        uint64
	arguments [6]uint64
}

type response struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// answer lets every call go on and keeps what it was, until the last process with the filter has ended.
func (w *watched) answer(listener int) {
	defer unix.Close(listener) //nolint:errcheck // nobody is left to be answered
	for {
		poll := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			w.fail(err)
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents != 0 {
				return
			}
			continue
		}
		var n notification
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV,
			uintptr(unsafe.Pointer(&n))); e != 0 {
			continue // the process was killed, or a signal interrupted its call
		}
		c, err := describe(n)
		r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		// what was read may be of another process by now, or the call was given up, unless the kernel takes the answer
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND,
			uintptr(unsafe.Pointer(&r))); e != 0 {
			continue
		}
		if err != nil {
			w.fail(fmt.Errorf("system call %d: %w", n.number, err))
		}
		w.mu.Lock()
		w.calls = append(w.calls, c)
		w.mu.Unlock()
	}
}

func (w *watched) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = errors.Join(w.err, err)
}

// describe reads what a call names from its process's memory.
func describe(n notification) (call, error) {
	a := n.arguments
	path := func(name string, dir, at uint64) (call, error) {
		text, err := pathAt(n.pid, int32(dir), at)
		return call{name, text}, err
	}
	here := uint64(0xffffff9c) // AT_FDCWD
	switch n.number {
	case unix.SYS_SOCKET:
		return call{"socket", fmt.Sprintf("family %d type %d", a[0], a[1]&0xf)}, nil
	case unix.SYS_CONNECT:
		text, err := addressAt(n.pid, a[1], a[2])
		return call{"connect", text}, err
	case unix.SYS_BIND:
		text, err := addressAt(n.pid, a[1], a[2])
		return call{"bind", text}, err
	case unix.SYS_OPEN, unix.SYS_CREAT:
		return path("open", here, a[0])
	case unix.SYS_OPENAT, unix.SYS_OPENAT2:
		return path("open", a[0], a[1])
	case unix.SYS_MKDIR, unix.SYS_MKNOD:
		return path("make", here, a[0])
	case unix.SYS_MKDIRAT, unix.SYS_MKNODAT:
		return path("make", a[0], a[1])
	case unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_SYMLINK:
		return path("rename or link to", here, a[1])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		return path("rename or link to", a[2], a[3])
	case unix.SYS_SYMLINKAT:
		return path("rename or link to", a[1], a[2])
	}
	return call{}, errors.New("the filter names calls that are not described")
}

// memory reads up to n bytes of a process.
func memory(pid uint32, at uint64, n int) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b := make([]byte, n)
	got, err := f.ReadAt(b, int64(at))
	if got > 0 {
		err = nil
	}
	return b[:got], err
}

// pathAt returns the absolute path that a string in a process's memory names, relative to a descriptor.
func pathAt(pid uint32, dir int32, at uint64) (string, error) {
	// a page's rest first: the next one may not be there
	b, err := memory(pid, at, int(4096-at%4096))
	if err == nil && !bytes.Contains(b, []byte{0}) {
		b, err = memory(pid, at, 8192)
	}
	if err != nil {
		return "", err
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	if filepath.IsAbs(text) {
		return filepath.Clean(text), nil
	}
	from := fmt.Sprintf("/proc/%d/cwd", pid)
	if dir != unix.AT_FDCWD {
		from = fmt.Sprintf("/proc/%d/fd/%d", pid, dir)
	}
	base, err := os.Readlink(from)
	return filepath.Join(base, text), err
}

// addressAt returns a socket address in a process's memory.
func addressAt(pid uint32, at, n uint64) (string, error) {
	b, err := memory(pid, at, int(min(n, 128)))
	if err != nil || len(b) < 2 {
		return "", errors.Join(err, fmt.Errorf("an address of %d bytes", len(b)))
	}
	switch family := endian.NativeEndian.Uint16(b); {
	case family == unix.AF_INET && len(b) >= 8:
		ip, _ := netip.AddrFromSlice(b[4:8])
		return netip.AddrPortFrom(ip, endian.BigEndian.Uint16(b[2:])).String(), nil
	case family == unix.AF_INET6 && len(b) >= 24:
		ip, _ := netip.AddrFromSlice(b[8:24])
		return netip.AddrPortFrom(ip, endian.BigEndian.Uint16(b[2:])).String(), nil
	case family == unix.AF_UNIX:
		text, _, _ := strings.Cut(string(b[2:]), "\x00")
		return "unix:" + text, nil
	default:
		return "family " + strconv.Itoa(int(family)), nil
	}
}
