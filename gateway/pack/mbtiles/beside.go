package mbtiles

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"allium/internal/printable"
	"allium/protocols/status"
)

// journalMagic begins a journal that has not been played back. SQLite overwrites it when a transaction
// ends.
const journalMagic = "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"

// CheckBeside refuses with not_ready a pack on the disk whose latest changes are in a file beside it: a
// write-ahead log with content, or a journal of a transaction that was cut off. Such a pack would be read
// without them. Call it before Open, and at each reload.
func CheckBeside(path string) error {
	wal, err := begins(path+"-wal", 1)
	if err != nil {
		return err
	}
	name := printable.Name(path)
	if wal != "" {
		return status.Errorf(status.NotReady, "%s has changes in its write-ahead log, %s-wal. Stop what writes it, "+
			"and run: sqlite3 %s 'PRAGMA wal_checkpoint(TRUNCATE)'", name, name, argument(path))
	}
	journal, err := begins(path+"-journal", len(journalMagic))
	if err != nil {
		return err
	}
	if journal == journalMagic {
		return status.Errorf(status.NotReady, "%s has a transaction that was cut off, in %s-journal. Stop what writes "+
			"it, and run: sqlite3 %s 'SELECT count(*) FROM sqlite_schema'", name, name, argument(path))
	}
	return nil
}

// begins returns the first n bytes of a file, fewer if it has fewer. It returns none of a file that does
// not exist or is not a regular one: SQLite reads no journal from it.
func begins(path string, n int) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	first := make([]byte, n)
	got, err := io.ReadFull(f, first)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	return string(first[:got]), nil
}

// argument returns a name as an argument of a shell that no program takes for a flag.
func argument(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	if !strings.ContainsFunc(name, needsQuotes) {
		return name
	}
	return printable.Text("'" + strings.ReplaceAll(name, "'", `'\''`) + "'")
}

func needsQuotes(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("./-_", r)
}
