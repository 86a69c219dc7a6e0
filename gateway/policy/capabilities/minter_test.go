package capabilities

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// TestMinter: what one member mints for another counts there alone, for replicate alone and for
// minutes; it is used again for some time.
func TestMinter(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if _, err := Open(home).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, _ := verifierOf(t, home)
		m, err := c.Minter()
		if err != nil {
			t.Fatal(err)
		}
		ring, err := Open(home).Ring()
		if err != nil {
			t.Fatal(err)
		}
		to, err := peer.IDFromPrivateKey(aKey(t))
		if err != nil {
			t.Fatal(err)
		}
		there := capability.NewVerifier(to.String(), nil, nil)
		there.Set(ring, capability.Revocations{})
		root := b3.Sum(nil)
		ask := capability.Request{Op: capability.Replicate, Object: root, Method: "lease"}
		mint := func(to peer.ID, root b3.Root) []byte {
			t.Helper()
			raw, err := m.Replicate(to, root)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		whole, one := mint(to, b3.Root{}), mint(to, root)
		for _, raw := range [][]byte{whole, one} {
			if _, err := there.Verify(capability.Text(raw), ask); err != nil {
				t.Error(err)
			}
			if _, err := there.Verify(capability.Text(raw), capability.Request{Op: capability.Put}); err == nil {
				t.Error("it allows what people do")
			}
		}
		other := ask
		other.Object = b3.Root{1}
		if _, err := there.Verify(capability.Text(one), other); status.Of(err) != status.Forbidden {
			t.Errorf("another object: %v", err)
		}
		if _, err := c.Verify(t.Context(), capability.Text(whole), ask); status.Of(err) != status.Forbidden {
			t.Errorf("another node: %v", err)
		}
		if !bytes.Equal(whole, mint(to, b3.Root{})) {
			t.Error("it is minted anew at once")
		}
		time.Sleep(mintReuse)
		if bytes.Equal(whole, mint(to, b3.Root{})) {
			t.Error("it is used for too long")
		}
		time.Sleep(mintLife)
		if _, err := there.Verify(capability.Text(whole), ask); err == nil {
			t.Error("it counts for too long")
		}
		for i := range 2 * maxMinted {
			mint(to, b3.Root{byte(i), byte(i >> 8), 1})
		}
		if n := m.minted.Len(); n != maxMinted {
			t.Errorf("%d capabilities are remembered", n)
		}
	})
}

// TestMinterRotation: a member that has not got the latest key, or not the oldest any more,
// understands the first or second capability.
func TestMinterRotation(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first, err := Open(home).Rotate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Open(home).Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, _ := verifierOf(t, home)
	m, err := c.Minter()
	if err != nil {
		t.Fatal(err)
	}
	to, err := peer.IDFromPrivateKey(aKey(t))
	if err != nil {
		t.Fatal(err)
	}
	there := capability.NewVerifier(to.String(), nil, nil)
	there.Set(first, capability.Revocations{})
	for i, want := range []status.Outcome{status.Unauthenticated, status.OK, status.OK} {
		raw, err := m.Replicate(to, b3.Root{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = there.Verify(capability.Text(raw), capability.Request{Op: capability.Replicate})
		if status.Of(err) != want {
			t.Errorf("try %d: %v, want %s", i+1, err, want)
		}
		if err != nil {
			m.Refused(to)
		}
	}
}

// TestMinterWithoutRing: a node without a key mints nothing.
func TestMinterWithoutRing(t *testing.T) {
	t.Parallel()
	c, _ := verifierOf(t, t.TempDir())
	m, err := c.Minter()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Replicate("x", b3.Root{}); status.Of(err) != status.NotFound {
		t.Error(err)
	}
}
