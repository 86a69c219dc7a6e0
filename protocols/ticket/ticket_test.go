package ticket

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/status"
)

var update = flag.Bool("update", false, "write ../oap/testdata/tickets.txt anew")

func someone(t testing.TB, seed byte) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(bytes.NewReader(bytes.Repeat([]byte{seed}, 64)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func addrs(texts ...string) (all []ma.Multiaddr) {
	for _, s := range texts {
		all = append(all, ma.StringCast(s))
	}
	return all
}

var end = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// tickets are the tickets of the vectors.
func tickets(t testing.TB) []Ticket {
	t.Helper()
	root, id := b3.Sum([]byte("hello")), someone(t, 1)
	relay := ma.StringCast("/ip4/198.51.100.9/tcp/4901/p2p/" + someone(t, 2).String() + "/p2p-circuit")
	two := addrs("/ip4/192.0.2.1/udp/4901/quic-v1", "/ip4/192.0.2.1/tcp/4901")
	return []Ticket{
		{Root: root, Peer: id},
		{Root: root, Size: 5, Peer: id, Addrs: two, NotAfter: end},
		{
			Root: root, Directory: true, Size: 1<<53 - 1, Peer: id, Relay: relay, NotAfter: end, Name: "Grüße aus 東京",
			Addrs:   append(two, addrs("/ip6/2001:db8::1/udp/4901/quic-v1", "/ip6/2001:db8::1/tcp/4901")...),
			Network: NetworkOf(bytes.Repeat([]byte{7}, 32)),
		},
	}
}

const vectorsFile = "../oap/testdata/tickets.txt"

const vectorsHead = `# Tickets (SPEC.md, section 11).
#
#   ticket    digest, kind, size, peer, not_after, name in quotes and network, each - if it is left out;
#             the lines below have the addresses, the relay, the payload in hex and the text
#   ignored   a payload with members that a later version may have: it means what the first ticket means
#   refused   a text that is no ticket, and why
`

func describeTicket(t Ticket) string {
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	kind, ends, network := "file", "", ""
	if t.Directory {
		kind = "directory"
	}
	if !t.NotAfter.IsZero() {
		ends = t.NotAfter.Format(time.RFC3339)
	}
	if !t.Network.IsZero() {
		network = t.Network.String()
	}
	s := fmt.Sprintf("ticket %s %s %d %s %s %q %s\n", t.Root, kind, t.Size, t.Peer, dash(ends), t.Name, dash(network))
	for _, a := range t.Addrs {
		s += "address " + a.String() + "\n"
	}
	if t.Relay != nil {
		s += "relay " + t.Relay.String() + "\n"
	}
	return s
}

// extended is a ticket with members that this version does not know.
func extended(t testing.TB) (text string, payload []byte) {
	t.Helper()
	var members map[int64]any
	first := tickets(t)[0]
	payload, err := canonical.Marshal(wire{Version: 1, Digest: first.Root[:], Peer: []byte(first.Peer)})
	if err != nil {
		t.Fatal(err)
	}
	if err := record.NewCodec(16).Unmarshal(payload, &members); err != nil {
		t.Fatal(err)
	}
	members[10], members[-1] = "new", []any{uint64(1), map[any]any{"a": 1.5}}
	if payload, err = canonical.Marshal(members); err != nil {
		t.Fatal(err)
	}
	return encodeBech32m(prefix, payload), payload
}

func TestVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString(vectorsHead)
	for _, want := range tickets(t) {
		text, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		payload, _ := decodeBech32m(prefix, text)
		fmt.Fprintf(&b, "\n%spayload %x\ntext %s\n", describeTicket(want), payload, text)
		for _, s := range []string{text, strings.ToUpper(text)} {
			got, err := Parse(s)
			if err != nil || describeTicket(got) != describeTicket(want) {
				t.Errorf("%s: %v\n%s\nwant\n%s", s, err, describeTicket(got), describeTicket(want))
			}
		}
	}
	text, payload := extended(t)
	fmt.Fprintf(&b, "\nignored %x\ntext %s\n", payload, text)
	if got, err := Parse(text); err != nil || describeTicket(got) != describeTicket(tickets(t)[0]) {
		t.Errorf("with unknown members: %v\n%s", err, describeTicket(got))
	}
	b.WriteString("\n")
	for _, c := range refused(t) {
		if len(c.text) < 300 && !strings.ContainsAny(c.text, " \n") {
			fmt.Fprintf(&b, "refused %s %s\n", c.why, c.text)
		}
	}
	if *update {
		if err := os.WriteFile(vectorsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the vectors differ from %s; compare with -update:\n%s", vectorsFile, b.String())
	}
}

type refusedText struct {
	text string
	why  Refusal
}

// refused are texts that are no tickets.
func refused(t testing.TB) []refusedText {
	t.Helper()
	good, err := tickets(t)[1].Encode()
	if err != nil {
		t.Fatal(err)
	}
	id, digest := []byte(someone(t, 1)), bytes.Repeat([]byte{1}, 32)
	of := func(m map[int64]any) string {
		all := map[int64]any{0: 1, 1: digest, 4: id}
		for k, v := range m {
			all[k] = v
		}
		p, err := canonical.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return encodeBech32m(prefix, p)
	}
	tcp := ma.StringCast("/ip4/192.0.2.1/tcp/4901").Bytes()
	withPeer := ma.StringCast("/ip4/192.0.2.1/tcp/1/p2p/" + someone(t, 2).String())
	twice := strings.Replace(good, good[20:21], map[bool]string{true: "p", false: "q"}[good[20] == 'q'], 1)
	return []refusedText{
		{good + strings.Repeat("q", MaxText+1-len(good)), TooLong},
		{strings.ToUpper(good[:30]) + good[30:], MixedCase},
		{"", NoTicket},
		{"allium", NoTicket},
		{"bllium1" + good[7:], NoTicket},
		{" " + good, NoTicket},
		{good[:40] + "b" + good[41:], BadCharacter},
		{good + "\n", BadCharacter},
		{twice, BadChecksum},
		{good[:len(good)-1], BadChecksum},
		{good[:len(good)/2], BadChecksum},
		{"allium1", BadChecksum},
		{encodeBech32m(prefix, nil), Malformed},
		{encodeBech32m(prefix, []byte{0xa0}), Malformed},
		{encodeBech32m(prefix, []byte{0xa1, 0x18, 0x00, 0x01}), Malformed}, // the key 0 in two bytes
		{of(map[int64]any{2: 0}), Malformed},                               // zero members are left out
		{of(map[int64]any{1: "text"}), Malformed},
		{of(map[int64]any{5: make([][]byte, 17)}), Malformed},
		{of(map[int64]any{0: 2, 1: 7}), BadVersion},
		{of(map[int64]any{0: 2}), BadVersion},
		{of(map[int64]any{1: digest[:31]}), BadField},
		{of(map[int64]any{2: 2}), BadField},
		{of(map[int64]any{3: uint64(1 << 53)}), BadField},
		{of(map[int64]any{4: []byte("x")}), BadField},
		{of(map[int64]any{5: [][]byte{tcp, tcp, tcp, tcp, tcp}}), BadField},
		{of(map[int64]any{5: [][]byte{{1, 2}}}), BadField},
		{of(map[int64]any{5: [][]byte{withPeer.Bytes()}}), BadField},
		{of(map[int64]any{5: [][]byte{make([]byte, MaxAddress+1)}}), BadField},
		{of(map[int64]any{6: tcp}), BadField},
		{of(map[int64]any{7: uint64(1 << 60)}), BadField},
		{of(map[int64]any{8: strings.Repeat("x", MaxName+1)}), BadField},
		{of(map[int64]any{8: "../.bashrc"}), BadField},
		{of(map[int64]any{8: ".."}), BadField},
		{of(map[int64]any{8: `a\b`}), BadField},
		{of(map[int64]any{8: "a\x1b[31m"}), BadField},
		{of(map[int64]any{9: make([]byte, 8)}), BadField},
		{of(map[int64]any{9: []byte{1}}), BadField},
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for i, c := range refused(t) {
		_, err := Parse(c.text)
		var e *Error
		if !errors.As(err, &e) || e.Refusal != c.why {
			t.Errorf("%d: %.60q: %v, want %s", i, c.text, err, c.why)
			continue
		}
		if o := status.Of(err); o.Success() || o == status.Internal {
			t.Errorf("%s has the outcome %s", c.why, o)
		}
	}
}

// TestEncodeRefuses: what Parse refuses is not encoded.
func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	good := tickets(t)[1]
	for name, change := range map[string]func(*Ticket){
		"name":       func(k *Ticket) { k.Name = "../x" },
		"negative":   func(k *Ticket) { k.Size = -1 },
		"no peer":    func(k *Ticket) { k.Peer = "" },
		"addresses":  func(k *Ticket) { k.Addrs = slices.Repeat(k.Addrs, 3) },
		"relay":      func(k *Ticket) { k.Relay = k.Addrs[0] },
		"fraction":   func(k *Ticket) { k.NotAfter = end.Add(time.Millisecond) },
		"before all": func(k *Ticket) { k.NotAfter = time.Unix(-5, 0) },
		"too long": func(k *Ticket) {
			k.Name = strings.Repeat("x", MaxName)
			long := "/dns4/" + strings.Repeat("x", 200) + "/tcp/1"
			k.Addrs = addrs(long, long, long)
		},
	} {
		k := good
		change(&k)
		if text, err := k.Encode(); err == nil {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestLength: a ticket with two IPv4 addresses and no name has at most 200 characters.
func TestLength(t *testing.T) {
	t.Parallel()
	k := tickets(t)[1]
	k.Size = 1 << 20
	text, err := k.Encode()
	if err != nil || len(text) > 200 {
		t.Errorf("%d characters, %v", len(text), err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	one, other := NetworkOf([]byte("one")), NetworkOf([]byte("other"))
	if one == other || one.IsZero() || !NetworkOf(nil).IsZero() {
		t.Fatal("fingerprints")
	}
	self, k := someone(t, 3), tickets(t)[1]
	private := k
	private.Network = one
	for name, c := range map[string]struct {
		ticket  Ticket
		now     time.Time
		network Network
		self    peer.ID
		want    Refusal
	}{
		"good":            {k, end, Network{}, self, ""},
		"no end":          {tickets(t)[0], end.AddDate(50, 0, 0), Network{}, self, ""},
		"expired":         {k, end.Add(time.Second), Network{}, self, Expired},
		"own":             {k, end, Network{}, k.Peer, Own},
		"private":         {private, end, one, self, ""},
		"another private": {private, end, other, self, OtherNetwork},
		"not in it":       {private, end, Network{}, self, OtherNetwork},
		"not public":      {k, end, one, self, OtherNetwork},
	} {
		err := c.ticket.Check(c.now, c.network, c.self)
		var e *Error
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &e) || e.Refusal != c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	relay := "/p2p/" + someone(t, 2).String() + "/p2p-circuit"
	lan := []netip.Prefix{netip.MustParsePrefix("192.168.1.7/24"), netip.MustParsePrefix("fd00::1/64")}
	for _, c := range []struct {
		addr     string
		reach    Reach
		lan      bool // dialled from the prefixes of lan
		loopback bool // dialled with loopback
	}{
		{"/ip4/8.8.8.8/tcp/1", Anywhere, true, true},
		{"/ip6/2606:4700::1/udp/1/quic-v1", Anywhere, true, true},
		{"/ip4/192.168.1.200/tcp/1", LAN, true, true},
		{"/ip4/192.168.2.200/tcp/1", LAN, false, false},
		{"/ip4/100.64.0.1/tcp/1", LAN, false, false},
		{"/ip4/169.254.169.254/tcp/80", LAN, false, false},
		{"/ip6/fd00::9/tcp/1", LAN, true, true},
		{"/ip4/127.0.0.1/tcp/1", Machine, false, true},
		{"/ip6/::1/tcp/1", Machine, false, true},
		{"/ip6/::ffff:127.0.0.1/tcp/1", Machine, false, true},
		{"/ip6/::ffff:10.0.0.1/tcp/1", LAN, false, false},
		{"/ip4/0.0.0.0/tcp/1", Nowhere, false, false},
		{"/ip4/224.0.0.1/udp/1/quic-v1", Nowhere, false, false},
		{"/dns4/localhost/tcp/1", Nowhere, false, false},
	} {
		a := ma.StringCast(c.addr)
		if got, _ := ReachOf(a); got != c.reach {
			t.Errorf("%s reaches %s, want %s", c.addr, got, c.reach)
		}
		for _, k := range []Ticket{{Addrs: addrs(c.addr)}, {Relay: ma.StringCast(c.addr + relay)}} {
			if got := len(k.Source(lan, false).Addrs) == 1; got != c.lan {
				t.Errorf("%s: dialled %t, want %t", c.addr, got, c.lan)
			}
			if got := len(k.Source(lan, true).Addrs) == 1; got != c.loopback {
				t.Errorf("%s with loopback: dialled %t, want %t", c.addr, got, c.loopback)
			}
			if k.Reach() != c.reach {
				t.Errorf("a ticket with %s reaches %s, want %s", c.addr, k.Reach(), c.reach)
			}
		}
	}
}

// TestBIP350 checks the vectors of BIP-350.
func TestBIP350(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, prefix string }{
		{"A1LQFN3A", "a"}, {"a1lqfn3a", "a"},
		{"an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber11sg7hg6",
			"an83characterlonghumanreadablepartthatcontainsthetheexcludedcharactersbioandnumber1"},
		{"abcdef1l7aum6echk45nj3s0wdvt2fg8x9yrzpqzd3ryx", "abcdef"},
		{"split1checkupstagehandshakeupstreamerranterredcaperredlc445v", "split"},
		{"?1v759aa", "?"},
	} {
		if _, err := decodeBech32m(c.prefix, c.text); err != "" && err != Malformed { // some are no whole bytes
			t.Errorf("%s: %s", c.text, err)
		}
	}
	for text, prefix := range map[string]string{
		"M1VUXWEZ": "m", "in1muywd": "in", "mm1crxm3i": "mm", "au1s5cgom": "au",
		"qyrz8wqd2c9m": "q", "y1b0jsk6g": "y", "lt1igcx5c0": "lt",
		"A12UEL5L": "a", // BIP-173
	} {
		if got, err := decodeBech32m(prefix, text); err == "" {
			t.Errorf("%s: %x", text, got)
		}
	}
	for n := range 50 {
		data := bytes.Repeat([]byte{byte(n * 37)}, n)
		if got, err := decodeBech32m("x", encodeBech32m("x", data)); err != "" || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %x, %s", n, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, k := range tickets(f) {
		text, err := k.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, c := range refused(f) {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(text)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) || len(err.Error()) > 300 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		checkTicket(t, k)
	})
}

// FuzzPayload reads payloads whose checksum is right.
func FuzzPayload(f *testing.F) {
	for _, c := range refused(f) {
		if p, err := decodeBech32m(prefix, c.text); err == "" {
			f.Add(p)
		}
	}
	_, p := extended(f)
	f.Add(p)
	f.Fuzz(func(t *testing.T, payload []byte) {
		if k, err := Parse(encodeBech32m(prefix, payload)); err == nil {
			checkTicket(t, k)
		}
	})
}

// checkTicket: what was parsed can be encoded, and means the same.
func checkTicket(t *testing.T, k Ticket) {
	t.Helper()
	text, err := k.Encode()
	if err != nil {
		t.Fatalf("%+v: %v", k, err)
	}
	again, err := Parse(text)
	if err != nil || describeTicket(again) != describeTicket(k) || checkName(k.Name) != nil {
		t.Errorf("%s becomes %s, %v", describeTicket(k), describeTicket(again), err)
	}
}
