// Package address understands the ways in which people write an address, and turns each into
// the one that this program prints: b3:<hex>[/path], or <label>.<zone>[/path] for a name.
//
// One key: somebody pastes https://gw.example.org/b3/3ce6…1f0a/img/a%20b.png?download from a
// browser. [Canonical] takes the path of the URL apart and returns b3:3ce6…1f0a/img/a b.png. A
// new way to write an address is a line in the table forms.
package address

import (
	"encoding/base32"
	"encoding/hex"
	"net/url"
	"strings"

	"github.com/ipfs/go-cid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// form is one way to write an address. It returns the canonical key, and false for a text in another form. The error
// describes a mistake in a text of this form.
type form func(text string) (key string, ok bool, err error)

// forms are asked in this order.
var forms = []form{gatewayURL, ipfsURL, bareDigits, bareCID}

// Canonical returns the key that a text stands for. It returns a text of no known form unchanged, and leaves it to the
// caller to reject it. The error is bad_address.
func Canonical(text string) (string, error) {
	for _, f := range forms {
		if key, ok, err := f(text); ok || err != nil {
			return key, err
		}
	}
	return text, nil
}

// MinPrefix is the least number of digits with which the beginning of an address stands for it.
const MinPrefix = 8

// Prefix reports whether a canonical key begins with 8 to 63 hex digits, with or without b3:
// before them, and returns these and the path behind them.
func Prefix(key string) (digits, path string, ok bool) {
	first, path, _ := strings.Cut(key, "/")
	digits = strings.TrimPrefix(first, scheme)
	if len(digits) < MinPrefix || len(digits) >= 2*b3.Size || !isHex(digits) {
		return "", "", false
	}
	return digits, path, true
}

// scheme begins an address.
const scheme = "b3:"

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// below joins an address and a path.
func below(address, path string) string {
	if path = strings.Trim(path, "/"); path == "" {
		return address
	}
	return address + "/" + path
}

// gatewayURL is http(s)://host/b3/<address>[/path] or http(s)://host/n/<name>[/path], also with a
// prefix before /b3/ or /n/, and the same without scheme, host and prefix; or http(s)://<CID>.b3.host[/path].
func gatewayURL(text string) (string, bool, error) {
	web := hasScheme(text, "http://") || hasScheme(text, "https://")
	if !web && !strings.HasPrefix(text, "/b3/") && !strings.HasPrefix(text, "/n/") {
		return "", false, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", false, status.Errorf(status.BadAddress, "%.80q is not a URL; write b3: and 64 hex digits", text)
	}
	if label, rest, _ := strings.Cut(strings.ToLower(u.Host), "."); web && strings.HasPrefix(rest, "b3.") &&
		strings.HasPrefix(label, cidPrefix) {
		return bareCID(label + u.Path)
	}
	before, key, ok := strings.Cut(u.Path, "/b3/")
	if prefix, name, named := strings.Cut(u.Path, "/n/"); named && (!ok || len(prefix) < len(before)) {
		key, ok = name, true
	} else if full, isDigits := Digits(key); isDigits {
		key = full
	}
	if ok && strings.Trim(key, "/") != "" {
		return below(key, ""), true, nil
	}
	return "", false, status.Errorf(status.BadAddress,
		"%.80q is not the URL of an object at a gateway; its path begins with /b3/ADDRESS or /n/NAME", text)
}

// ipfsURL is ipfs://<CID>[/path].
func ipfsURL(text string) (string, bool, error) {
	if !hasScheme(text, "ipfs://") {
		return "", false, nil
	}
	key, ok, err := bareCID(text[len("ipfs://"):])
	if !ok && err == nil {
		err = status.Errorf(status.BadAddress,
			"%.80q names no object that allium could prove; it takes CIDv1 with codec raw and BLAKE3, such as "+
				"ipfs://%s…",
			text, cidPrefix)
	}
	return key, ok, err
}

// cidPrefix begins each CIDv1 with codec raw and a BLAKE3 of 32 bytes, in base32.
const cidPrefix = "bafkr4i"

// bareCID is <CID>[/path].
func bareCID(text string) (string, bool, error) {
	first, path, _ := strings.Cut(text, "/")
	if !strings.HasPrefix(first, cidPrefix) {
		return "", false, nil
	}
	c, err := cid.Decode(first)
	if err != nil {
		return "", false, status.Errorf(status.BadAddress, "%.80q is not a CID: %w", first, err)
	}
	root, err := b3.FromCID(c)
	if err != nil {
		return "", false, err
	}
	return below(root.String(), path), true, nil
}

// bareDigits is the address of an object by its digits alone, with or without a path.
func bareDigits(text string) (string, bool, error) {
	key, ok := Digits(text)
	return key, ok, nil
}

// Digits returns the key that bare digits stand for, with or without a path behind them: 64 hex
// digits, as b3sum prints them, or 52 base32 digits, as iroh does. ok is false for another text.
func Digits(text string) (key string, ok bool) {
	first, path, _ := strings.Cut(text, "/")
	root, ok := parseDigits(first)
	if !ok {
		return "", false
	}
	return below(root.String(), path), true
}

// Root parses the address of one object: b3:<hex>, or bare digits as [Digits] takes them.
func Root(text string) (b3.Root, error) {
	if root, ok := parseDigits(text); ok {
		return root, nil
	}
	return b3.Parse(text)
}

// base32Digits is the number of base32 digits in an address. The last one has one bit of it.
const base32Digits = (8*b3.Size + 4) / 5

var noPadding = base32.StdEncoding.WithPadding(base32.NoPadding)

// parseDigits parses 64 hex digits or 52 base32 digits (RFC 4648), in lower or upper case.
func parseDigits(s string) (root b3.Root, ok bool) {
	switch len(s) {
	case 2 * b3.Size:
		_, err := hex.Decode(root[:], []byte(s))
		return root, err == nil
	case base32Digits:
		digits := strings.ToUpper(s)
		raw, err := noPadding.DecodeString(digits)
		if err != nil || len(raw) != b3.Size || noPadding.EncodeToString(raw) != digits {
			return b3.Root{}, false // not base32, or its last bits are not zero
		}
		return b3.Root(raw), true
	}
	return b3.Root{}, false
}

func hasScheme(text, scheme string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme)
}
