package filelock

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain makes the test binary a process that takes a lock and waits to be killed, when it is asked to.
func TestMain(m *testing.M) {
	if file := os.Getenv("SLUICE_TEST_LOCK"); file != "" {
		if _, err := Take(file); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("taken")
		select {}
	}
	os.Exit(m.Run())
}

func TestOneCallAtATime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "default.state")
	first, err := Take(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Take(file)
	var held *HeldError
	if !errors.As(err, &held) || !errors.Is(err, ErrHeld) || held.File != file || held.PID != os.Getpid() {
		t.Fatalf("a second lock: %v", err)
	}
	if err := errors.Join(first.Release(), first.Release()); err != nil {
		t.Fatal(err)
	}
	again, err := Take(file)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

// TestLockDiesWithItsProcess checks that a lock names the process that holds it, and is free after that process was
// killed.
func TestLockDiesWithItsProcess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "default.state")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(exe)
	c.Env = append(os.Environ(), "SLUICE_TEST_LOCK="+file)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "taken\n" {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	_, err = Take(file)
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%s is in use: process %d ", file, c.Process.Pid)) {
		t.Errorf("beside the other process: %v", err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	l, err := Take(file)
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestFolderThatIsMissing(t *testing.T) {
	if l, err := Take(filepath.Join(t.TempDir(), "gone", "x")); err == nil || errors.Is(err, ErrHeld) {
		t.Errorf("%v %v", l, err)
	}
}
