package seeds

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/record"
)

// canonical is the form of manifests and of what is stored. The longest array is the
// tries of seeds of both sources.
var canonical = record.NewCodec(2 * maxSeeds)

// parseID parses the binary form of a peer id.
func parseID(p []byte) (peer.ID, error) {
	if len(p) > maxPeerID {
		return "", fmt.Errorf("a peer id of %d bytes", len(p))
	}
	return peer.IDFromBytes(p)
}

// parseTime parses seconds since 1970.
func parseTime(s uint64) (time.Time, error) {
	if s > math.MaxInt64/2 {
		return time.Time{}, fmt.Errorf("the time %d", s)
	}
	return time.Unix(int64(s), 0), nil
}

// parseAddrs parses the addresses of one peer: one to limit of them, each once.
func parseAddrs(raw [][]byte, limit int) ([]ma.Multiaddr, error) {
	if len(raw) == 0 || len(raw) > limit {
		return nil, fmt.Errorf("%d addresses, not 1 to %d", len(raw), limit)
	}
	addrs := make([]ma.Multiaddr, len(raw))
	for i, p := range raw {
		if len(p) > maxAddr {
			return nil, fmt.Errorf("an address of %d bytes, more than %d", len(p), maxAddr)
		}
		a, err := ma.NewMultiaddrBytes(p)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(a.Bytes(), p) {
			return nil, fmt.Errorf("the address %s is not in its shortest form", a)
		}
		addrs[i] = a
	}
	return addrs, checkAddrs(addrs, limit)
}

// checkAddrs checks the addresses of one peer as they are stored and signed:
// without the peer's own id at the end, which is said beside them.
func checkAddrs(addrs []ma.Multiaddr, limit int) error {
	if len(addrs) == 0 || len(addrs) > limit {
		return fmt.Errorf("%d addresses, not 1 to %d", len(addrs), limit)
	}
	for i, a := range addrs {
		if err := checkAddr(a); err != nil {
			return err
		}
		if ma.Contains(addrs[:i], a) {
			return fmt.Errorf("the address %s twice", a)
		}
	}
	return nil
}

func checkAddr(a ma.Multiaddr) error {
	transport, id := peer.SplitAddr(a)
	switch {
	case len(transport) == 0:
		return errors.New("an empty address")
	case id != "":
		return fmt.Errorf("the address %s ends with a peer id", a)
	case len(a.Bytes()) > maxAddr:
		return fmt.Errorf("an address of %d bytes, more than %d", len(a.Bytes()), maxAddr)
	}
	return nil
}

// fitting is the first addresses, at most limit, that checkAddrs takes.
func fitting(addrs []ma.Multiaddr, limit int) []ma.Multiaddr {
	var fit []ma.Multiaddr
	for _, a := range addrs {
		if len(fit) < limit && checkAddr(a) == nil && !ma.Contains(fit, a) {
			fit = append(fit, a)
		}
	}
	return fit
}

func addrBytes(addrs []ma.Multiaddr) [][]byte {
	raw := make([][]byte, len(addrs))
	for i, a := range addrs {
		raw[i] = a.Bytes()
	}
	return raw
}
