package name

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multibase"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestZone(t *testing.T) {
	key, zone := newKey(t, 1)
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if zone.ID() != id || !zone.Signs(key.GetPublic()) || zone.IsZero() {
		t.Errorf("the zone of %s is %s", id, zone.ID())
	}
	if s := zone.String(); len(s) != 62 || !strings.HasPrefix(s, "k51") || strings.ToLower(s) != s {
		t.Errorf("it is shown as %s", s)
	}
	for _, s := range []string{zone.String(), id.String()} {
		if got, err := ParseZone(s); err != nil || got != zone {
			t.Errorf("%s is %v, %v", s, got, err)
		}
	}
	var back Zone
	p, err := json.Marshal(zone)
	if err == nil {
		err = json.Unmarshal(p, &back)
	}
	if err != nil || back != zone {
		t.Errorf("%s became %v, %v", p, back, err)
	}
}

func TestParseZoneRefuses(t *testing.T) {
	_, zone := newKey(t, 1)
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, _, err := crypto.GenerateSecp256k1Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	base := func(id peer.ID, b multibase.Encoding) string {
		s, err := peer.ToCid(id).StringOfBase(b)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	idOf := func(key crypto.PrivKey) peer.ID {
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	raw, err := cid.NewCidV1(cid.Raw, []byte(zone.ID())).StringOfBase(multibase.Base36)
	if err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]string{
		"nothing":       "",
		"a word":        "kitchen",
		"cut":           zone.String()[:61],
		"longer":        zone.String() + "a",
		"very long":     "k" + strings.Repeat("5", 10000),
		"upper case":    strings.ToUpper(zone.String()),
		"mixed case":    "k51" + strings.ToUpper(zone.String()[3:]),
		"base32":        base(zone.ID(), multibase.Base32),
		"another codec": raw,
		"no key":        Zone{}.String(),
		"RSA":           base(idOf(rsa), multibase.Base36),
		"RSA, base58":   idOf(rsa).String(),
		"secp256k1":     base(idOf(ec), multibase.Base36),
		"secp, base58":  idOf(ec).String(),
	} {
		if got, err := ParseZone(s); status.Of(err) != status.BadAddress {
			t.Errorf("%s: %v, %v", what, got, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: the message has %d bytes", what, len(err.Error()))
		}
	}
	if _, err := ZoneOf(rsa.GetPublic()); status.Of(err) != status.BadAddress {
		t.Errorf("an RSA key: %v", err)
	}
	if zone.Signs(rsa.GetPublic()) {
		t.Error("a zone is that of an RSA key")
	}
}

func TestName(t *testing.T) {
	_, zone := newKey(t, 1)
	n, err := Parse("Blog." + zone.ID().String())
	if err != nil || n.String() != "blog."+zone.String() {
		t.Fatalf("%v, %v", n, err)
	}
	if again, err := Parse(n.String()); err != nil || again != n {
		t.Errorf("%v, %v", again, err)
	}
	digest := sha256.Sum256([]byte(string(zone.ID()) + "\x00blog"))
	if n.Digest() != digest || n.Key() != "/allium-name/"+string(digest[:]) {
		t.Errorf("digest %x, key %q", n.Digest(), n.Key())
	}
	for what, s := range map[string]string{
		"nothing":    "",
		"no zone":    "blog",
		"no key":     "blog.",
		"no label":   "." + zone.String(),
		"two labels": "my.blog." + zone.String(),
		"a petname":  "blog.alice",
		"key first":  zone.String() + ".blog",
		"long":       strings.Repeat("a", 10<<10) + "." + zone.String(),
	} {
		if got, err := Parse(s); status.Of(err) != status.BadAddress {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	if l, rest, err := Split("WWW.example.com"); err != nil || l.String() != "www" || rest != "example.com" {
		t.Errorf("%s, %s, %v", l, rest, err)
	}
	var bad *LabelError
	if _, err := Parse("a_b." + zone.String()); !errors.As(err, &bad) {
		t.Errorf("a wrong label: %v", err)
	}
}

func TestParseShort(t *testing.T) {
	_, zone := newKey(t, 1)
	if l, err := ParseShort("Alice"); err != nil || l.String() != "alice" {
		t.Errorf("%s, %v", l, err)
	}
	for _, s := range []string{zone.String(), "", "a.b"} {
		if _, err := ParseShort(s); status.Of(err) != status.BadAddress {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestValue(t *testing.T) {
	_, zone := newKey(t, 1)
	root := b3.Sum(nil)
	for s, want := range map[string]Kind{
		"":                            Withdrawn,
		"hello":                       Text,
		"hello.world":                 Text,
		"a\nb":                        Text,
		strings.Repeat("x", MaxValue): Text,
		root.String():                 Address,
		root.String() + "/a/b c":      Address,
		"blog." + zone.String():       Alias,
	} {
		v, err := ParseValue(s)
		if err != nil || v.Kind() != want || v.String() != s {
			t.Errorf("%.80q: %v %v, %v", s, v.Kind(), v, err)
		}
		_, _, isAddress := v.Address()
		_, isAlias := v.Alias()
		if isAddress != (want == Address) || isAlias != (want == Alias) {
			t.Errorf("%.80q: address %v, alias %v", s, isAddress, isAlias)
		}
	}
	for what, s := range map[string]string{
		"too long":       strings.Repeat("x", MaxValue+1),
		"not UTF-8":      "\xff",
		"short address":  "b3:abc",
		"upper case":     strings.ToUpper(root.String()),
		"no path":        root.String() + "/",
		"dots":           root.String() + "/a/../b",
		"two slashes":    root.String() + "/a//b",
		"NUL":            root.String() + "/a\x00",
		"decomposed":     root.String() + "/u\u0308",
		"label not so":   "Blog." + zone.String(),
		"wrong label":    "a b." + zone.String(),
		"two labels":     "my.blog." + zone.String(),
		"key as peer id": "blog." + zone.ID().String(),
	} {
		if v, err := ParseValue(s); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v, %v", what, v, err)
		}
	}
	if got, path, ok := value(t, root.String()+"/a/b").Address(); !ok || got != root || path != "a/b" {
		t.Errorf("%v %q %v", got, path, ok)
	}
	if n, ok := value(t, "blog."+zone.String()).Alias(); !ok || n.Zone != zone || n.Label.String() != "blog" {
		t.Errorf("%v, %v", n, ok)
	}
}

// TestJSON: the types show as text and are parsed from it; what is wrong changes nothing.
func TestJSON(t *testing.T) {
	_, zone := newKey(t, 1)
	type all struct {
		Label Label
		Name  Name
		Value Value
	}
	want := all{label(t, "blog"), Name{label(t, "blog"), zone}, value(t, b3.Sum(nil).String())}
	p, err := json.Marshal(want)
	if err != nil || !strings.Contains(string(p), `"Name":"blog.`+zone.String()+`"`) {
		t.Fatalf("%s, %v", p, err)
	}
	var got all
	if err := json.Unmarshal(p, &got); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{`{"Label":"a b"}`, `{"Name":"blog"}`, `{"Value":"b3:"}`} {
		if err := json.Unmarshal([]byte(bad), &got); err == nil || got != want {
			t.Errorf("%s: %+v, %v", bad, got, err)
		}
	}
	for kind, want := range map[Kind]string{
		Withdrawn: `"withdrawn"`, Address: `"address"`, Alias: `"alias"`, Text: `"text"`, 9: `"kind(9)"`,
	} {
		if p, err := json.Marshal(kind); err != nil || string(p) != want {
			t.Errorf("%s, %v", p, err)
		}
	}
	if want.Name.IsZero() || !(Name{}).IsZero() {
		t.Error("only the zero name is zero")
	}
}

// TestRoundTrip: the text of a name, with either form of the key, is that name again.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, err := ParseLabel(letters().Draw(t, "label"))
		if err != nil {
			return
		}
		n := Name{Label: l}
		copy(n.Zone[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "zone"))
		if n.Zone.IsZero() {
			return
		}
		for _, text := range []string{n.String(), l.String() + "." + n.Zone.ID().String()} {
			if got, err := Parse(text); err != nil || got != n {
				t.Errorf("%s is %s, %v", text, got, err)
			}
		}
		if v, err := ParseValue(n.String()); err != nil || v.Kind() != Alias {
			t.Errorf("%s as a value: %v, %v", n, v.Kind(), err)
		}
	})
}
