package main

import (
	"log/slog"
	"net"
	"strings"
)

// systemd returns a function that reports the service's state to systemd (sd_notify(3)) if NOTIFY_SOCKET is set: a unit
// of Type=notify is up after "READY=1".
func (a *app) systemd(log *slog.Logger) (tell func(state string)) {
	name := ""
	for _, v := range a.env {
		if value, ok := strings.CutPrefix(v, "NOTIFY_SOCKET="); ok {
			name = value
		}
	}
	if name == "" {
		return func(string) {}
	}
	return func(state string) {
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"}) // "@": abstract
		if err == nil {
			_, err = c.Write([]byte(state))
			_ = c.Close() // the error is of no use after the datagram
		}
		if err != nil {
			log.Warn("systemd was not told", "state", state, "error", err)
		}
	}
}
