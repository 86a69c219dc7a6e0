package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// headFile names the last record that is on disk.
const headFile = "head"

// position is a record and where the chain is after it.
type position struct {
	seq  uint64
	hash b3.Root
}

// encode is the line in the head file.
func (p position) encode() []byte { return fmt.Appendf(nil, "%d %s\n", p.seq, p.hash.Hex()) }

// readHead reads the head file; not_found when there is none.
func readHead(dir string) (position, error) {
	raw, err := os.ReadFile(filepath.Join(dir, headFile))
	if errors.Is(err, fs.ErrNotExist) {
		return position{}, status.Errorf(status.NotFound, "audit: there is no head file in %s", dir)
	}
	if err != nil {
		return position{}, fmt.Errorf("audit: read the head file: %w", err)
	}
	number, hash, _ := strings.Cut(strings.TrimSuffix(string(raw), "\n"), " ")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return position{}, status.Errorf(status.Corrupt, "audit: %s does not hold a number and a hash", filepath.Join(dir, headFile))
	}
	root, err := parseHash(hash)
	p := position{seq: seq, hash: root}
	if err != nil || !bytes.Equal(p.encode(), raw) {
		return position{}, status.Errorf(status.Corrupt, "audit: %s does not hold a number and a hash", filepath.Join(dir, headFile))
	}
	return p, nil
}

// writeHead replaces the head file, whole or not at all.
func writeHead(dir string, p position) error {
	name := filepath.Join(dir, headFile)
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(p.encode())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// fileName is the name of the nth file, from 1.
func fileName(n int) string { return fmt.Sprintf("audit-%06d.jsonl", n) }

// listFiles returns the numbers of a log's files, in order.
func listFiles(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("audit: list the log's files: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "audit-%d.jsonl", &n); err == nil && n > 0 && e.Name() == fileName(n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// errHalf is a last line without an end.
var errHalf = errors.New("it has no end")

// scan reads the lines of a file and gives each to f. Errors name the line. The
// error of a line that is too long, or has no end (errHalf), comes after all
// before it were given. Memory is bounded by the longest line.
func scan(f *os.File, each func(line []byte) error) error {
	b := bufio.NewReaderSize(f, maxLine+2)
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errHalf
		case errors.Is(err, bufio.ErrBufferFull):
			err = status.Errorf(status.Corrupt, "it has more than %d bytes", maxLine)
		case err == nil:
			err = each(line[:len(line)-1])
		}
		if err != nil {
			return status.Errorf(status.Of(err), "audit: line %d of %s: %w", n, f.Name(), err)
		}
	}
}

// syncDir makes what was created in or removed from dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// hashOf is the hash of a line.
func hashOf(line []byte) b3.Root { return b3.Sum(line) }

// parseHash reads a hash of a record.
func parseHash(s string) (b3.Root, error) { return b3.Parse("b3:" + s) }
