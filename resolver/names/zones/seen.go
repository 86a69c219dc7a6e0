package zones

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

// The file of the highest sequence numbers of maps, below the home directory: a head, and for each map a
// line "SIGNER NUMBER FILE" with the file in Go's quotes.
const (
	seenName = "zone-maps.seen"
	seenHead = "allium-zone-maps/1"
)

// The bounds of the file. A map beyond maxSeen leaves it, those of the configuration last.
const (
	maxSeen     = 4 * maxMaps
	maxSeenText = 1 << 20
)

// seenMaps has the highest sequence number of each map that was read. An older map of the same signer in
// the same file is refused, so that nobody brings back a short name that the signer has changed.
type seenMaps map[mapFile]uint64

// seenMaps reads the file. There are none without a file. The error is forbidden if other users can write
// it, and corrupt if it is damaged.
func (z *Zones) seenMaps() (seenMaps, error) {
	seen := seenMaps{}
	text, err := privatefile.Read(z.file(seenName), maxSeenText, privatefile.NoWrites)
	if errors.Is(err, fs.ErrNotExist) {
		return seen, nil
	}
	if err == nil {
		if err = seen.parse(text); err != nil {
			err = status.Errorf(status.Corrupt,
				"%s is damaged: %w; check that the zone maps are current, and remove it",
				z.file(seenName), err)
		}
	}
	return seen, err
}

// parse reads the text that encode returned.
func (s seenMaps) parse(text []byte) error {
	if len(text) > maxSeenText {
		return fmt.Errorf("it has more than %d bytes", maxSeenText)
	}
	rest, ok := bytes.CutPrefix(text, []byte(seenHead+"\n"))
	if !ok || len(rest) > 0 && rest[len(rest)-1] != '\n' {
		return errors.New("its first or last line is not whole")
	}
	for line := range strings.Lines(string(rest)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) != 3 {
			return fmt.Errorf("%.80q is not a signer, a number and a file", line)
		}
		signer, err := peer.Decode(fields[0])
		if err != nil {
			return err
		}
		seq, err := strconv.ParseUint(fields[1], 10, 64)
		if err != nil {
			return err
		}
		file, err := strconv.Unquote(fields[2])
		if err != nil {
			return fmt.Errorf("%.80q is not a quoted file: %w", fields[2], err)
		}
		if s[mapFile{signer, file}] = seq; len(s) > maxSeen {
			return fmt.Errorf("it has more than %d maps", maxSeen)
		}
	}
	return nil
}

// encode returns the text of the file, in a fixed order.
func (s seenMaps) encode() []byte {
	b := bytes.NewBufferString(seenHead + "\n")
	for _, m := range slices.SortedFunc(maps.Keys(s), compareMaps) {
		fmt.Fprintf(b, "%s %d %s\n", m.signer, s[m], strconv.QuoteToASCII(m.file))
	}
	return b.Bytes()
}

func compareMaps(a, b mapFile) int {
	return cmp.Or(cmp.Compare(a.signer, b.signer), cmp.Compare(a.file, b.file))
}

// raise takes up the numbers of other that are higher, and reports whether there are any.
func (s seenMaps) raise(other seenMaps) (changed bool) {
	for m, seq := range other {
		if old, ok := s[m]; !ok || seq > old {
			s[m], changed = seq, true
		}
	}
	return changed
}

// trim drops maps that are not among keep, until at most maxSeen are left.
func (s seenMaps) trim(keep []mapFile) {
	for _, m := range slices.SortedFunc(maps.Keys(s), compareMaps) {
		if len(s) <= maxSeen {
			return
		}
		if !slices.Contains(keep, m) {
			delete(s, m)
		}
	}
}

// seen returns the numbers of the maps that were read and are in force.
func (s *ShortNames) seen() seenMaps {
	numbers := seenMaps{}
	for _, m := range s.maps {
		if m.err == nil {
			numbers[m.mapFile] = m.Seq
		}
	}
	return numbers
}

// rollback returns stale for a map that is older than one that was read before.
func (s seenMaps) rollback(f mapFile, seq uint64) error {
	if seq >= s[f] {
		return nil
	}
	return status.Errorf(status.Stale, "the zone map has the number %d, and one with %d was in force before; "+
		"get the current map from its signer", seq, s[f])
}
