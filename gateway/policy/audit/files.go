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

// position is the number and the hash of a record. The zero value stands before the
// first record.
type position struct {
	seq  uint64
	hash b3.Root
}

// encode returns the line in the head file.
func (p position) encode() []byte { return fmt.Appendf(nil, "%d %s\n", p.seq, p.hash.Hex()) }

// readHead reads the head file. It returns not_found when there is none, and corrupt
// when it does not hold a position.
func readHead(dir string) (position, error) {
	raw, err := os.ReadFile(filepath.Join(dir, headFile))
	if errors.Is(err, fs.ErrNotExist) {
		return position{}, status.Errorf(status.NotFound, "there is no head file in %s", dir)
	}
	if err != nil {
		return position{}, fmt.Errorf("audit: read the head file: %w", err)
	}
	number, hash, _ := strings.Cut(strings.TrimSuffix(string(raw), "\n"), " ")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return position{}, status.Errorf(status.Corrupt, "%s does not hold a number and a hash",
			filepath.Join(dir, headFile))
	}
	root, err := parseHash(hash)
	p := position{seq: seq, hash: root}
	if err != nil || !bytes.Equal(p.encode(), raw) {
		return position{}, status.Errorf(status.Corrupt, "%s does not hold a number and a hash",
			filepath.Join(dir, headFile))
	}
	return p, nil
}

// writeHead replaces the head file atomically and syncs the new one.
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

// fileName returns the name of the nth file. The first is 1.
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

// errUnfinished reports that the last line of a file has no newline.
var errUnfinished = errors.New("the last line is unfinished")

// scan calls each with every line of a file, without its newline, until each
// returns an error. Errors name the line. A line of more than maxLine bytes is
// corrupt. If the last line has no newline, scan returns errUnfinished after the lines
// before it. It uses maxLine bytes of memory.
func scan(f *os.File, each func(line []byte) error) error {
	b := bufio.NewReaderSize(f, maxLine+2)
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return errUnfinished
		case errors.Is(err, bufio.ErrBufferFull):
			err = status.Errorf(status.Corrupt, "it has more than %d bytes", maxLine)
		case err == nil:
			err = each(line[:len(line)-1])
		}
		if err != nil {
			return status.Errorf(status.Of(err), "line %d of %s: %w", n, f.Name(), err)
		}
	}
}

// syncDir makes the creation and removal of files in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// hashOf returns the hash of a line without its newline.
func hashOf(line []byte) b3.Root { return b3.Sum(line) }

// parseHash parses the hash of a record: 64 hex digits.
func parseHash(s string) (b3.Root, error) { return b3.Parse("b3:" + s) }
