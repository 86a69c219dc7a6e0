package edge

import (
	"os"
	"path/filepath"
	"strings"

	"allium/protocols/status"
)

// MeantAsPackFile reports whether what can only be a file with a pack, and no address and no name, with or
// without a path below it.
func MeantAsPackFile(what string) bool {
	first, _, path := strings.Cut(what, "/")
	isPack := strings.HasSuffix(what, ".pmtiles") || strings.HasSuffix(what, ".mbtiles")
	isName := path && strings.Contains(first, ".")
	return filepath.IsAbs(what) || first == "." || first == ".." || isPack && !isName && !strings.Contains(what, ":")
}

// NoPackFile returns an error if what, which is no file, can only be one. where says where else there is none.
func NoPackFile(what, where string) error {
	if !MeantAsPackFile(what) {
		return nil
	}
	if info, err := os.Stat(what); err == nil && info.IsDir() {
		return status.Errorf(status.BadRequest, "%s is a directory. Name a file", what)
	}
	return status.Errorf(status.NotFound, "there is no file %s%s", what, where)
}

// PackBelow returns the path of a file below dir, with slashes, also if one of them is reached by a link. ok
// is false for a file elsewhere.
func PackBelow(dir, file string) (rel string, ok bool) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	rel, err = filepath.Rel(dir, abs)
	if err != nil || !filepath.IsLocal(rel) {
		realDir, dirErr := filepath.EvalSymlinks(dir)
		realFile, fileErr := filepath.EvalSymlinks(abs)
		if dirErr != nil || fileErr != nil {
			return "", false
		}
		rel, err = filepath.Rel(realDir, realFile)
	}
	return filepath.ToSlash(rel), err == nil && filepath.IsLocal(rel)
}
