// Package buildinfo identifies the program, for artifacts, traces and `sluice version`.
package buildinfo

import (
	"runtime/debug"
	"strings"
)

// Version is the release; a build from a checkout adds its commit.
const Version = "0.1.0"

// Tool returns "sluice 0.1.0 (3f2c91a)", "+" after a commit with changes.
func Tool() string {
	if c := Commit(); c != "" {
		return "sluice " + Version + " (" + c + ")"
	}
	return "sluice " + Version
}

// Commit returns the abbreviated revision that Go recorded, "" when it did not.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var revision, modified string
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "+"
			}
		}
	}
	return strings.TrimSpace(revision + modified)
}
