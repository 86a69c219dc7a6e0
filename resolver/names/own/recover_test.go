package own

import (
	"bytes"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
)

// damage stops the service, replaces the file of its zone and starts the service again.
func (b *bed) damage(t *testing.T, change func(good []byte) []byte) (bad []byte) {
	t.Helper()
	b.stop()
	file := fileOf(b.home, b.zone)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad = change(good)
	if err := os.WriteFile(file, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	b.start(t)
	return bad
}

// TestRecover: of a damaged file, the lines that can be verified stay in force, the file is set aside as
// it was, and the next start finds no damage.
func TestRecover(t *testing.T) {
	t.Run("whole", func(t *testing.T) { testRecover(t, false) })
	t.Run("interrupted", func(t *testing.T) { testRecover(t, true) })
}

// testRecover runs TestRecover. interrupted: an earlier recovery ended after it had set the file aside.
func testRecover(t *testing.T, interrupted bool) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.publish(t, "a", "one")
		b.publish(t, "b", "two")
		bad := b.damage(t, func(good []byte) []byte {
			if interrupted {
				if err := os.Link(fileOf(b.home, b.zone), fileOf(b.home, b.zone)+damagedExt+"1"); err != nil {
					t.Fatal(err)
				}
			}
			return good[:len(good)-9]
		})
		if all := b.List(); len(all) != 1 || all[0].Name != b.name(t, "a") {
			t.Fatalf("recovered %v", all)
		}
		aside, err := os.ReadFile(fileOf(b.home, b.zone) + damagedExt + "1")
		if err != nil || !bytes.Equal(aside, bad) {
			t.Errorf("the damaged file: %d of %d bytes, %v", len(aside), len(bad), err)
		}
		known, err := b.peers.find(t.Context(), b.name(t, "b"), true)
		if err != nil {
			t.Fatal(err)
		}
		before := known.Seq()
		if st, err := b.Publish(t.Context(), b.request(t, "b", "three")); err != nil || st.Seq <= before {
			t.Errorf("number %d after %d, %v", st.Seq, before, err)
		}
		b.stop()
		b.start(t)
		if all := b.List(); len(all) != 2 {
			t.Errorf("after the next start: %v", all)
		}
		if _, err := os.Stat(fileOf(b.home, b.zone) + damagedExt + "2"); err == nil {
			t.Error("the mended file was set aside too")
		}
	})
}

// TestRecoverNewer: where the peers have a newer record than the damaged file, which was this node's own,
// it is taken up and kept in force. No peer is sent an older one.
func TestRecoverNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.publish(t, "a", "one")
		old, err := os.ReadFile(fileOf(b.home, b.zone))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		newest := b.publish(t, "a", "two")
		b.peers.set(true) // the question has to be asked again
		b.damage(t, func([]byte) []byte { return append(old, "torn"...) })
		sent, _ := b.peers.last()
		time.Sleep(time.Second)
		b.peers.set(false)
		time.Sleep(time.Hour)
		all := b.List()
		if len(all) != 1 || all[0].Seq != newest.Seq || all[0].Value.String() != "two" || all[0].Problem != "" {
			t.Fatalf("in force: %+v", all)
		}
		if n, last := b.peers.last(); n == sent || last.Seq != newest.Seq {
			t.Errorf("%d records were sent, the last with number %d, not %d", n-sent, last.Seq, newest.Seq)
		}
		b.stop()
		b.start(t)
		if all := b.List(); len(all) != 1 || all[0].Seq != newest.Seq {
			t.Errorf("on disk: %+v", all)
		}
	})
}

// TestRecoverHeld: records that the node holds for others replace those that cannot be read, and nothing
// is signed below the floor while no peer answers and the clock is behind.
func TestRecoverHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.publish(t, "a", "one")
		known, err := b.peers.find(t.Context(), b.name(t, "a"), true)
		if err != nil {
			t.Fatal(err)
		}
		held := known.Records()
		floor := held[0].Seq + uint64(time.Minute.Milliseconds())
		b.held = func(name.Zone) []name.Signed { return held }
		b.floor = func(n name.Name) uint64 {
			if n == b.name(t, "b") {
				return floor
			}
			return 0
		}
		b.damage(t, func(good []byte) []byte { return bytes.ToLower(good) })
		if all := b.List(); len(all) != 1 || all[0].Seq != held[0].Seq {
			t.Fatalf("recovered %v", all)
		}
		b.peers.set(true)
		if st := b.publish(t, "b", "two"); st.Seq <= floor {
			t.Errorf("published with number %d, not above %d", st.Seq, floor)
		}
	})
}

// TestRecoverCut: wherever a file is cut, and whichever byte is wrong, the service starts, keeps only
// records of the file, and can publish.
func TestRecoverCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		for _, label := range []string{"a", "b", "c"} {
			b.publish(t, label, "x")
		}
		good, err := os.ReadFile(fileOf(b.home, b.zone))
		if err != nil {
			t.Fatal(err)
		}
		b.peers.set(true)
		for at := 0; at < len(good); at += 7 {
			for _, bad := range [][]byte{good[:at], flipped(good, at)} {
				b.damage(t, func([]byte) []byte { return bad })
				for _, st := range b.List() {
					if st.Value.String() != "x" {
						t.Fatalf("byte %d: %+v", at, st)
					}
				}
				if lost := bytes.Count(good[min(at, len(good)-1):], []byte("\n")); len(b.List()) < 3-lost {
					t.Fatalf("byte %d: %d records", at, len(b.List()))
				}
				if _, err := b.Publish(t.Context(), b.request(t, "d", "y")); err != nil {
					t.Fatalf("byte %d: %v", at, err)
				}
				for i := 1; i <= maxAside; i++ {
					_ = os.Remove(fileOf(b.home, b.zone) + damagedExt + string(rune('0'+i)))
				}
			}
		}
	})
}

// flipped returns p with one bit of a byte turned.
func flipped(p []byte, at int) []byte {
	p = bytes.Clone(p)
	p[at] ^= 4
	return p
}

// TestRecoverRefused: a file that other users can write, or that cannot be set aside, refuses the zone
// until that is mended, without a restart.
func TestRecoverRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		b.publish(t, "a", "one")
		file := fileOf(b.home, b.zone)
		b.damage(t, func(good []byte) []byte {
			if err := os.Chmod(file, 0o666); err != nil {
				t.Fatal(err)
			}
			return good
		})
		_, err := b.Publish(t.Context(), b.request(t, "a", "two"))
		fails(t, err, status.Forbidden)
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
		b.publish(t, "a", "two")
		for i := 1; i <= maxAside; i++ {
			if err := os.WriteFile(file+damagedExt+string(rune('0'+i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		b.damage(t, func(good []byte) []byte { return good[:len(good)-1] })
		_, err = b.Publish(t.Context(), b.request(t, "a", "three"))
		fails(t, err, status.Corrupt)
		if err := os.Remove(file + damagedExt + "3"); err != nil {
			t.Fatal(err)
		}
		b.publish(t, "a", "three")
	})
}
