package main

import (
	"log/slog"
	"net"
	"strings"
)

// systemd returns what tells systemd how a service is (sd_notify(3)), where NOTIFY_SOCKET says that it listens: a unit
// of Type=notify is up when it has been told "READY=1".
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
		c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"}) // "@" is an abstract one
		if err == nil {
			_, err = c.Write([]byte(state))
			_ = c.Close() // a datagram is sent or not
		}
		if err != nil {
			log.Warn("systemd was not told", "state", state, "error", err)
		}
	}
}
