//go:build native

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/internal/terminal"
)

// rows is the height of the terminals that scripts use.
const rows = 40

// onTerminal runs the program with its streams on a pseudo-terminal; all that it shows becomes the script's stdout.
func onTerminal(ts *testscript.TestScript, bin string, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: terminal COLUMNS ARG...")
	}
	columns, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	control, tty, err := openTerminal(uint16(columns))
	ts.Check(err)
	defer control.Close()
	cmd := exec.Command(bin, args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environment(ts)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	tty.Close()
	ts.Check(err)
	shown := make(chan []byte, 1)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, control) // ends with an error when the last process has closed the terminal
		shown <- b.Bytes()
	}()
	kill := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	kill.Stop()
	_, _ = ts.Stdout().Write(bytes.ReplaceAll(<-shown, []byte("\r\n"), []byte("\n")))
	if code := exitCode(ts, args[1:], err); (code != 0) != neg {
		ts.Fatalf("exit code %d", code)
	}
}

// openTerminal opens a pseudo-terminal: the side of the person and that of the program.
func openTerminal(columns uint16) (control, tty *os.File, err error) {
	control, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err != nil {
		control.Close()
		return nil, nil, fmt.Errorf("pseudo-terminal: %w", err)
	}
	return control, tty, nil
}

// marks are colours and weights.
var marks = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// fits fails when a line of stdout is wider than a terminal.
func fits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fits COLUMNS")
	}
	columns, err := strconv.Atoi(args[0])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		line = strings.TrimRight(marks.ReplaceAllString(line, ""), "\n")
		line = line[strings.LastIndex(line, "\r\x1b[K")+1:] // what a spinner showed before is gone
		if line = strings.TrimPrefix(line, "\x1b[K"); terminal.Width(line) > columns {
			ts.Fatalf("%d columns, not %d: %q", terminal.Width(line), columns, line)
		}
	}
}
