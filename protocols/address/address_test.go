package address_test

import (
	"strings"
	"testing"

	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("hello"))
	key, hex, cid := root.String(), root.Hex(), root.CID().String()
	digits := "5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq" // as iroh prints it
	for text, want := range map[string]string{
		key: key, key + "/a/b": key + "/a/b",
		hex: key, strings.ToUpper(hex): key, hex + "/a b/c": key + "/a b/c",
		cid: key, cid + "/x": key + "/x", "ipfs://" + cid: key, "IPFS://" + cid + "/a/": key + "/a",
		"https://gw.example.org/b3/" + key: key, "http://127.0.0.1:8080/b3/" + hex + "/a%20b/?download#x": key + "/a b",
		"https://gw.example.org/n/blog.alice/img": "blog.alice/img", "/b3/" + key + "/a": key + "/a",
		"/n/blog.alice":                     "blog.alice",
		"https://h/data/b3/" + hex + "/n/a": key + "/n/a", "https://h/a/b/n/blog.alice/b3/x": "blog.alice/b3/x",
		"https://h/b3/" + hex + "/b3/x": key + "/b3/x",
		digits:                          key, strings.ToUpper(digits) + "/a/": key + "/a",
		"http://h/b3/" + digits + "/a":          key + "/a",
		"https://" + cid + ".b3.gw.example.org": key, "http://" + cid + ".b3.localhost:8080/a%20b/?x": key + "/a b",
		"http://" + strings.ToUpper(cid) + ".B3.localhost/b3/x": key + "/b3/x",
		// Bits left over; too short; too long.
		digits[:51] + "r": digits[:51] + "r", digits[:51]: digits[:51], digits + "a": digits + "a",
		digits[:51] + "\n": digits[:51] + "\n", "0" + digits[1:]: "0" + digits[1:], digits + ".zone": digits + ".zone",
		hex[:63] + "g": hex[:63] + "g", "a/" + digits: "a/" + digits,
		"blog.alice/x": "blog.alice/x", "nonsense": "nonsense", "": "", hex[:40]: hex[:40],
		"b3:" + hex[:8]: "b3:" + hex[:8],
	} {
		if got, err := address.Canonical(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"https://example.org/", "https://example.org/b3/", "https://example.org/a/n/", "http://example.org/%zz",
		"ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
		"ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", "bafkr4inonsense", "ipfs://",
		"http://bafkr4inonsense.b3.localhost/a", "http://blog.b3.localhost/a",
	} {
		if got, err := address.Canonical(text); status.Of(err) != status.BadAddress {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

// TestRoot: an address of one object, without a path.
func TestRoot(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("hello"))
	digits := "5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq"
	for _, text := range []string{
		root.String(), root.Hex(), strings.ToUpper(root.Hex()), digits, strings.ToUpper(digits),
	} {
		if got, err := address.Root(text); err != nil || got != root {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", root.String() + "/a", root.Hex() + "/", digits + "/a", strings.ToUpper(root.String()), "b3:" + digits,
		digits[:51] + "b", root.CID().String(),
	} {
		if _, err := address.Root(text); status.Of(err) != status.BadAddress {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	hex := b3.Sum([]byte("hello")).Hex()
	for text, want := range map[string]string{
		hex[:8]: hex[:8], "b3:" + hex[:63]: hex[:63], hex[:12] + "/a/b": hex[:12] + " a/b",
		hex[:7]: "", hex: "", "b3:" + hex: "", "nonsense": "", "deadbeef.zone": "", "DEADBEEF": "",
	} {
		digits, path, ok := address.Prefix(text)
		if got := strings.TrimSpace(digits + " " + path); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %t, want %q", text, got, ok, want)
		}
	}
}

// FuzzCanonical: what it returns is canonical, and an address in it is one.
func FuzzCanonical(f *testing.F) {
	root := b3.Sum(nil)
	for _, s := range []string{
		root.String(), root.Hex() + "/a", root.CID().String(), "ipfs://" + root.CID().String() + "//x/",
		"5khrmpntq2bjexseshc6ldklwnig56gbj23yvbxjbdcwestheahq/b", "http://h/b3/" + root.Hex() + "/%2f",
		"https://h/n/a.b", "/b3//",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := address.Canonical(text)
		if err != nil {
			if status.Of(err) != status.BadAddress {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if first, _, _ := strings.Cut(key, "/"); key != text && strings.HasPrefix(first, "b3:") && len(first) == 67 {
			if _, err := b3.Parse(strings.ToLower(first)); err != nil && !strings.Contains(text, first) {
				t.Fatalf("%q became %q: %v", text, key, err)
			}
		}
	})
}
