package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// Write writes an annotated file with every setting's default in a comment.
func Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Settings of sluice. Take away the '#' before a key to set it. The order is: defaults, this " +
		"file,\n" +
		"# SLUICE_* environment variables (SLUICE_ASK_MAX_TOKENS for ask.max_tokens), flags.\n")
	section, defaults := "", reflect.ValueOf(Defaults())
	for _, f := range Fields() {
		head, key, nested := strings.Cut(f.Key, ".")
		indent := ""
		switch {
		case !nested:
			key = head
		case head != section:
			section = head
			fmt.Fprintf(&b, "\n%s:\n", head)
			fallthrough
		default:
			indent = "  "
		}
		fmt.Fprintf(&b, "\n%s# %s\n", indent, f.Doc)
		if limits := f.Limits(); limits != "" {
			fmt.Fprintf(&b, "%s# (%s)\n", indent, limits)
		}
		value := f.Text(defaults)
		if kind := f.Type.Kind(); kind == reflect.String || kind == reflect.Slice || kind == reflect.Map {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, "%s#%s: %s\n", indent, key, value)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Init writes an annotated file to path and refuses to replace one.
func Init(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s exists already; remove it or name another file", ErrConfig, path)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return errors.Join(Write(f), f.Close())
}
