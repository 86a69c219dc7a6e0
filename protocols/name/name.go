package name

import (
	"crypto/sha256"
	"strings"

	"allium/protocols/status"
)

// Name is a label in a zone. Names are comparable. The zero Name is no name.
type Name struct {
	Label Label
	Zone  Zone
}

// Parse parses <label>.<zone key>. It normalises the label, and accepts both forms of the key.
// The error is bad_address; it is a *[LabelError] if the label is wrong.
func Parse(s string) (Name, error) {
	label, rest, err := Split(s)
	if err != nil {
		return Name{}, err
	}
	zone, err := ParseZone(rest)
	if err != nil {
		return Name{}, err
	}
	return Name{label, zone}, nil
}

// Split parses the label before the first dot of s and returns the text behind that dot: the
// key of a zone, the short name of one, or a domain. The error is bad_address.
func Split(s string) (label Label, rest string, err error) {
	if len(s) > maxReference {
		return Label{}, "", status.Errorf(status.BadAddress,
			"%q… is not a name: it has more than %d bytes; write LABEL.ZONE",
			clip(s), maxReference)
	}
	first, rest, ok := strings.Cut(s, ".")
	if !ok || rest == "" {
		return Label{}, "", status.Errorf(status.BadAddress,
			"%q is not a name: it has no zone; write LABEL.ZONE", clip(s))
	}
	label, err = ParseLabel(first)
	return label, rest, err
}

// ParseShort parses a short name of a zone: a label that cannot be taken for a zone's key.
func ParseShort(s string) (Label, error) {
	l, err := ParseLabel(s)
	if err != nil {
		return Label{}, err
	}
	if err := checkShort(l); err != nil {
		return Label{}, err
	}
	return l, nil
}

func checkShort(l Label) error {
	if _, err := parseZone(l.s); err == nil {
		return status.Errorf(status.BadAddress,
			"%q cannot be a short name: it is the key of a zone; choose a word", l.s)
	}
	return nil
}

// String returns <label>.<zone key>.
func (n Name) String() string { return n.Label.s + "." + n.Zone.String() }

// IsZero reports whether n is the zero Name.
func (n Name) IsZero() bool { return n == Name{} }

// MarshalText returns the form of [Name.String], so that JSON shows it.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText parses as [Parse] does. An error leaves n as it was.
func (n *Name) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*n = parsed
	}
	return err
}

// Digest returns SHA-256(zone ‖ 0 ‖ label), where zone is the binary peer ID. It stands for the
// name in the provider exchange.
func (n Name) Digest() [sha256.Size]byte {
	b := make([]byte, 0, len(idPrefix)+len(n.Zone)+1+MaxLabel)
	b = append(b, idPrefix...)
	b = append(b, n.Zone[:]...)
	b = append(b, 0)
	return sha256.Sum256(append(b, n.Label.s...))
}

// keyPrefix begins every DHT key of a name.
const keyPrefix = "/allium-name/"

// Key returns the DHT key of the name. Its SHA-256 is what distances are measured to.
func (n Name) Key() string { return KeyOf(n.Digest()) }

// KeyOf returns the DHT key of the name with the given digest.
func KeyOf(digest [sha256.Size]byte) string { return keyPrefix + string(digest[:]) }
