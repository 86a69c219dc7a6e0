package site

import (
	"crypto/sha256"
	"encoding/base32"
	"math/big"
	"strings"

	"github.com/ipfs/go-cid"

	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

// The labels before the host of a gateway, below which each root or name has a host.
const (
	rootsBelow = "b3"
	namesBelow = "n3"
)

// maxLabel is the maximum length of a label of a host, in octets (RFC 1035 §2.3.4).
const maxLabel = 63

// zoneDigits is the number of base36 digits of the key of a zone, with zeros before it.
const zoneDigits = 50

// Key is a root or a name, to which an origin belongs. The zero Key is nothing.
type Key struct {
	Root b3.Root // zero for a name
	// Name is LABEL.ZONE in lower case, or a domain. It is empty for a root, and for a name whose Digest alone is
	// known.
	Name   string
	Digest [sha256.Size]byte // of a name whose host has the third form; zero for others
}

// IsZero reports whether k is nothing.
func (k Key) IsZero() bool { return k == Key{} }

// Hashed reports whether the host of k has only the hash of its name.
func (k Key) Hashed() bool { return k.Digest != [sha256.Size]byte{} }

// String returns the address or the name of k.
func (k Key) String() string {
	if !k.Root.IsZero() {
		return k.Root.String()
	}
	return k.Name
}

// OfRoot returns the Key of a root.
func OfRoot(root b3.Root) Key { return Key{Root: root} }

// OfName returns the Key of a name in the form of [name.Name.String], of LABEL.SHORT or of a domain.
func OfName(text string) Key {
	n, err := name.Parse(text)
	if err != nil {
		n, text = name.Name{}, strings.ToLower(text)
	} else {
		text = n.String()
	}
	k := Key{Name: text}
	if readable(text, n) == "" {
		k.Digest = digest(text, n)
	}
	return k
}

// HostOf returns the host of k below that of a gateway, which may have a port: bafkr4i….b3.localhost:8080. remembered
// means that only a node that knows the name can serve it there, as the host has the name's hash.
func HostOf(k Key, gateway string) (host string, remembered bool) {
	if k.Name == "" && !k.Hashed() {
		return k.Root.CID().String() + "." + rootsBelow + "." + gateway, false
	}
	if k.Hashed() {
		return digits32.EncodeToString(k.Digest[:]) + "." + namesBelow + "." + gateway, true
	}
	n, _ := name.Parse(k.Name)
	return readable(k.Name, n) + "." + namesBelow + "." + gateway, false
}

// digits32 are the base32 digits of hosts, as those of CIDs.
var digits32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// digest returns the hash of a name, by which its records are found too, or else of a text.
func digest(text string, n name.Name) [sha256.Size]byte {
	if !n.IsZero() {
		return n.Digest()
	}
	return sha256.Sum256([]byte(text))
}

// readable returns the label of a name from which the name can be read, or "".
func readable(text string, n name.Name) (label string) {
	if !n.IsZero() {
		label = n.Label.String() + "-" + zoneText(n.Zone)
	} else {
		label = strings.NewReplacer("-", "--", ".", "-").Replace(text)
	}
	if !plain(label) || parseName(label) != text {
		return ""
	}
	return label
}

// plain reports whether every browser takes a label as it is.
func plain(label string) bool {
	if label == "" || len(label) > maxLabel || strings.HasPrefix(label, "xn--") ||
		label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	return strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// zoneText returns the key of a zone in base36, zoneDigits digits.
func zoneText(z name.Zone) string {
	s := new(big.Int).SetBytes(z[:]).Text(36)
	return strings.Repeat("0", zoneDigits-len(s)) + s
}

// parseZone is the reverse of zoneText.
func parseZone(digits string) (z name.Zone, ok bool) {
	if len(digits) != zoneDigits || digits[0] == '+' || digits[0] == '-' {
		return z, false
	}
	n, ok := new(big.Int).SetString(digits, 36)
	if !ok || n.BitLen() > 8*len(z) || n.Sign() <= 0 {
		return z, false
	}
	n.FillBytes(z[:])
	return z, zoneText(z) == digits
}

// parseName returns the name that a readable label is, or "".
func parseName(label string) string {
	i := strings.LastIndexByte(label, '-')
	if i < 0 {
		return ""
	}
	if zone, ok := parseZone(label[i+1:]); ok {
		l, err := name.ParseLabel(label[:i])
		if err != nil || l.String() != label[:i] {
			return ""
		}
		return name.Name{Label: l, Zone: zone}.String()
	}
	text := strings.NewReplacer("--", "-", "-", ".").Replace(label)
	if len(text[strings.LastIndexByte(text, '.')+1:]) >= zoneDigits || !strings.Contains(text, ".") ||
		strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") || strings.Contains(text, "..") {
		return ""
	}
	return text
}

// ParseHost returns what the host of a label below that of a gateway stands for. host is in lower case and without
// port. ok is false for a host that is not below gateway in this way, such as gateway itself. The error is bad_address
// for a label of no form.
func ParseHost(host, gateway string) (k Key, ok bool, err error) {
	below, found := strings.CutSuffix(host, "."+gateway)
	if !found {
		return k, false, nil
	}
	i := strings.LastIndexByte(below, '.')
	label := below[:max(i, 0)]
	switch below[i+1:] {
	case rootsBelow:
		k, err = parseRootLabel(label)
	case namesBelow:
		k, err = parseNameLabel(label)
	default:
		return k, false, nil
	}
	return k, true, err
}

func parseRootLabel(label string) (Key, error) {
	c, err := cid.Decode(label)
	if err == nil && len(label) <= maxLabel {
		var root b3.Root
		if root, err = b3.FromCID(c); err == nil && root.CID().String() == label {
			return Key{Root: root}, nil
		}
	}
	return Key{}, status.Errorf(status.BadAddress,
		"%.80q names no object: the label before .%s is an address as a CIDv1 in base32, bafkr4i… of 59 characters",
		label, rootsBelow)
}

func parseNameLabel(label string) (k Key, err error) {
	if plain(label) {
		if k.Name = parseName(label); k.Name != "" {
			return k, nil
		}
		raw, err := digits32.DecodeString(label)
		if err == nil && len(raw) == len(k.Digest) && digits32.EncodeToString(raw) == label {
			copy(k.Digest[:], raw)
			return k, nil
		}
	}
	return Key{}, status.Errorf(status.BadAddress,
		"%.80q names no name: the label before .%s is LABEL-KEY, a domain with hyphens for its dots, or 52 digits",
		label, namesBelow)
}
