package node

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	homedir "allium/node/home"

	"allium/node/p2p"
	"allium/protocols/status"
)

// TestSignAndInspectSeeds signs with an identity as a home has it, and reads
// back what a node with and without that authority would.
func TestSignAndInspectSeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, file := filepath.Join(dir, homedir.KeyFile), filepath.Join(dir, "seeds.pem")
	if _, _, err := SignSeeds(key, nil, 1, time.Now()); status.Of(err) != status.BadRequest {
		t.Errorf("without a key: %v", err)
	}
	if _, err := os.Stat(key); err == nil {
		t.Error("a key was made")
	}
	if _, err := p2p.LoadOrCreateKey(key); err != nil {
		t.Fatal(err)
	}
	const id = "12D3KooWDxzNkPjaS71tdWdPn8dXdzXJ5CMZV6nZVfUcjhBB1zQ6"
	const other = "12D3KooWBgGF8kGMbuDjXJ4ya1RZX479VNS4sfoATXWBNLha2b5G"
	write := func(p []byte) {
		if err := os.WriteFile(file, p, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addrs := []string{"/ip4/192.0.2.1/tcp/1/p2p/" + id, "/ip4/192.0.2.1/udp/1/quic-v1/p2p/" + id}
	text, signed, err := SignSeeds(key, addrs, 7, time.Now().Add(time.Hour))
	if err != nil || signed.Seq != 7 || len(signed.Seeds) != 1 || signed.Seeds[0].ID != id ||
		!slices.Equal(signed.Seeds[0].Addrs, []string{"/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.1/udp/1/quic-v1"}) {
		t.Fatalf("%+v, %v", signed, err)
	}
	write(text)
	for _, c := range []struct {
		authorities []string
		want        status.Outcome
	}{{nil, status.OK}, {[]string{other, signed.Signer}, status.OK}, {[]string{other}, status.BadSignature}} {
		got, err := InspectSeeds(file, c.authorities)
		if status.Of(err) != c.want || got.Signer != signed.Signer || !got.NotAfter.Equal(signed.NotAfter) ||
			len(got.Seeds) != 1 {
			t.Errorf("%v: %+v, %v", c.authorities, got, err)
		}
	}
	if _, err := InspectSeeds(file, []string{"x"}); status.Of(err) != status.BadRequest {
		t.Errorf("a bad authority: %v", err)
	}
	text, _, err = SignSeeds(key, addrs, 7, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	write(text)
	if got, err := InspectSeeds(file, nil); status.Of(err) != status.Stale || got.Seq != 7 {
		t.Errorf("expired: %+v, %v", got, err)
	}
	write(bytes.Repeat([]byte("x"), 2*maxSeedFile))
	if _, err := InspectSeeds(file, nil); status.Of(err) != status.BodyCap {
		t.Errorf("too long: %v", err)
	}
	for _, name := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := InspectSeeds(name, nil); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
