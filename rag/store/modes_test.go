package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// modesOf returns the modes of the folders and files below a folder, itself included.
func modesOf(t *testing.T, dir string) (folders, files map[fs.FileMode]int) {
	t.Helper()
	folders, files = map[fs.FileMode]int{}, map[fs.FileMode]int{}
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			folders[info.Mode().Perm()]++
		} else {
			files[info.Mode().Perm()]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders, files
}

// TestModes: a new store is its owner's alone, whatever the umask is and whoever made its folder; where the owner lets
// others read it, they may read what comes later as well.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	made := filepath.Join(t.TempDir(), "made")
	if err := os.Mkdir(made, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(t.TempDir(), "a", "store"), made} {
		s := mustOpen(t, dir, testSeams())
		mustCommit(t, s, batchOf(1, testDim, ids("a", 700)...))
		verify(t, s, versions(1, ids("a", 700)...))
		folders, files := modesOf(t, dir)
		if len(folders) != 1 || folders[0o700] < 2 || len(files) != 1 || files[0o600] < 4 {
			t.Errorf("%s: folders %v, files %v", dir, folders, files)
		}
		if err := os.Chmod(dir, 0o750); err != nil {
			t.Fatal(err)
		}
		_ = os.Chmod(filepath.Join(dir, segmentFolder), 0o750)
		mustCommit(t, s, batchOf(1, testDim, ids("b", 2000)...))
		s.Close()
		if _, files := modesOf(t, filepath.Join(dir, segmentFolder)); files[0o640] == 0 || files[0o644] != 0 {
			t.Errorf("%s: files %v", dir, files)
		}
	}
}
