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

// canonical encodes manifests and stored values. The longest array holds the tries of the
// seeds of both sources.
var canonical = record.NewCodec(2 * maxSeeds)

// parseID parses the binary form of a peer ID.
func parseID(p []byte) (peer.ID, error) {
	if len(p) > maxPeerID {
		return "", fmt.Errorf("peer ID has %d bytes, more than %d", len(p), maxPeerID)
	}
	return peer.IDFromBytes(p)
}

// parseTime parses seconds since 1970.
func parseTime(s uint64) (time.Time, error) {
	if s > math.MaxInt64/2 {
		return time.Time{}, fmt.Errorf("time %d is out of range", s)
	}
	return time.Unix(int64(s), 0), nil
}

// parseAddrs parses 1 to limit addresses of one peer, all different.
func parseAddrs(raw [][]byte, limit int) ([]ma.Multiaddr, error) {
	if len(raw) == 0 || len(raw) > limit {
		return nil, fmt.Errorf("%d addresses, not 1 to %d", len(raw), limit)
	}
	addrs := make([]ma.Multiaddr, len(raw))
	for i, p := range raw {
		if len(p) > maxAddr {
			return nil, fmt.Errorf("address has %d bytes, more than %d", len(p), maxAddr)
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

// checkAddrs checks the addresses of one peer in the form that is stored and signed: without
// the peer's own ID at the end.
func checkAddrs(addrs []ma.Multiaddr, limit int) error {
	if len(addrs) == 0 || len(addrs) > limit {
		return fmt.Errorf("%d addresses, not 1 to %d", len(addrs), limit)
	}
	for i, a := range addrs {
		if err := checkAddr(a); err != nil {
			return err
		}
		if ma.Contains(addrs[:i], a) {
			return fmt.Errorf("address %s appears twice", a)
		}
	}
	return nil
}

func checkAddr(a ma.Multiaddr) error {
	transport, id := peer.SplitAddr(a)
	switch {
	case len(transport) == 0:
		return errors.New("address is empty")
	case id != "":
		return fmt.Errorf("address %s ends with a peer ID", a)
	case len(a.Bytes()) > maxAddr:
		return fmt.Errorf("address has %d bytes, more than %d", len(a.Bytes()), maxAddr)
	}
	return nil
}

// fitting returns the first addresses, at most limit, that checkAddrs accepts.
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
