package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
)

// cleanFile is the name of a file that lists the files of a cleanly closed database: name,
// size and hash. The next start compares the list with what is there. Pebble alone would
// not notice: it takes a manifest that was cut short as complete, and a missing one as a
// new database. The last line is the hash of the other lines. While the database is open,
// the file does not exist.
const cleanFile = "clean"

// listing returns what the clean file of dir would hold now.
func listing(fs vfs.FS, dir string) ([]byte, error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		if name == cleanFile || name == "LOCK" || strings.HasPrefix(name, "OPTIONS-") ||
			strings.HasSuffix(name, ".log") {
			continue
		}
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return nil, err
		}
		hash := "-" // tables have checksums of their own
		if !strings.HasSuffix(name, ".sst") {
			if hash, err = hashFile(fs, path); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(&b, "%s %d %s\n", name, info.Size(), hash)
	}
	fmt.Fprintln(&b, b3.Sum(b.Bytes()).Hex())
	return b.Bytes(), nil
}

func hashFile(fs vfs.FS, path string) (string, error) {
	f, err := fs.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(f); err != nil {
		return "", err
	}
	root, _, err := h.Sum()
	return root.Hex(), err
}

// writeClean writes the clean file of a database that is closed.
func writeClean(fs vfs.FS, dir string) error {
	list, err := listing(fs, dir)
	if err != nil {
		return err
	}
	f, err := fs.Create(fs.PathJoin(dir, cleanFile), "records-clean")
	if err != nil {
		return err
	}
	_, err = f.Write(list)
	return errors.Join(err, f.Sync(), f.Close())
}

// checkClean compares the files of dir with its clean file and then removes the clean
// file. A difference is returned as damage. A clean file that is absent, or that does not
// match its own hash, proves nothing and is no damage.
func checkClean(fs vfs.FS, dir string) (damage, err error) {
	path := fs.PathJoin(dir, cleanFile)
	f, err := fs.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	was, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	now, err := listing(fs, dir)
	if err != nil {
		return nil, err
	}
	if err := fs.Remove(path); err != nil {
		return nil, err
	}
	lines := bytes.SplitAfter(was, []byte("\n"))
	intact := len(lines) >= 2 && len(lines[len(lines)-1]) == 0 &&
		string(lines[len(lines)-2]) == b3.Sum(bytes.Join(lines[:len(lines)-2], nil)).Hex()+"\n"
	if intact && !bytes.Equal(was, now) {
		return errors.New("its files have changed since it was closed"), nil
	}
	return nil, nil
}
