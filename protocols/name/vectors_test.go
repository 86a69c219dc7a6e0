package name

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/b3"
	"allium/protocols/record"
)

var update = flag.Bool("update", false, "write ../oap/testdata/names.txt anew")

const vectorsFile = "../oap/testdata/names.txt"

const vectorsHead = `# Names (SPEC.md, section 11): labels, records and a zone map.
#
#   label     text ⇒ normal form ⇒ skeleton in hex; "refused" if it is no label
#   seed      the 32 bytes of an Ed25519 private key; zone and id are its public key
#   record    label, seq, value, not_after and ttl; digest is that of its DHT key
#   map       seq, not_after and the entries, which the key with that seed signed
#
# An Ed25519 signature is deterministic, so the envelopes are exact. All were signed at
# 2026-01-02T15:04:05Z.
`

// TestVectors compares what this package encodes with the file, which other implementations
// test against, and opens what is in the file.
func TestVectors(t *testing.T) {
	var b strings.Builder
	b.WriteString(vectorsHead)
	for _, s := range []string{
		"blog", "Blog", "ＢＬＯＧ", "Bu\u0308cher", "xn--bcher-kva", "straße", "STRAẞE", "東京タワー", "한국漢字", "привет",
		"modem", "paypa1",
		"a.b", "a b", "☃", "pаypal", "tokyo東京", "-a",
	} {
		l, err := ParseLabel(s)
		if err != nil {
			fmt.Fprintf(&b, "label %s ⇒ refused\n", s)
			continue
		}
		fmt.Fprintf(&b, "label %s ⇒ %s ⇒ %x\n", s, l, Skeleton(l))
	}
	key, zone := newKey(t, 1)
	fmt.Fprintf(&b, "\nseed %s\nzone %s\nid %s\n", seedOf(t, key), zone, zone.ID())
	for i, text := range []string{"", "hello", b3.Sum(nil).String() + "/a/b", "home." + zone.String()} {
		r := Record{
			Name: Name{label(t, "bücher"), zone}, Seq: NextSeq(0, at) + uint64(i), Value: value(t, text),
			NotAfter: at.Add(DefaultLife), TTL: DefaultTTL,
		}
		s := sign(t, key, r)
		payload, _, err := kind.Peek(s.Envelope)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\nrecord %s %d %q %s %s\ndigest %x\npayload %x\nenvelope %x\n", r.Name.Label, r.Seq, text,
			r.NotAfter.Format(time.RFC3339), r.TTL, r.Name.Digest(), payload, s.Envelope)
	}
	signer, _ := newKey(t, 9)
	m := someMap(t)
	text, _ := signMap(t, m)
	fmt.Fprintf(&b, "\nseed %s\nmap %d %s\n", seedOf(t, signer), m.Seq, m.NotAfter.Format(time.RFC3339))
	for _, e := range m.Entries {
		fmt.Fprintf(&b, "entry %s %s\n", e.Short, e.Zone)
	}
	raw, err := record.DecodeText(mapBlock, text, MaxMapText)
	if err != nil {
		t.Fatal(err)
	}
	payload, _, err := mapKind.Peek(raw)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "payload %x\n%s", payload, text)

	if *update {
		if err := os.WriteFile(vectorsFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := []byte(b.String()); !bytes.Equal(got, want) {
		t.Errorf("the vectors differ from %s; compare with -update:\n%s", vectorsFile, got)
	}
}

func seedOf(t *testing.T, key crypto.PrivKey) string {
	t.Helper()
	raw, err := key.Raw()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw[:32])
}
