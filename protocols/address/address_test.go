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
	for text, want := range map[string]string{
		key: key, key + "/a/b": key + "/a/b",
		hex: key, strings.ToUpper(hex): key, hex + "/a b/c": key + "/a b/c",
		cid: key, cid + "/x": key + "/x", "ipfs://" + cid: key, "IPFS://" + cid + "/a/": key + "/a",
		"https://gw.example.org/b3/" + key: key, "http://127.0.0.1:8080/b3/" + hex + "/a%20b/?download#x": key + "/a b",
		"https://gw.example.org/n/blog.alice/img": "blog.alice/img", "/b3/" + key + "/a": key + "/a", "/n/blog.alice": "blog.alice",
		"blog.alice/x": "blog.alice/x", "nonsense": "nonsense", "": "", hex[:40]: hex[:40], "b3:" + hex[:8]: "b3:" + hex[:8],
	} {
		if got, err := address.Canonical(text); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"https://example.org/", "https://example.org/b3/", "http://example.org/%zz", "ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG",
		"ipfs://bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi", "bafkr4inonsense", "ipfs://",
	} {
		if got, err := address.Canonical(text); status.Of(err) != status.BadAddress {
			t.Errorf("%q is %q, %v", text, got, err)
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
		"http://h/b3/" + root.Hex() + "/%2f", "https://h/n/a.b", "/b3//",
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
