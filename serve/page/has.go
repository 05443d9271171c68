package page

import (
	"io/fs"
	"strings"
)

// Has reports whether Handler has something at a path.
func Has(path string) bool {
	name, ok := strings.CutPrefix(path, "/page/")
	if !ok || name == "index.html" || !fs.ValidPath(name) || strings.Contains(name, "/") {
		return path == "/"
	}
	entry, err := fs.Stat(static, "static/"+name)
	return err == nil && entry.Mode().IsRegular()
}
