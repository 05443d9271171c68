package main

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// TestSystemdIsTold checks that systemd is notified at its socket, that nothing is sent without one, and that a missing
// socket is not an error.
func TestSystemdIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	a := &app{}
	a.systemd(slog.New(slog.DiscardHandler))("READY=1")
	a.env = []string{"A=b", "NOTIFY_SOCKET=" + path}
	tell := a.systemd(slog.New(slog.DiscardHandler))
	tell("READY=1\nSTATUS=ready")
	b := make([]byte, 100)
	if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Read(b); err != nil || string(b[:n]) != "READY=1\nSTATUS=ready" {
		t.Errorf("%q, %v", b[:n], err)
	}
	l.Close()
	tell("STOPPING=1")
}
