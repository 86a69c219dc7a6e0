package extract

import (
	"errors"
	"hash/maphash"
	"io"
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// folder folds names that a file system may treat as equal because it ignores case and
// normalisation. It implements Unicode's canonical caseless match.
type folder struct {
	caser cases.Caser
	seed  maphash.Seed
}

func newFolder() *folder {
	return &folder{caser: cases.Fold(), seed: maphash.MakeSeed()}
}

func (f *folder) fold(name string) string {
	for i := range len(name) {
		if name[i] >= 0x80 {
			return norm.NFD.String(f.caser.String(norm.NFD.String(name)))
		}
	}
	return strings.ToLower(name)
}

// nameSet holds 64-bit hashes of the folded names of one directory: about 16 bytes for
// each entry. The seed of the hash is random, so nobody can prepare collisions.
type nameSet map[uint64]struct{}

// collision adds name to the names of d. It returns an earlier name that folds to the
// same, or "".
func (x *Extractor) collision(d *openDir, name string) (string, error) {
	folded := x.fold.fold(name)
	h := maphash.String(x.fold.seed, folded)
	if _, hit := d.names[h]; hit {
		// Either the names are equal, or only their hashes (1 in 2^64): read the directory.
		return x.search(d, folded)
	}
	if d.names == nil {
		d.names = nameSet{}
	}
	d.names[h] = struct{}{}
	return "", nil
}

// search returns a name in d, on disk or of a pending link, that folds to folded.
func (x *Extractor) search(d *openDir, folded string) (string, error) {
	for _, l := range x.links {
		if dir, name := path.Split(l.path); strings.TrimSuffix(dir, "/") == d.path && x.fold.fold(name) == folded {
			return name, nil
		}
	}
	f, err := d.dir.Open(".")
	if err != nil {
		return "", err
	}
	found := ""
	for found == "" && err == nil {
		var names []string
		names, err = f.Readdirnames(256)
		for _, name := range names {
			if x.fold.fold(name) == folded {
				found = name
			}
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found, errors.Join(err, f.Close())
}
