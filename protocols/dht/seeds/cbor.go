package seeds

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Deterministic CBOR (RFC 8949 §4.2.1), as in OAP1 §11. Both modes are immutable.
var (
	encMode = must(encOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   8,
		MaxArrayElements:  2 * maxSeeds, // the tries of seeds of both sources
		MaxMapPairs:       16,
	}.DecMode())
)

// encOptions writes nil byte strings as empty ones: null has no place here.
func encOptions() cbor.EncOptions {
	o := cbor.CoreDetEncOptions()
	o.NilContainers = cbor.NilContainerAsEmpty
	return o
}

// must is for the two modes above: their options are constants.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var errNotCanonical = errors.New("not deterministic CBOR")

// decodeStrict decodes p into v and demands that v encodes to p again.
func decodeStrict(p []byte, v any) error {
	if err := decMode.Unmarshal(p, v); err != nil {
		return err
	}
	again, err := encMode.Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(p, again) {
		return errNotCanonical
	}
	return nil
}

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
