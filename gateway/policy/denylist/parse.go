package denylist

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ipfs/go-cid"

	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

// The bounds of a list.
const (
	MaxEntries = 1_000_000 // entries of all files together
	MaxBytes   = 64 << 20  // bytes of all files together
	maxLine    = 4 << 10   // bytes of a line
)

// digest is an entry: the address of an object, or a hash of another kind.
type digest = [32]byte

// entryKind is the kind of a digest.
type entryKind uint8

const (
	object entryKind = iota // the address of the object
	path                    // BLAKE3 of "b3:<hex>/path"
	double                  // SHA-256 of one of several spellings, see doubles
	named                   // BLAKE3 of "name:<label>.<zone key>", or of "name:*.<zone key>"
	kinds
)

func pathDigest(s string) digest { return b3.Sum([]byte(s)) }

// namePrefix begins an entry that denies a name, and wildcard stands for every label of a zone.
const (
	namePrefix = "name:"
	wildcard   = "*"
)

// nameEntries returns the entries that deny a name: its own and that of its zone.
func nameEntries(n name.Name) [2]string {
	zone := n.Zone.String()
	return [2]string{namePrefix + n.Label.String() + "." + zone, namePrefix + wildcard + "." + zone}
}

// parseName reads what follows namePrefix, and returns the entry in its normal form. A short name
// is refused, because each home directory may give it to another zone.
func parseName(s string) (string, error) {
	if rest, ok := strings.CutPrefix(s, wildcard+"."); ok || !strings.Contains(s, ".") {
		zone, err := name.ParseZone(rest)
		if !ok {
			zone, err = name.ParseZone(s)
		}
		if err != nil {
			return "", fmt.Errorf("%w; a zone is name:KEY, and `allium zone ls` shows the keys of short names", err)
		}
		return nameEntries(name.Name{Zone: zone})[1], nil
	}
	n, err := name.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%w; a name is name:LABEL.KEY with the key of its zone", err)
	}
	return nameEntries(n)[0], nil
}

// parseLine reads one line. ok is false if the line has no entry: it is empty or a
// comment.
func parseLine(line string) (kind entryKind, d digest, ok bool, err error) {
	if !utf8.ValidString(line) {
		return 0, d, false, errors.New("it is not UTF-8")
	}
	if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
		return 0, d, false, nil
	}
	if i := strings.IndexFunc(line, unicode.IsSpace); i >= 0 {
		rest := strings.TrimSpace(line[i:])
		if !strings.HasPrefix(rest, "#") {
			return 0, d, false, errors.New("there is more than one word on it; a comment begins with #")
		}
		line = line[:i]
	}
	if sum, isDouble := strings.CutPrefix(line, "//"); isDouble {
		raw, err := hex.DecodeString(sum)
		if err != nil || len(raw) != len(d) {
			return 0, d, false, errors.New("a double hash is // and 64 hex digits, a SHA-256")
		}
		return double, digest(raw), true, nil
	}
	if s, isName := strings.CutPrefix(line, namePrefix); isName {
		entry, err := parseName(s)
		return named, b3.Sum([]byte(entry)), err == nil, err
	}
	first, below, hasPath := strings.Cut(line, "/")
	root, err := parseAddress(first)
	if err != nil {
		return 0, d, false, err
	}
	if below = strings.TrimSuffix(below, "/"); !hasPath || below == "" {
		return object, digest(root), true, nil
	}
	if below == "." || !fs.ValidPath(below) || strings.ContainsAny(below, "\\\x00") {
		return 0, d, false,
			errors.New("what follows the address is no path: it has parts that are empty, or dots alone")
	}
	return path, pathDigest(root.String() + "/" + below), true, nil
}

// parseAddress reads an address: b3:…, its digits alone, or a CID.
func parseAddress(s string) (b3.Root, error) {
	root, err := address.Root(s)
	if err == nil || strings.HasPrefix(s, "b3:") {
		return root, err
	}
	c, err := cid.Decode(s)
	if err != nil {
		return b3.Root{}, errors.New("it is no entry: want b3:…, a CID, name:… or //…")
	}
	return b3.FromCID(c)
}

// parse adds the entries of a file to s. A malformed line is bad_request, and the error names its number and the
// mistake. More than MaxEntries or MaxBytes are bad_request too.
func (s *set) parse(file string, r io.Reader) error {
	b := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return status.Errorf(status.BadRequest, "denylist: line %d of %s has more than %d bytes", n, file, maxLine)
		case err != nil && !end:
			return status.Errorf(status.BadRequest, "denylist: %s cannot be read: %w", file, err)
		}
		kind, d, ok, err := parseLine(string(line))
		if err != nil {
			return status.Errorf(status.BadRequest, "denylist: line %d of %s: %w", n, file, err)
		}
		if s.bytes += int64(len(line)); s.bytes > MaxBytes {
			return status.Errorf(status.BadRequest, "denylist: the files have more than %d MiB", MaxBytes>>20)
		}
		if ok {
			if s.count() == MaxEntries {
				return status.Errorf(status.BadRequest, "denylist: there are more than %d entries", MaxEntries)
			}
			s.entries[kind] = append(s.entries[kind], d)
		}
		if end {
			return nil
		}
	}
}

// doubles returns the double hashes of an object or of a path below it: of the
// spelling "b3:<hex>[/path]" and of "<cid>/[path]".
func doubles(root b3.Root, below string) [2]digest {
	plain := root.String()
	if below != "" {
		plain += "/" + below
	}
	return [2]digest{sha256.Sum256([]byte(plain)), sha256.Sum256([]byte(root.CID().String() + "/" + below))}
}
