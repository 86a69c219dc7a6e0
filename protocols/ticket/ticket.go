package ticket

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/zeebo/blake3"

	"allium/protocols/b3"
	"allium/protocols/record"
)

// The bounds of a ticket (OAP1 §11).
const (
	MaxText    = 1000 // characters: past 1,023 a checksum of bech32m proves nothing
	MaxAddrs   = 4    // addresses beside the relay
	MaxAddress = 256  // bytes of one address, in the binary form
	MaxName    = 255  // bytes of the name
	maxPeerID  = 64   // bytes of a peer ID; those of Ed25519 keys have 38
)

const (
	prefix  = "allium" // the human-readable part
	version = 1
)

// Network is the fingerprint of a private network. The zero value is the public network.
type Network [8]byte

// networkContext is the context of BLAKE3's key derivation for [NetworkOf].
const networkContext = "allium ticket network 1"

// NetworkOf returns the fingerprint of the private network with the pre-shared key, and the zero value
// for an empty key. The fingerprint does not tell the key.
func NetworkOf(key []byte) (n Network) {
	if len(key) > 0 {
		blake3.DeriveKey(networkContext, key, n[:])
	}
	return n
}

// IsZero reports whether n is the public network.
func (n Network) IsZero() bool { return n == Network{} }

// Text returns the fingerprint in hex, and "" for the public network.
func (n Network) Text() string {
	if n.IsZero() {
		return ""
	}
	return n.String()
}

// ParseNetwork parses what [Network.Text] returns.
func ParseNetwork(text string) (n Network, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 0 && len(raw) != len(n) {
		return n, badField("the network is no fingerprint")
	}
	copy(n[:], raw)
	return n, nil
}

// String returns the fingerprint in hex, and "the public network" for the zero value.
func (n Network) String() string {
	if n.IsZero() {
		return "the public network"
	}
	return hex.EncodeToString(n[:])
}

// Ticket names an object and where to get it. Nothing in it is proved.
type Ticket struct {
	Root      b3.Root
	Directory bool
	Size      int64 // bytes of the object, as the sharer says; at most 2^53-1
	Peer      peer.ID
	Addrs     []ma.Multiaddr // at most MaxAddrs, without /p2p/; those that are dialled at once
	Relay     ma.Multiaddr   // ends with /p2p-circuit; nil: none
	NotAfter  time.Time      // when the sharer stops, in whole seconds; zero: it does not say
	Name      string         // suggested for the output; empty: none
	Network   Network
}

// wire is the payload. Zero members are left out.
type wire struct {
	Version  uint64   `cbor:"0,keyasint"`
	Digest   []byte   `cbor:"1,keyasint"`
	Kind     uint64   `cbor:"2,keyasint,omitempty"`
	Size     uint64   `cbor:"3,keyasint,omitempty"`
	Peer     []byte   `cbor:"4,keyasint"`
	Addrs    [][]byte `cbor:"5,keyasint,omitempty"`
	Relay    []byte   `cbor:"6,keyasint,omitempty"`
	NotAfter uint64   `cbor:"7,keyasint,omitempty"` // seconds since 1970
	Name     string   `cbor:"8,keyasint,omitempty"`
	Network  []byte   `cbor:"9,keyasint,omitempty"`
}

// lastKey is the highest key of wire.
const lastKey = 9

// maxSize bounds the size of an object: the largest integer that JSON carries.
const maxSize = 1<<53 - 1

// maxSeconds bounds not_after to values that a time.Time can have.
const maxSeconds = math.MaxInt32 * 128

// canonical encodes tickets. 16 is the least limit of a codec.
var canonical = record.NewCodec(16)

// Is reports whether text is meant as a ticket. It need not be a valid one.
func Is(text string) bool {
	return len(text) > len(prefix) && strings.EqualFold(text[:len(prefix)+1], prefix+"1")
}

// Encode returns the text of the ticket in lower case. In upper case it means the same, and makes a
// smaller QR code. The error is an *[Error] if [Parse] would refuse the ticket.
func (t Ticket) Encode() (string, error) {
	if t.NotAfter.Nanosecond() != 0 || !t.NotAfter.IsZero() && t.NotAfter.Unix() <= 0 {
		return "", badField("not_after is not in whole seconds since 1970")
	}
	w := wire{
		Version: version, Digest: t.Root[:], Size: uint64(t.Size), Peer: []byte(t.Peer), Name: t.Name,
	}
	if t.Directory {
		w.Kind = 1
	}
	for _, a := range t.Addrs {
		w.Addrs = append(w.Addrs, a.Bytes())
	}
	if t.Relay != nil {
		w.Relay = t.Relay.Bytes()
	}
	if !t.NotAfter.IsZero() {
		w.NotAfter = uint64(t.NotAfter.Unix())
	}
	if !t.Network.IsZero() {
		w.Network = t.Network[:]
	}
	if _, err := w.ticket(); err != nil {
		return "", err
	}
	payload, err := canonical.Marshal(w)
	if err != nil {
		return "", fmt.Errorf("encode the ticket: %w", err)
	}
	text := encodeBech32m(prefix, payload)
	if len(text) > MaxText {
		return "", refuse(TooLong)
	}
	return text, nil
}

// Parse reads the text of a ticket, without blanks around it. Members that it does not know change
// nothing. The error is an *[Error].
func Parse(text string) (Ticket, error) {
	if len(text) > MaxText {
		return Ticket{}, refuse(TooLong)
	}
	payload, refusal := decodeBech32m(prefix, text)
	if refusal != "" {
		return Ticket{}, refuse(refusal)
	}
	var w wire
	if err := canonical.UnmarshalOpen(payload, &w, lastKey); err != nil {
		if errors.Is(err, record.ErrNotCanonical) || w.Version == version || w.Version == 0 {
			return Ticket{}, refuse(Malformed)
		}
		return Ticket{}, refuse(BadVersion) // its members may be of other types
	}
	if w.Version != version {
		return Ticket{}, refuse(BadVersion)
	}
	return w.ticket()
}

// ticket checks the members.
func (w *wire) ticket() (Ticket, error) {
	t := Ticket{Directory: w.Kind == 1, Name: w.Name}
	switch {
	case len(w.Digest) != b3.Size:
		return t, badField("the digest has not 32 bytes")
	case w.Kind > 1:
		return t, badField("it is for neither a file nor a directory")
	case w.Size > maxSize:
		return t, badField("the size is beyond 2^53")
	case len(w.Addrs) > MaxAddrs:
		return t, badField(fmt.Sprintf("it has more than %d addresses", MaxAddrs))
	case w.NotAfter > maxSeconds:
		return t, badField("its end is too far away")
	case w.Network != nil && (len(w.Network) != len(t.Network) || Network(w.Network).IsZero()):
		return t, badField("the network is no fingerprint")
	}
	if err := checkName(w.Name); err != nil {
		return t, err
	}
	id, err := peer.IDFromBytes(w.Peer)
	if err != nil || len(w.Peer) > maxPeerID {
		return t, badField("the peer ID is none")
	}
	t.Root, t.Size, t.Peer = b3.Root(w.Digest), int64(w.Size), id
	for _, raw := range w.Addrs {
		a, err := address(raw, false)
		if err != nil {
			return t, err
		}
		t.Addrs = append(t.Addrs, a)
	}
	if len(w.Relay) > 0 {
		if t.Relay, err = address(w.Relay, true); err != nil {
			return t, err
		}
	}
	if w.NotAfter > 0 {
		t.NotAfter = time.Unix(int64(w.NotAfter), 0).UTC()
	}
	if w.Network != nil {
		t.Network = Network(w.Network)
	}
	return t, nil
}

// checkName refuses a name that is more than a name.
func checkName(name string) error {
	switch {
	case len(name) > MaxName:
		return badField(fmt.Sprintf("the name has more than %d bytes", MaxName))
	case !utf8.ValidString(name):
		return badField("the name is not UTF-8")
	case name == "." || name == ".." || strings.ContainsAny(name, `/\`) ||
		strings.ContainsFunc(name, unicode.IsControl):
		return badField("the name is a path, or has control characters")
	}
	return nil
}

// Name returns name if a ticket can carry it, and "" otherwise.
func Name(name string) string {
	if checkName(name) != nil {
		return ""
	}
	return name
}

// Check returns an *[Error] if the ticket ended before now, is for another network than network, or names
// the node self.
func (t Ticket) Check(now time.Time, network Network, self peer.ID) error {
	switch {
	case !t.NotAfter.IsZero() && now.After(t.NotAfter):
		return &Error{Expired, fmt.Sprintf("the ticket expired at %s; ask for a new one",
			t.NotAfter.UTC().Format(time.RFC3339))}
	case t.Network != network && t.Network.IsZero():
		return &Error{OtherNetwork, fmt.Sprintf("the ticket is for the public network, and this node is in the "+
			"private network %s; use a node without node.swarm_key", network)}
	case t.Network != network:
		return &Error{OtherNetwork, fmt.Sprintf("the ticket is for the private network %s, and this node is in %s; "+
			"set node.swarm_key to the key of that network", t.Network, describe(network))}
	case t.Peer == self:
		return refuse(Own)
	}
	return nil
}

func describe(n Network) string {
	if n.IsZero() {
		return n.String()
	}
	return "the private network " + n.String()
}
