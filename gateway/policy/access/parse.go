package access

import (
	"bufio"
	"errors"
	"io"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// The bounds of all files together.
const (
	MaxEntries = 100_000 // at about 100 bytes of RAM each
	MaxBytes   = 16 << 20
	maxLine    = 1 << 10
)

// entry is one line of a file: a peer or a network.
type entry struct {
	id  peer.ID      // empty: net counts
	net netip.Prefix // masked; of an address all bits
}

// parseLine reads one line. ok is false if the line has no entry: it is empty or a comment.
func parseLine(line string) (e entry, ok bool, err error) {
	if !utf8.ValidString(line) {
		return e, false, errors.New("it is not UTF-8")
	}
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	switch {
	case len(words) == 0:
		return e, false, nil
	case len(words) > 1:
		return e, false, errors.New("there is more than one word on it; a comment begins with #")
	}
	word := words[0]
	if strings.Contains(word, "/") {
		e.net, err = parseNetwork(word)
		return e, err == nil, err
	}
	if at, aerr := netip.ParseAddr(word); aerr == nil {
		if at.Zone() != "" {
			return e, false, errors.New("it is an address with a zone; leave out what follows the %")
		}
		at = at.Unmap()
		return entry{net: netip.PrefixFrom(at, at.BitLen())}, true, nil
	}
	if e.id, err = peer.Decode(word); err != nil {
		return entry{}, false,
			errors.New("it is neither a peer id (12D3KooW…), nor an address, nor a network such as " +
				"192.0.2.0/24")
	}
	return e, true, nil
}

// parseNetwork reads a CIDR.
func parseNetwork(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, errors.New("it is no network: write ADDRESS/BITS, such as 192.0.2.0/24 or 2001:db8::/32")
	case p.Addr().Is4In6():
		return netip.Prefix{}, errors.New("it is an IPv4 network written as IPv6; write it as 192.0.2.0/24")
	case p != p.Masked():
		return netip.Prefix{}, errors.New("its address has bits beyond the network; write " + p.Masked().String())
	}
	return p, nil
}

// parse adds the entries of a file to into. It returns how many more entries and bytes may be read after it, of the
// left ones before. A malformed line is bad_request, and the error names its number and the mistake. A file beyond the
// bounds is bad_request too.
func parse(key, file string, r io.Reader, left bounds, into *set) (bounds, error) {
	b := bufio.NewReaderSize(r, maxLine)
	for n := 1; ; n++ {
		line, err := b.ReadSlice('\n')
		end := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return left, status.Errorf(status.BadRequest,
				"%s: line %d of %s has more than %d bytes", key, n, file, maxLine)
		case err != nil && !end:
			return left, status.Errorf(status.BadRequest, "%s: %s cannot be read: %w", key, file, err)
		}
		if left.bytes -= int64(len(line)); left.bytes < 0 {
			return left, status.Errorf(status.BadRequest, "%s: the files have more than %d MiB", key, MaxBytes>>20)
		}
		e, ok, err := parseLine(string(line))
		if err != nil {
			return left, status.Errorf(status.BadRequest, "%s: line %d of %s: %w", key, n, file, err)
		}
		if ok {
			if left.entries--; left.entries < 0 {
				return left, status.Errorf(status.BadRequest,
					"%s: the files have more than %d entries", key, MaxEntries)
			}
			into.add(e)
		}
		if end {
			return left, nil
		}
	}
}

// bounds holds the number of entries and of bytes that may still be read.
type bounds struct {
	entries int
	bytes   int64
}
